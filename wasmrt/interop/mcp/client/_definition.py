"""A tool as defined by its server, and the effects that it is assigned by the server's trust level."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from blake3 import blake3

from wasmrt.agent.flows import find_declaration, find_declaration_file
from wasmrt.agent.safety import Sanitizer
from wasmrt.core.effects import Effect
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES
from wasmrt.core.tool_defaults import Declaration
from wasmrt.core.traits import SubagentAccess, TraitRestrictions, Traits
from wasmrt.egress.leaks import Action, LeakDetector
from wasmrt.interop.mcp.client._settings import McpServerConfig, Trust
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema import schema_problem

_DOMAIN = b"wasmrt mcp tool v1\0"
_MAX_NAME_CHARS = 128
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_SANITIZER = Sanitizer()
_DETECTOR = LeakDetector()


class Definition(NamedTuple):
    """The definition of a tool, as sent by the server."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, bool]

    @property
    def digest(self) -> str:
        """BLAKE3 of the whole definition as canonical JSON, in hex: any change makes it a different definition."""
        text = json.dumps(self._asdict(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return blake3(_DOMAIN + text.encode("utf-8", "surrogatepass")).hexdigest()

    def hint(self, name: str) -> bool:
        """Return an annotation, or the protocol's default for it (ToolAnnotations, 2026-07-28)."""
        return self.annotations.get(name, name in ("destructiveHint", "openWorldHint"))

    def problem(self) -> str | None:
        """Return why the tool cannot be offered, or None if it can."""
        if not 0 < len(self.name) <= _MAX_NAME_CHARS or not self.name.isprintable():
            return "its name is empty, too long, or contains invisible characters"
        if _SANITIZER.sanitize(self.name).flags:
            return "its name contains invisible characters"
        if len(self.description.encode("utf-8", "replace")) > MAX_DESCRIPTION_BYTES * 4:
            return f"its description is over {MAX_DESCRIPTION_BYTES * 4 // 1024} KiB"
        if (found := schema_problem(self.input_schema)) is not None:
            return found
        if self.output_schema is not None and (found := schema_problem(wrapped_output(self.output_schema))) is not None:
            return f"its output schema: {found}"
        report = _DETECTOR.scan(json.dumps(self._asdict(), ensure_ascii=False))
        if any(match.action is not Action.WARN for match in report.matches):
            return "its definition contains a secret"
        return None


def read_definition(name: Any, title: Any, description: Any, schemas: tuple[Any, Any], annotations: Any) -> Definition:
    """Return a definition built from a server's fields. Fields of a wrong type count as missing."""
    given = annotations if isinstance(annotations, Mapping) else {}
    said = {hint: given[hint] for hint in _HINTS if isinstance(given.get(hint), bool)}
    return Definition(
        name=str(name),
        title=title if isinstance(title, str) else "",
        description=description if isinstance(description, str) else "",
        input_schema=schemas[0] if isinstance(schemas[0], dict) else {},
        output_schema=schemas[1] if isinstance(schemas[1], dict) else None,
        annotations=said,
    )


def wrapped_output(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of `{"value": result}` for a result schema, because the validator accepts only objects."""
    inner = {key: value for key, value in schema.items() if key not in ("$defs", "definitions", "$schema", "$id")}
    kept = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
    return {**kept, "type": "object", "properties": {"value": inner}, "required": ["value"]}


def remove_invisible(value: Any) -> Any:
    """Return JSON data without invisible characters and chat template tokens."""
    if isinstance(value, str):
        return _SANITIZER.sanitize(value).text
    if isinstance(value, list):
        return [remove_invisible(item) for item in value]
    if isinstance(value, dict):
        return {remove_invisible(key): remove_invisible(item) for key, item in value.items()}
    return value


def list_differences(old: Definition | None, new: Definition | None) -> list[str]:
    """Return the lines that differ between two definitions, prefixed with `-` and `+`."""
    before, after = ([] if each is None else _format_lines(each) for each in (old, new))
    changed = difflib.unified_diff(before, after, n=1, lineterm="")
    return [line for line in changed if not line.startswith(("---", "+++", "@@"))]


def _format_lines(definition: Definition) -> list[str]:
    """Return a definition as lines. SECURITY: escape invisible characters, since they may be the change."""
    data = {key: value for key, value in definition._asdict().items() if value not in ("", None)}
    text = json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True)
    return [printable_line(_escape_invisible(line), 2000) for line in text.splitlines()]


def _escape_invisible(line: str) -> str:
    kept = _SANITIZER.sanitize(line)
    return line if not kept.flags else json.dumps(line)[1:-1].replace('\\"', '"')


_CHANGING = {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM, Effect.EXTERNAL_WRITE}
_DENIED = TraitRestrictions(subagent_access=SubagentAccess.DENIED)


def possible_effects(server: McpServerConfig) -> frozenset[Effect]:
    """Return all effects that a server's grants allow, whatever it declares."""
    if server.url:
        found = {Effect.NETWORK, Effect.EXTERNAL_WRITE}
        return frozenset(found | ({Effect.USE_SECRET} if server.bearer or server.oauth is not None else set()))
    found = {Effect.READ_FILESYSTEM, Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS}
    if server.write:
        found |= {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM}
    if server.network or server.hosts:
        found |= {Effect.NETWORK, Effect.EXTERNAL_WRITE}
    return frozenset(found | ({Effect.USE_SECRET} if server.secret_env else set()))


_OWN_DATA = {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM, Effect.READ_MEMORY, Effect.WRITE_MEMORY}
"""Effects on a server's own files and memory. A server needs no grant for these effects."""


def find_flow_declaration(server: McpServerConfig, tool: Definition) -> Declaration | None:
    """Return what a data file declares about a tool; for servers that are not local, without effects and results."""
    found = find_declaration(_list_publishers(server), tool.name, tool.input_schema)
    if found is None or server.trust is Trust.LOCAL:
        return found
    return found._replace(effects=None, results=None)


def declaration_line(server: McpServerConfig) -> str:
    """Return the line of the trust prompt that says where the flow rules get the effects of the server's tools."""
    path = find_declaration_file(_list_publishers(server))
    if path is None:
        return (
            f"its tools' effects, destinations and labels are derived; to see them: wasmrt policy flows {server.name}"
        )
    return f"{path} declares the effects and content of its tools; if their schemas differ, they are derived"


def _list_publishers(server: McpServerConfig) -> list[str]:
    package = server.package
    return [f"server:{server.name}", *([] if package is None else [f"{package.registry}:{package.name}"])]


def assigned_traits(server: McpServerConfig, tool: Definition, declared: Declaration | None = None) -> Traits:
    """Return the traits of a tool, derived from the trust in its server.

    For a server that is not local, a tool has all possible effects. For a local server, the effects come from the
    declaration in a data file. If there is none, they come from the tool's annotations: a read-only tool has no effects
    that change anything.
    """
    possible = possible_effects(server)
    if server.trust is not Trust.LOCAL:
        return Traits(effects=possible, declared=True, tightening=_DENIED)
    if declared is not None and declared.effects is not None:
        return Traits(effects=declared.effects & (possible | _OWN_DATA), declared=True)
    held = possible - {Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS}
    if tool.hint("readOnlyHint"):
        return Traits(effects=held - _CHANGING or frozenset({Effect.READ_FILESYSTEM}), declared=True)
    if not held & _CHANGING:
        # The annotations admit changes, at least of the server's own files.
        held |= {Effect.WRITE_FILESYSTEM}
    return Traits(effects=held, declared=True)


def asks_always(server: McpServerConfig, tool: Definition) -> bool:
    """Return whether every call requires approval, whatever its effects are."""
    if server.trust is not Trust.LOCAL:
        return True
    return tool.annotations.get("destructiveHint", False) and not tool.hint("readOnlyHint")


def describe_claim(tool: Definition) -> str:
    """Return what the server claims about the effects of a tool, for the user; empty if it claims nothing."""
    if tool.hint("readOnlyHint"):
        return "the server claims that it only reads"
    if tool.annotations.get("destructiveHint"):
        return "the server claims that it deletes or overwrites"
    return ""
