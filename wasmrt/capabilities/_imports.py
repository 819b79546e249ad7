"""Maps imports to the capabilities that they need: the one table between capability names and WIT interfaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_INTERFACES: Mapping[str, str | None] = {
    "wasmrt:tool/http": "http",
    "wasmrt:tool/workspace": "workspace",
    "wasmrt:tool/workspace#write": "workspace_write",
    "wasmrt:tool/workspace#write-text": "workspace_write",
    "wasmrt:tool/workspace#copy": "workspace_write",
    "wasmrt:tool/workspace#make-directory": "workspace_write",
    "wasmrt:tool/workspace#remove": "workspace_write",
    "wasmrt:tool/workspace#rename": "workspace_write",
    "wasmrt:tool/secrets": "secrets",
    "wasmrt:tool/tools": "tool_invoke",
    "wasi:http/outgoing-handler": "http",
    "wasi:filesystem/preopens": "workspace",
    "wasi:sockets/tcp-create-socket": "sockets",
    "wasi:sockets/udp-create-socket": "sockets",
    "wasi:sockets/ip-name-lookup": "sockets",
    "near:agent/host#http-request": "http",
    "near:agent/host#workspace-read": "workspace",
    "near:agent/host#secret-exists": "secrets",
    "near:agent/host#tool-invoke": "tool_invoke",
}


_WRITING = "wasi:filesystem/preopens"
"""The import that can write as well, where `workspace_write` says so; what it needs at least is `workspace`."""


def capabilities_of(imports: Iterable[str]) -> dict[str, str]:
    """Map each capability that a component's imports need to the first import that needs it.

    Imports that every tool may use need none: logs, clocks, random numbers, progress.
    """
    needed: dict[str, str] = {}
    for name in sorted(set(imports)):
        bare = _unversioned(name)
        capability = _INTERFACES.get(bare) or _INTERFACES.get(bare.partition("#")[0])
        if capability is not None:
            needed.setdefault(capability, name)
    return needed


def import_example(capability: str) -> str:
    """Return an import that uses a capability."""
    if capability == "workspace_write":
        return _WRITING
    return next(name for name, needs in _INTERFACES.items() if needs == capability)


def uses_section(section: str, imports: Iterable[str]) -> bool:
    """Tell whether a component with these imports can use a section of a capability file."""
    names = tuple(imports)
    if section == "workspace_write" and section not in capabilities_of(names):
        return any(_unversioned(name).partition("#")[0] == _WRITING for name in names)
    return section in capabilities_of(names)


def _unversioned(name: str) -> str:
    interface, mark, function = name.partition("#")
    return interface.partition("@")[0] + mark + function
