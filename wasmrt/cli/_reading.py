"""What the engine and the component say of a component, in the words of the installer and of `inspect`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wasmrt.catalog import digest_of

if TYPE_CHECKING:
    from wasmrt import PreparedTool
    from wasmrt.capabilities import Capabilities
    from wasmrt.installer import Reading

_SECTIONS = {
    "http": ("http", '"http": {"allowlist": [{"host": "...", "methods": ["GET"]}]}'),
    "workspace": ("workspace_read", '"workspace": {"allowed_prefixes": ["..."]}'),
    "secrets": ("secrets", '"secrets": {"allowed_names": ["..."]}'),
    "tool_invoke": ("tool_invoke", '"tool_invoke": {"aliases": {"...": "..."}}'),
}


def read_tool(tool: PreparedTool) -> Reading:
    """Return what an install records of a prepared tool."""
    from wasmrt.installer import Reading

    described = [{"name": spec.name, "schema": spec.schema} for spec in tool.tools]
    return Reading(
        world=tool.world,
        description=" ".join(spec.description for spec in tool.tools if spec.description),
        imports=tuple(flat(imports_of(tool))),
        exports=tuple(flat(exports_of(tool))),
        schema_digest=digest_of(json.dumps(described, sort_keys=True).encode()),
        problems=tool.problems,
    )


def imports_of(tool: PreparedTool) -> dict[str, list[str]]:
    """Imported functions by interface; those outside any under the empty name."""
    kind = tool.type
    return _by_interface(kind.imports, kind.import_functions)


def exports_of(tool: PreparedTool) -> dict[str, list[str]]:
    """Exported functions by interface; those outside any under the empty name."""
    kind = tool.type
    return _by_interface(kind.exports, kind.functions)


def _by_interface(interfaces: Any, functions: Any) -> dict[str, list[str]]:
    found = {interface.name: [name for name, _ in interface.functions] for interface in interfaces}
    if functions:
        found[""] = [name for name, _ in functions]
    return found


def flat(by_interface: dict[str, list[str]]) -> list[str]:
    """`interface#function` for each, the interface alone where it has no function."""
    names = []
    for interface, functions in by_interface.items():
        names += [f"{interface}#{name}" if interface else name for name in functions] or [interface]
    return names


def refusals(imports: dict[str, list[str]], grant: Capabilities) -> list[dict[str, str]]:
    """What the tool imports and will be refused every time, each with the line that would allow it."""
    from wasmrt.capabilities import powers_of

    names = [*imports, *flat(imports)]
    refused = []
    for power, name in powers_of(names).items():
        attribute, line = _SECTIONS.get(power, ("", ""))
        if not attribute:
            refused.append({"power": power, "import": name, "hint": "nothing can allow it"})
        elif getattr(grant, attribute) is None:
            refused.append({"power": power, "import": name, "hint": f"add {line}"})
    return refused
