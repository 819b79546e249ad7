"""The imports of a component by the capability they need, as `inspect` lists them."""

from __future__ import annotations

from typing import Any

from wasmrt.capabilities import BY_SECTION, Capabilities, Capability, capabilities_of, uses_section
from wasmrt.capabilities.sentences import explain
from wasmrt.sandbox.component import qualified_names

_LIMITS = "limits"


def list_capabilities(
    imports: dict[str, list[str]], asked: Capabilities | None, grant: Capabilities
) -> list[dict[str, Any]]:
    """List a tool's imports by the capability they need, with the request of its sidecar and its grant in sentences.

    Last, under None, come the imports that every tool may use. `refused` is the line that would allow what is refused
    every time.
    """
    grouped = _by_capability(imports)
    names = [name for name in grouped if name]
    names += [
        name
        for name in (*BY_SECTION, _LIMITS)
        if name not in grouped and (_sentences(asked, name) or _sentences(grant, name))
    ]
    listed: list[dict[str, Any]] = []
    for name in names:
        replaced = any(part.replaces == name for part in grant.parts)
        refused = name in grouped and _section(grant, name) is None and not replaced
        listed.append({
            "capability": name,
            "imports": grouped.get(name) or _usable(name, grouped),
            "asks": _sentences(asked, name),
            "granted": _sentences(grant, name),
            "refused": _way_out(name, asked) if refused else None,
        })  # fmt: skip
    if None in grouped:
        listed.append({"capability": None, "imports": grouped[None]})
    return listed


def _usable(name: str, grouped: dict[str | None, dict[str, list[str]]]) -> dict[str, list[str]]:
    """Return the imports of the capability that `name` replaces which can use it."""
    replaced = BY_SECTION[name].replaces if name in BY_SECTION else ""
    return {each: functions for each, functions in grouped.get(replaced, {}).items() if uses_section(name, [each])}


def _section(capabilities: Capabilities | None, name: str) -> Capability | None:
    return None if capabilities is None else capabilities.section(name)


def _way_out(name: str, asked: Capabilities | None) -> str:
    if name not in BY_SECTION:
        return "nothing can allow it"
    return "wasmrt install asks you to grant it" if _section(asked, name) else f"add {BY_SECTION[name].example_line()}"


def _by_capability(imports: dict[str, list[str]]) -> dict[str | None, dict[str, list[str]]]:
    needed = capabilities_of([*imports, *qualified_names(imports)])
    packages = {import_name.partition("/")[0]: name for name, import_name in needed.items()}
    grouped: dict[str | None, dict[str, list[str]]] = {}
    for interface, functions in imports.items():
        # WASI keeps one capability a package: its types belong to the interface that opens it.
        package = interface.partition("/")[0]
        otherwise = packages.get(package) if package.startswith("wasi:") else None
        for function in functions or [""]:
            import_name = f"{interface}#{function}" if interface and function else interface or function
            name = next(iter(capabilities_of([import_name])), otherwise)
            grouped.setdefault(name, {}).setdefault(interface, []).extend([function] if function else [])
    return grouped


def _sentences(capabilities: Capabilities | None, name: str) -> list[str]:
    if capabilities is None:
        return []
    if name == _LIMITS:
        alone = Capabilities(limits=capabilities.limits)
    elif (part := capabilities.section(name)) is None:
        return []
    else:
        alone = Capabilities.of([part])
    return [sentence for sentence in explain(alone) if not sentence.startswith("may not ")]


def refusals(listed: list[dict[str, Any]]) -> list[dict[str, str]]:
    """List the imports that will be refused every time, each with the line that would allow it."""
    return [
        {"capability": entry["capability"], "import": _opener(entry), "hint": entry["refused"]}
        for entry in listed
        if entry.get("refused")
    ]


def _opener(entry: dict[str, Any]) -> str:
    """Return the import that needs the capability."""
    imports = entry["imports"]
    return next(iter(capabilities_of([*imports, *qualified_names(imports)]).values()))
