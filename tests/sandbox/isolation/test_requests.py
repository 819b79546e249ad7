"""Requests and replies cross the wire unchanged, and every request has a handler with its reply type."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any, get_type_hints

import pytest

from wasmrt.core.model import Reason
from wasmrt.runtime.call import _services
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.replies import DirectoryEntry, Headers, HostFailure, HttpHead
from wasmrt.sandbox.guest.requests import (
    NAMES,
    HttpCheck,
    HttpOpen,
    Request,
    WorkspaceWrite,
)
from wasmrt.sandbox.isolation.wire import Channel, Frame, Kind, ProtocolError
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
HEADERS = (("X-One", "1"), ("X-One", "\ud800"))
SAMPLES: dict[object, tuple[object, ...]] = {
    type(None): (None,),
    str: ("a", "", "\ud800"),
    bool: (True, False),
    int: (0, 7),
    bytes: (b"text", b"", b"\x00\xff"),
    str | None: ("half", None),
    int | None: (2, None),
    float | None: (2.5, None),
    bytes | None: (b"\xff", b"", None),
    Headers: (HEADERS, ()),
    Reason: (Reason.SOCKETS_DENIED, Reason.FILE_TOO_LARGE),
    HostFailure | None: (None,),
    HttpHead: (HttpHead(1, 200, HEADERS), HttpHead(2, 404, ())),
    DirectoryEntry: (DirectoryEntry("a", False, 3), DirectoryEntry("b", True, 0)),
    Sequence[DirectoryEntry]: ([DirectoryEntry("b", True, 0), DirectoryEntry("c", False, 9)], []),
    list[tuple[str, str]]: ([("key", "value"), ("k", "")], []),
}
"""Values of every type that a field of a request or a reply can have."""


def cases() -> Iterator[tuple[Request[object], object]]:
    """Yield requests of every kind, each with a reply, so that every field and reply has each of its samples.

    Neighbouring fields have different values, so that swapped fields are detected.
    """
    for kind in NAMES:
        fields = [SAMPLES[hint] for hint in get_type_hints(kind).values()]
        replies = SAMPLES[get_type_hints(vars(kind)["read_reply"])["return"]]
        for index in range(max(len(values) for values in (*fields, replies))):
            request: Any = kind(*(values[(index + place) % len(values)] for place, values in enumerate(fields)))
            yield request, replies[index % len(replies)]


CASES = tuple(cases())


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


def test_every_request_has_a_handler_with_its_reply_type() -> None:
    handlers = _services._HANDLERS | _services._FILE_HANDLERS
    assert set(NAMES) == set(handlers)
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


WRONG: dict[object, tuple[object, ...]] = {
    str: (1, None, "a" * 200_000),
    str | None: (1, "a" * 200_000),
    bool: (1, "true", None),
    int: (-1, 1.5, True, "1", None, 2**64),
    int | None: (-1, True, "1"),
    float | None: (-1, True, "1"),
    bytes | None: (1, None),
    Headers: (None, ["X-One"], [["X-One"]], [["X-One", 1]]),
}


@pytest.mark.parametrize("kind", NAMES, ids=lambda kind: kind.__name__)
def test_a_field_of_another_type_or_size_is_refused(kind: type[object]) -> None:
    request_ = next(request for request, _ in CASES if type(request) is kind)
    head, tail = write_request(request_, 100, 100)
    assert read_request(sent(head, tail)) == request_
    for name, hint in get_type_hints(kind).items():
        for wrong in WRONG[hint] if name in head and hint in WRONG else ():
            with pytest.raises(ProtocolError):
                read_request(sent(head | {name: wrong}, tail))
