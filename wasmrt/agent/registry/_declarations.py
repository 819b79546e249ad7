"""Describe the declarations in force for tools, which decide how flow rules treat their params and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wasmrt.agent.flows import derive_labels, describe_params, schema_digest
from wasmrt.agent.registry._registered import OWN_SOURCES, RegisteredTool
from wasmrt.agent.registry._view import ToolView
from wasmrt.core.effects import Effect
from wasmrt.core.errors import NotInstalledError
from wasmrt.core.names import did_you_mean, fold_name


def describe_declarations(view: ToolView, name: str) -> list[dict[str, Any]]:
    """Return the declaration in force for each tool with a name, in a component, or of an MCP server, as JSON data.

    Raises:
        NotInstalledError: there is no such tool, component or server.
    """
    entries = sorted(view._services.store, key=lambda entry: entry.name)
    wanted = fold_name(name)
    found = [
        entry
        for entry in entries
        if wanted in map(fold_name, (*entry.names, entry.offered, entry.name.partition(".")[0]))
        or entry.group == f"mcp:{name}"
    ]
    if not found:
        near = did_you_mean(name, [entry.name for entry in entries])
        hint = f"did you mean {near}?" if near else "wasmrt tools list shows the names"
        raise NotInstalledError(f"there is no tool or MCP server {name!r:.80}", hint=hint)
    return [_describe(view, entry) for entry in found]


def _describe(view: ToolView, entry: RegisteredTool) -> dict[str, Any]:
    policy, tool, own = view._services.policy, entry.tool, entry.source in OWN_SOURCES
    declared = entry.declaration if entry.declaration is not None and entry.declaration.matches else None
    named, results = policy.find_destination_parameters(entry.names), policy.find_result_labels(entry.names)
    if named is None and own:
        named = tool.destinations
    if results is None:
        results = None if declared is None else declared.results
    if results is None and own and tool.own.labels is not None:
        results = frozenset(tool.own.labels)  # type: ignore[arg-type]
    effects = entry.traits(policy).effects
    if results is None:
        results = derive_labels(
            effects, frozenset(), foreign=not own or tool.untrusted_result(None), files_untrusted=True
        )
    return {
        "tool": entry.name,
        "declared_by": list(_iter_sources(view, entry)),
        "schema": schema_digest(tool.schema),
        "effects": [effect for effect in Effect if effect in effects],
        "results": sorted(results),
        "params": describe_params(tool.schema, named, () if declared is None else declared.content),
    }


def _iter_sources(view: ToolView, entry: RegisteredTool) -> Iterator[str]:
    """Yield the sources of a tool's declarations, the decisive one first."""
    for rule in view._services.policy.iter_rules(entry.names):
        if rule.results is not None or rule.destinations is not None or rule.ids or rule.vouched:
            yield f'operator: [tools.rules."{rule.tool}"]'
    if (declared := entry.declaration) is not None:
        mismatch = "" if declared.matches else ": does not apply, because the tool's schema is different"
        yield f"file: {declared.source}{mismatch}"
    if entry.source in OWN_SOURCES:
        yield "the tool's own code"
    elif declared is None or not declared.matches:
        yield "derived from its schema and effects"
