"""Read the tools of a package in an export, which is untrusted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from wasmrt.catalog._stored import load_tool
from wasmrt.core.errors import PackageError
from wasmrt.core.limits import (
    MAX_DESCRIPTION_BYTES,
    MAX_EXPORTED_TOOLS_BYTES,
    MAX_PROMPT_BYTES,
    MAX_SCHEMA_BYTES,
    MAX_TOOLS_PER_COMPONENT,
)
from wasmrt.core.names import check_prepared_name
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.sandbox.component import ToolSpec
from wasmrt.sandbox.schema import schema_problem

_MAX_BYTES = {"description": MAX_DESCRIPTION_BYTES, "prompt": MAX_PROMPT_BYTES}
_MAX_TEXT_BYTES = 1024
_PERMISSIONS = ("", "allow", "ask", "deny")


def read_tools(data: bytes) -> tuple[ToolSpec, ...]:
    """Read untrusted text in the format of `dump_tools`. Invalid schemas become the problem of their tool.

    Raises:
        PackageError: the text is not in this format, or exceeds a bound.
    """
    try:
        rows = read_json(data, max_bytes=MAX_EXPORTED_TOOLS_BYTES, max_depth=72, distinct=True)
        if not isinstance(rows, list) or len(rows) > MAX_TOOLS_PER_COMPONENT:
            raise ValueError(f"expected a list of at most {MAX_TOOLS_PER_COMPONENT} tools")
        return tuple(map(_read_tool, rows))
    except (JsonError, ValueError) as error:
        raise PackageError(f"the descriptions of the tools are not valid: {error}", code="export") from None


def _read_tool(row: Any) -> ToolSpec:
    if not isinstance(row, dict) or "name" not in row:
        raise ValueError("expected objects with a name")
    for key, value in row.items():
        if not _fits(key, value):
            raise ValueError(f"unexpected value of {key!r:.40}")
    check_prepared_name(row["name"])
    spec = load_tool(row)
    problems = [schema_problem(schema) for schema in (spec.schema, spec.output_schema) if schema is not None]
    return replace(spec, schema_problem=next(filter(None, problems), spec.schema_problem))


def _fits(key: str, value: Any) -> bool:
    """Return whether `value` is valid for the member `key` of a tool in an export.

    SECURITY: terms of use are only set for bundled tools.
    """
    match key:
        case "name" | "description" | "prompt" | "capability_id" | "schema_problem":
            return isinstance(value, str) and len(value.encode()) <= _MAX_BYTES.get(key, _MAX_TEXT_BYTES)
        case "read_only" | "destructive" | "network" | "hidden":
            return isinstance(value, bool)
        case "schema" | "output_schema":
            return isinstance(value, dict) and len(json.dumps(value)) <= 2 * MAX_SCHEMA_BYTES
        case "permission":
            return value in _PERMISSIONS
        case "problems":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "origins":
            return isinstance(value, list) and all(
                isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair)
                for pair in value
            )
        case _:
            return False
