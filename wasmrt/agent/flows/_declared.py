"""Declarations of third-party tools, in data files: the effects, the content parameters, and the labels of results.

A file is named after the publisher of its tools, with `+` instead of `:` and `/`: `npm+@scope+server.toml`, or
`server+NAME.toml` for a configured server. A file in the operator's directory replaces wasmrt's file of the same name.

SECURITY: a server can use any name and copy any schema. wasmrt's files therefore apply only to packages that wasmrt
installed from a registry, and each declaration only to the schema that was reviewed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from blake3 import blake3

from wasmrt.agent.flows._labels import read_labels
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import read_file
from wasmrt.core.limits import MAX_TOML_BYTES
from wasmrt.core.places import find_places
from wasmrt.core.strict_toml import Mistake, Place, Reader, TomlError, read_table, read_texts, read_toml
from wasmrt.core.tool_defaults import Declaration
from wasmrt.core.traits import read_effects

SHIPPED = Path(__file__).parent / "declared"
_PUBLISHER = re.compile(
    r"(?:npm|pypi|package|server|wasmrt):@?[a-z0-9][a-z0-9._-]{0,120}(?:/[a-z0-9][a-z0-9._-]{0,120})?"
)
_NOTES = frozenset(("description", "title", "examples", "$schema", "$id", "$comment"))
"""Keywords of JSON Schema that do not change which params are valid."""
_NAMES = frozenset(("properties", "patternProperties", "$defs", "definitions"))
"""Keywords whose members have names that the schema's author chose. Such a name can equal a keyword: `description`."""


def _read_digests(value: Any) -> frozenset[str]:
    return frozenset(read_texts([value] if isinstance(value, str) else value))


_FIELDS: dict[str, Reader] = {
    "schema": _read_digests,
    "effects": lambda value: read_effects(read_texts(value)),
    "content": read_texts,
    "results": lambda value: read_labels(read_texts(value)),
}


def find_declaration(publishers: Iterable[str], tool: str, schema: Mapping[str, Any]) -> Declaration | None:
    """Return the declaration of a tool, or None if no file for one of its publishers lists the tool.

    Publishers are `npm:NAME`, `pypi:NAME`, `package:NAME` (an installed component), `server:NAME` (the name of a
    configured server, only for the operator's files) and `wasmrt:tools` (the components that are part of wasmrt).

    Raises:
        ConfigurationError: a file of the operator has errors.
    """
    path = find_declaration_file(publishers)
    fields = None if path is None else _read_file(path, path.stat().st_mtime_ns).get(tool)
    return None if path is None or fields is None else _declare(path, dict(fields), schema)


def find_declaration_file(publishers: Iterable[str]) -> Path | None:
    """Return the file with the declarations of the first publisher that has one, or None."""
    names = [re.sub("[:/]", "+", each) + ".toml" for each in publishers if _PUBLISHER.fullmatch(each)]
    own = find_places().declarations
    return next((path for name in names for path in (own / name, SHIPPED / name) if path.is_file()), None)


def schema_digest(schema: Mapping[str, Any]) -> str:
    """Return a digest of a tool's schema without its descriptions, as the data files contain it."""
    text = json.dumps(_without_notes(schema), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest(length=16)


def _without_notes(value: Any, *, names: bool = False) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_notes(part, names=not names and key in _NAMES)
                for key, part in value.items() if names or key not in _NOTES}  # fmt: skip
    return [_without_notes(part) for part in value] if isinstance(value, list) else value


def _declare(path: Path, fields: dict[str, Any], schema: Mapping[str, Any]) -> Declaration:
    digests = fields.pop("schema", None)
    if digests is None or schema_digest(schema) in digests:
        return Declaration(str(path), True, **fields)
    return Declaration(str(path), False)


@lru_cache(maxsize=64)
def _read_file(path: Path, _changed: int) -> dict[str, dict[str, Any]]:
    """Return the fields of each tool that a file declares."""
    mistakes: list[Mistake] = []
    try:
        tree = read_toml(read_file(path, max_bytes=MAX_TOML_BYTES, follow_link=False))
    except (OSError, TomlError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}", hint="correct or delete the file") from error
    found = {tool: read_table(table, Place((tool,)), _FIELDS, mistakes, example="and its keys below")
             for tool, table in tree.items()}  # fmt: skip
    if mistakes:
        raise ConfigurationError(f"{path}: {mistakes[0].key} {mistakes[0].problem}", hint=mistakes[0].hint)
    return found
