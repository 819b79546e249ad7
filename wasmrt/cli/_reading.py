"""What the engine and the component say of a component, in the words of the installer and of `inspect`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from wasmrt.install import digest_of

if TYPE_CHECKING:
    from wasmrt import PreparedTool
    from wasmrt.capabilities import Capabilities
    from wasmrt.install import Reading

_SECTIONS = {
    "http": ("http", '"http": {"allowlist": [{"host": "...", "methods": ["GET"]}]}'),
    "workspace": ("workspace_read", '"workspace": {"allowed_prefixes": ["..."]}'),
    "secrets": ("secrets", '"secrets": {"allowed_names": ["..."]}'),
    "tool_invoke": ("tool_invoke", '"tool_invoke": {"aliases": {"...": "..."}}'),
}
_LIMITS = {"limits": ("limits", "")}


def read_tool(tool: PreparedTool) -> Reading:
    """Return what an install records of a prepared tool."""
    from wasmrt.install import Reading

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


def capabilities_of(
    imports: dict[str, list[str]], asked: Capabilities | None, grant: Capabilities
) -> list[dict[str, Any]]:
    """What a tool imports, by the capability that it needs: what its sidecar asks for beside what it was granted.

    Last, under None, comes what every tool may use. `refused` is the line that would allow what is refused every time.
    """
    grouped = _by_power(imports)
    powers = [power for power in grouped if power]
    powers += [
        power
        for power, (attribute, _) in (_SECTIONS | _LIMITS).items()
        if power not in grouped and (_sentences(asked, attribute) or _sentences(grant, attribute))
    ]
    listed: list[dict[str, Any]] = []
    for power in powers:
        attribute, line = (_SECTIONS | _LIMITS).get(power, ("", ""))
        allowed = getattr(grant, attribute, None) is not None
        listed.append({
            "capability": power,
            "imports": grouped.get(power, {}),
            "asks": _sentences(asked, attribute),
            "granted": _sentences(grant, attribute),
            "refused": None if allowed or power not in grouped else _way_out(line, getattr(asked, attribute, None)),
        })  # fmt: skip
    if None in grouped:
        listed.append({"capability": None, "imports": grouped[None]})
    return listed


def _way_out(line: str, asks: object) -> str:
    if not line:
        return "nothing can allow it"
    return "wasmrt install asks you to grant it" if asks else f"add {line}"


def _by_power(imports: dict[str, list[str]]) -> dict[str | None, dict[str, list[str]]]:
    from wasmrt.capabilities import capabilities_of

    packages = {name.partition("/")[0]: power for power, name in capabilities_of([*imports, *flat(imports)]).items()}
    grouped: dict[str | None, dict[str, list[str]]] = {}
    for interface, functions in imports.items():
        # WASI keeps one power a package: its types belong to the interface that opens it.
        package = interface.partition("/")[0]
        otherwise = packages.get(package) if package.startswith("wasi:") else None
        for function in functions or [""]:
            name = f"{interface}#{function}" if interface and function else interface or function
            power = next(iter(capabilities_of([name])), otherwise)
            grouped.setdefault(power, {}).setdefault(interface, []).extend([function] if function else [])
    return grouped


def _sentences(capabilities: Capabilities | None, attribute: str) -> list[str]:
    from wasmrt.capabilities import Capabilities
    from wasmrt.capabilities.sentences import explain

    section = getattr(capabilities, attribute, None) if attribute else None
    return [] if section is None else list(explain(Capabilities(**{attribute: section}))[:-1])


def refusals(listed: list[dict[str, Any]]) -> list[dict[str, str]]:
    """What the tool imports and will be refused every time, each with the line that would allow it."""
    return [
        {"power": entry["capability"], "import": _opener(entry), "hint": entry["refused"]}
        for entry in listed
        if entry.get("refused")
    ]


def _opener(entry: dict[str, Any]) -> str:
    """The import that needs the power."""
    from wasmrt.capabilities import capabilities_of

    imports = entry["imports"]
    return next(iter(capabilities_of([*imports, *flat(imports)]).values()))
