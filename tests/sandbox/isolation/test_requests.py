"""Requests and replies cross the wire unchanged, and every request has a handler with its reply type."""

from __future__ import annotations

import socket
from typing import get_type_hints

import pytest

from wasmrt.core.model import Decision, Reason
from wasmrt.runtime.call import _services
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.replies import DirectoryEntry, HostFailure, HttpHead
from wasmrt.sandbox.guest.requests import (
    NAMES,
    HttpCheck,
    HttpClose,
    HttpOpen,
    HttpRead,
    HttpReadAll,
    InvokeTool,
    Refuse,
    ReportProgress,
    Request,
    SecretExists,
    WorkspaceCopy,
    WorkspaceList,
    WorkspaceMakeDirectory,
    WorkspaceRead,
    WorkspaceRemove,
    WorkspaceRename,
    WorkspaceSize,
    WorkspaceStat,
    WorkspaceWrite,
)
from wasmrt.sandbox.isolation.wire import Channel, Frame, Kind
from wasmrt.sandbox.isolation.wire.requests import (
    CALL_ENDED,
    HostEndedError,
    read_reply,
    read_request,
    write_failure,
    write_reply,
    write_request,
)

FAILURE = HostFailure(FailureKind.CLIENT, "broken", "it broke", request_sent=True, denied=True, limit_bytes=7)
DECISION = Decision(False, Reason.SOCKETS_DENIED, "no sockets", "use HTTP", "sockets", "tcp")
HEADERS = (("X-One", "1"), ("X-One", "\ud800"))
CASES: tuple[tuple[Request[object], object], ...] = (
    (HttpCheck("GET", "https://a.example/"), None),
    (HttpOpen("GET", "https://a.example/"), HttpHead(1, 200, HEADERS)),
    (HttpOpen("POST", "https://a.example/", HEADERS, b"\xff", 2.5), HttpHead(2, 404, ())),
    (HttpOpen("POST", "https://a.example/", (), b"", None), HttpHead(3, 204, ())),
    (HttpRead(1), b"\xff"),
    (HttpReadAll(1), b""),
    (HttpClose(1), None),
    (WorkspaceRead("a", probe=True), b"text"),
    (WorkspaceList("a", probe=True), [DirectoryEntry("b", True, 0), DirectoryEntry("c", False, 9)]),
    (WorkspaceStat("a"), DirectoryEntry("a", False, 3)),
    (WorkspaceSize("a"), 0),
    (WorkspaceSize("a"), None),
    (WorkspaceWrite("a", b"\x00\xff", new=True), None),
    (WorkspaceCopy("a", "b"), 12),
    (WorkspaceMakeDirectory("a"), None),
    (WorkspaceRemove("a", directory=True), None),
    (WorkspaceRename("a", "b"), None),
    (SecretExists("token"), False),
    (InvokeTool("on", '{"a": "\ud800"}'), '"\ud800"'),
    (InvokeTool("on", "{}"), ""),
    (ReportProgress(1, 2, "half"), None),
    (ReportProgress(1, None, None), None),
    (Refuse(DECISION), None),
)


def sent(head: dict[str, object] | bytes, tail: bytes | memoryview) -> Frame:
    """The frame as its receiver reads it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(ours).send(Kind.IMPORT, head, tail)
        return Channel(theirs).receive(100_000)


@pytest.mark.parametrize(("request_", "reply"), CASES, ids=lambda value: type(value).__name__)
def test_a_request_and_its_reply_cross_the_wire_unchanged(request_: Request[object], reply: object) -> None:
    assert read_request(sent(*write_request(request_, 100, 100))) == request_
    assert request_.read_reply(read_reply(sent(*write_reply(reply)))) == reply


def test_every_request_is_covered_here_and_has_a_handler_with_its_reply_type() -> None:
    handlers = _services._HANDLERS | _services._FILE_HANDLERS
    assert {type(request) for request, _ in CASES} == set(NAMES) == set(handlers)
    assert not _services._HANDLERS.keys() & _services._FILE_HANDLERS.keys()
    for kind, handler in handlers.items():
        hints = get_type_hints(handler)
        assert hints["request"] is kind
        assert hints["return"] == get_type_hints(vars(kind)["read_reply"])["return"]


def test_failures_and_the_end_of_a_call_reach_the_worker() -> None:
    with pytest.raises(HostFailure) as caught:
        read_reply(sent(*write_failure(FAILURE)))
    assert caught.value.as_dict() == FAILURE.as_dict()
    checked = HttpCheck("GET", "https://a.example/").read_reply(read_reply(sent(*write_reply(FAILURE))))
    assert checked is not None and checked.as_dict() == FAILURE.as_dict()
    with pytest.raises(HostEndedError):
        read_reply(sent(CALL_ENDED, b""))


def test_bodies_and_contents_are_cut_one_byte_over_their_limit() -> None:
    opened, written = HttpOpen("GET", "u", (), b"x" * 100), WorkspaceWrite("a", b"x" * 100)
    assert len(write_request(opened, 4, 50)[1]) == 5
    assert len(write_request(written, 50, 4)[1]) == 5


@pytest.mark.parametrize(("request_", "_reply"), CASES, ids=lambda value: type(value).__name__)
def test_a_malformed_reply_is_refused(request_: Request[object], _reply: object) -> None:
    with pytest.raises(ValueError):
        request_.read_reply({"unknown": [1]})
    with pytest.raises(ValueError):
        request_.read_reply([object()])
