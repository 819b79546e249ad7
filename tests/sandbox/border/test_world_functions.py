"""The functions that a guest of the tool worlds imports, called as the engine calls them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sandbox.border.conftest import Start, only_tool
from tests.sandbox.border.relays import INVOKE
from tests.sandbox.border.worlds import agent_tool
from wasmrt import Capabilities, ResourceLimits, ToolInvokeCapability
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.component import Err, Ok, worlds
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.clock import LogicalClock
from wasmrt.sandbox.guest.replies import DirectoryEntry, HostFailure, HttpHead
from wasmrt.sandbox.guest.requests import (
    HttpClose,
    HttpOpen,
    HttpReadAll,
    Request,
    WorkspaceCopy,
    WorkspaceList,
    WorkspaceMakeDirectory,
    WorkspaceRead,
    WorkspaceReadPart,
    WorkspaceRemove,
    WorkspaceRename,
    WorkspaceStat,
    WorkspaceWrite,
)
from wasmrt.sandbox.guest.services import NoServices
from wasmrt.sandbox.guest.worlds import interfaces

FUNCTIONS = {interface.name: interface.functions for interface in interfaces()}
AGENTS = [name for name, functions in FUNCTIONS.items() if "now-millis" in functions]


class Response:
    """A response of an imaginary server."""

    status = 204
    headers = (("X-One", "1"),)

    def __init__(self, body: bytes | HostFailure) -> None:
        self._body = body
        self.closed = 0

    def read(self) -> bytes:
        raise NotImplementedError

    def read_all(self) -> bytes:
        if isinstance(self._body, HostFailure):
            raise self._body
        return self._body

    def close(self) -> None:
        self.closed += 1


class Host(NoServices):
    """A host that answers requests with one response, and has a directory of two entries."""

    def __init__(self, response: Response | None = None) -> None:
        self.response = response or Response(b"body")
        self.asked: list[HttpOpen] = []

    def handle(self, request: Request[Any]) -> Any:
        match request:
            case HttpOpen():
                self.asked.append(request)
                return HttpHead(7, self.response.status, self.response.headers)
            case HttpReadAll(7):
                return self.response.read_all()
            case HttpClose(7):
                return self.response.close()
            case WorkspaceList():
                return (DirectoryEntry("b", True, 7), DirectoryEntry("a.txt", False, 12))
        return super().handle(request)


def guest(host: NoServices, *, start_ns: int = 0) -> GuestCall:
    return GuestCall(Lifetime(3600), ResourceLimits(), host, LogicalClock(start_ns=start_ns))


def test_exactly_the_functions_of_the_worlds_are_bound() -> None:
    imported = [name for world in worlds.ALL_WORLDS for name in world.imports]
    assert sorted(FUNCTIONS) == sorted(imported)
    for name, functions in FUNCTIONS.items():
        assert functions.keys() == worlds.signatures(name).keys(), name


def ask(interface: str, host: NoServices, timeout_ms: int | None = None) -> Any:
    url = "https://api.example.com/"
    if interface.startswith("near:"):
        return FUNCTIONS[interface]["http-request"](guest(host), "get", url, "{}", None, timeout_ms)
    request = {"method": "get", "url": url, "headers": [], "body": None, "timeout-ms": timeout_ms}
    return FUNCTIONS[interface]["fetch"](guest(host), request)


HTTP = [name for name, functions in FUNCTIONS.items() if functions.keys() & {"http-request", "fetch"}]


@pytest.mark.parametrize("interface", HTTP)
def test_a_request_is_passed_unchanged_and_its_response_is_closed(interface: str) -> None:
    host = Host()
    answer = ask(interface, host, 250)
    assert isinstance(answer, Ok)
    assert (answer.value["status"], answer.value["body"]) == (204, b"body")
    ask(interface, host)
    expected = HttpOpen("GET", "https://api.example.com/", (), None)
    assert host.asked == [expected._replace(timeout_seconds=0.25), expected]
    assert host.response.closed == 2


@pytest.mark.parametrize("interface", HTTP)
def test_an_interrupted_response_is_a_failure_and_is_closed(interface: str) -> None:
    host = Host(Response(HostFailure(FailureKind.CLIENT, "broken", "it broke off", request_sent=True)))
    answer = ask(interface, host)
    assert isinstance(answer, Err)
    typed = {"kind": "client", "code": "broken", "message": "it broke off"}
    (world,) = (world for world in worlds.ALL_WORLDS if interface in world.imports)
    if world is worlds.TOOL_WORLD:
        assert answer.value == typed
    elif world.has_typed_failures:
        assert answer.value == typed | {"request-sent": True}
    else:
        assert answer.value == "broken: it broke off"
    assert host.response.closed == 1


def test_folders_have_size_zero() -> None:
    (name,) = (name for name in FUNCTIONS if name.startswith("wasmrt:tool/workspace"))
    listed = FUNCTIONS[name]["list"](guest(Host()), "")
    assert listed == Ok([{"name": "b", "kind": "directory", "size": 0}, {"name": "a.txt", "kind": "file", "size": 12}])


def test_the_clocks_of_the_worlds_use_the_guests_clock() -> None:
    (name,) = (name for name in FUNCTIONS if name.startswith("wasmrt:tool/clock"))
    ctx = guest(Host(), start_ns=5_000_000)
    assert FUNCTIONS[name]["now"](ctx) == 6
    assert FUNCTIONS[name]["monotonic"](ctx) == 2_000_000
    assert FUNCTIONS[AGENTS[0]]["now-millis"](ctx) == 8


def test_a_generic_tool_keeps_non_ascii_letters(start: Start) -> None:
    runtime = start()
    runtime.prepare("other", agent_tool("", json.dumps("grüße", ensure_ascii=False)))
    grant = Capabilities.none().with_tool_invoke(ToolInvokeCapability((("on", "other"),)))
    output = only_tool(runtime, INVOKE.component(), grant).execute({"alias": "on", "params": "{}"})
    assert output.raw == '"\\"grüße\\""'


class Folder(NoServices):
    """A host that stores the requests for a workspace."""

    def __init__(self) -> None:
        self.asked: list[Request[Any]] = []

    def handle(self, request: Request[Any]) -> Any:
        match request:
            case WorkspaceRead(path):
                return b"\xff" if path == "binary" else "h\u00e9".encode()
            case WorkspaceReadPart(path, offset, length):
                return (b"\xff" if path == "binary" else "h\u00e9".encode())[offset : offset + length]
            case WorkspaceStat(path):
                return DirectoryEntry(path, path == "d", 3)
        self.asked.append(request)
        return 7 if isinstance(request, WorkspaceCopy) else None


def test_wasmrt_tool_changes_files_through_the_host() -> None:
    host, offered = Folder(), FUNCTIONS["wasmrt:tool/workspace@0.1.0"]
    call = guest(host)
    assert offered["read-text"](call, "a") == Ok("h\u00e9")
    assert offered["read-text"](call, "binary").value["code"] == "not-text"
    part = offered["read-text-part"]
    assert [part(call, "a", 0, length).value for length in (1, 2, 3, 2**32 - 1)] == ["h", "h", "h\u00e9", "h\u00e9"]
    assert part(call, "a", 3, 9) == part(call, "a", 2**64 - 1, 9) == Ok("")
    assert [part(call, *cut, 9).value["code"] for cut in (("a", 2), ("binary", 0))] == ["not-text", "not-text"]
    assert offered["stat"](call, "d") == Ok({"name": "d", "kind": "directory", "size": 0})
    assert offered["stat"](call, "a") == Ok({"name": "a", "kind": "file", "size": 3})
    assert offered["write"](call, "a", b"x", True) == offered["write-text"](call, "a", "\u00e9", False) == Ok(None)
    assert offered["copy"](call, "a", "b") == Ok(7)
    assert offered["make-directory"](call, "d") == offered["rename"](call, "a", "b") == Ok(None)
    assert offered["remove"](call, "a", "file") == offered["remove"](call, "d", "directory") == Ok(None)
    assert host.asked == [
        WorkspaceWrite("a", b"x", new=True),
        WorkspaceWrite("a", "\u00e9".encode(), new=False),
        WorkspaceCopy("a", "b"),
        WorkspaceMakeDirectory("d"),
        WorkspaceRename("a", "b"),
        WorkspaceRemove("a", directory=False),
        WorkspaceRemove("d", directory=True),
    ]


def test_denied_file_requests_are_typed_failures() -> None:
    offered = FUNCTIONS["wasmrt:tool/workspace@0.1.0"]
    call = guest(NoServices())
    for name, values in {
        "read-text": ("a",),
        "read-text-part": ("a", 0, 1),
        "stat": ("a",),
        "write": ("a", b"", False),
        "write-text": ("a", "", False),
        "copy": ("a", "b"),
        "make-directory": ("a",),
        "remove": ("a", "file"),
        "rename": ("a", "b"),
    }.items():
        answer = offered[name](call, *values)
        assert isinstance(answer, Err) and answer.value["kind"] == FailureKind.NETWORK_DENIED, name
