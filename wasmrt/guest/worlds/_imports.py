"""The interfaces of the tool worlds, bound to the functions behind them, each with the type it must be asked with."""

from __future__ import annotations

from wasmrt.guest.engine import HostInterface
from wasmrt.guest.worlds import _http, _log, _secrets, _tools, _workspace

AGENT_VERSIONS = ("", "@0.2.0", "@0.3.0", "@0.4.1")

_LEVEL = "enum { trace, debug, info, warn, error }"
_KIND = "enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }"
_FAILURE = f"record {{ kind: {_KIND}, code: option<string>, message: string }}"
_HTTP_FAILURE = f"record {{ kind: {_KIND}, code: option<string>, message: option<string>, request-sent: bool }}"
_HEADERS = "list<record { name: string, value: string }>"
_METHOD = "enum { get, head, post, put, patch, delete, options }"
_REQUEST = (
    f"record {{ method: {_METHOD}, url: string, headers: {_HEADERS}, body: option<list<u8>>, timeout-ms: option<u32> }}"
)
_RESPONSE = f"record {{ status: u16, headers: {_HEADERS}, body: list<u8> }}"
_ENTRY = "record { name: string, kind: enum { file, directory }, size: u64 }"


def interfaces() -> tuple[HostInterface, ...]:
    """Every interface of near:agent and wasmrt:tool that a guest may import."""
    return tuple(_agent(version) for version in AGENT_VERSIONS) + _tool()


def _agent(version: str) -> HostInterface:
    typed = version == "@0.4.1"
    failure = _HTTP_FAILURE if typed else "string"
    return HostInterface(
        f"near:agent/host{version}",
        {
            "log": _log.log,
            "now-millis": _log.now_millis,
            "workspace-read": _workspace.agent_read,
            "http-request": _http.agent_request_typed if typed else _http.agent_request,
            "tool-invoke": _tools.agent_invoke,
            "secret-exists": _secrets.exists,
        },
        signatures={
            "log": f"func(level: {_LEVEL}, message: string)",
            "now-millis": "func() -> u64",
            "workspace-read": "func(path: string) -> option<string>",
            "http-request": f"func({_http.AGENT_PARAMS}) -> result<{_http.AGENT_RESPONSE}, {failure}>",
            "tool-invoke": "func(alias: string, params-json: string) -> result<string, string>",
            "secret-exists": "func(name: string) -> bool",
        },
    )


def _tool() -> tuple[HostInterface, ...]:
    named = "wasmrt:tool/{}@0.1.0".format
    return (
        HostInterface(named("types"), {}),
        HostInterface(
            named("http"),
            {"fetch": _http.fetch},
            signatures={"fetch": f"func(request: {_REQUEST}) -> result<{_RESPONSE}, {_FAILURE}>"},
        ),
        HostInterface(
            named("workspace"),
            {"read": _workspace.read, "list": _workspace.list_entries},
            signatures={
                "read": f"func(path: string) -> result<list<u8>, {_FAILURE}>",
                "list": f"func(path: string) -> result<list<{_ENTRY}>, {_FAILURE}>",
            },
        ),
        HostInterface(
            named("secrets"), {"exists": _secrets.exists}, signatures={"exists": "func(name: string) -> bool"}
        ),
        HostInterface(
            named("tools"),
            {"invoke": _tools.invoke},
            signatures={"invoke": f"func(alias: string, params: string) -> result<string, {_FAILURE}>"},
        ),
        HostInterface(named("log"), {"log": _log.log}, signatures={"log": f"func(level: {_LEVEL}, message: string)"}),
        HostInterface(
            named("clock"),
            {"now": _log.now_millis, "monotonic": _log.monotonic},
            signatures={"now": "func() -> u64", "monotonic": "func() -> u64"},
        ),
        HostInterface(
            named("progress"),
            {"report": _log.progress},
            signatures={"report": "func(done: u64, total: option<u64>, message: option<string>)"},
        ),
    )
