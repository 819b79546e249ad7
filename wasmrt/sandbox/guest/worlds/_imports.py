"""The imports of the tool worlds: interfaces of the table, each function bound to what answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.sandbox.component import worlds
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.worlds import _http, _log, _secrets, _tools, _workspace

_AGENT: dict[str, Callable[..., Any]] = {
    "log": _log.log,
    "now-millis": _log.now_millis,
    "workspace-read": _workspace.agent_read,
    "http-request": _http.agent_request,
    "tool-invoke": _tools.agent_invoke,
    "secret-exists": _secrets.exists,
}
_AGENT_TYPED = _AGENT | {"http-request": _http.agent_request_typed}
_TOOL: dict[str, dict[str, Callable[..., Any]]] = {
    "types": {},
    "http": {"fetch": _http.fetch},
    "workspace": {
        "read": _workspace.read,
        "read-text": _workspace.read_text,
        "list": _workspace.list_entries,
        "stat": _workspace.stat,
        "write": _workspace.write,
        "write-text": _workspace.write_text,
        "copy": _workspace.copy,
        "make-directory": _workspace.make_directory,
        "remove": _workspace.remove,
        "rename": _workspace.rename,
    },
    "secrets": {"exists": _secrets.exists},
    "tools": {"invoke": _tools.invoke},
    "log": {"log": _log.log},
    "clock": {"now": _log.now_millis, "monotonic": _log.monotonic},
    "progress": {"report": _log.progress},
}


def interfaces() -> tuple[HostInterface, ...]:
    """Return every interface of near:agent and wasmrt:tool that a guest may import."""
    return tuple(
        HostInterface(name, _functions(world, name), signatures=worlds.signatures(name))
        for world in worlds.ALL_WORLDS
        for name in world.imports
    )


def _functions(world: worlds.World, interface: str) -> dict[str, Callable[..., Any]]:
    if world is worlds.TOOL_WORLD:
        return _TOOL[interface.partition("/")[2].partition("@")[0]]
    return _AGENT_TYPED if world.has_typed_failures else _AGENT
