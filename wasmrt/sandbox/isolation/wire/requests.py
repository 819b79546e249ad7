"""Requests to the host and their replies as frames.

SECURITY: `read_request` reads frames of a worker, which are hostile input: each field is read by name, type and bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_type_hints

from wasmrt.core.limits import MAX_HEADER_BYTES, MAX_LOG_ENTRY_BYTES
from wasmrt.core.model import Reason
from wasmrt.sandbox.guest.refusals import REFUSALS
from wasmrt.sandbox.guest.replies import Headers, HostFailure, plain
from wasmrt.sandbox.guest.requests import NAMES, Request
from wasmrt.sandbox.isolation.wire._frames import Frame
from wasmrt.sandbox.isolation.wire._head import MAX_TEXT, Head, ProtocolError

MAX_PROGRESS_TEXT = 6 * MAX_LOG_ENTRY_BYTES
_MAX_SENT_HEADERS = 1024
_MAX_HEADER_TEXT = 2 * MAX_HEADER_BYTES
_MAX_READ_HEADERS = 4096
"""Maximum number of headers that are read. The gateway has a far lower limit, and records its denials."""
_MAX_TEXTS = {"message": MAX_PROGRESS_TEXT, "subject": 1000}
"""Maximum characters of the fields whose limit differs from `MAX_TEXT`."""
_REFUSALS = {str(reason): reason for reason in REFUSALS}
_OK, _BYTES, _TEXT, _FAILURE = b'{"end":"ok"}', b'{"end":"bytes"}', b'{"end":"text"}', b'{"end":"failure"}'
CALL_ENDED = b'{"end":"over"}'


class HostEndedError(BaseException):
    """The host ended the call during a request, and recorded the reason."""


# -- requests: written by a worker, read by the host -------------------------------------------------------------------


def write_request(
    request: Request[object], max_body: int, max_content: int
) -> tuple[dict[str, object], bytes | memoryview]:
    """Return a request as head and tail of a frame. Values longer than any host accepts are cut.

    A cut value is still too long, so the host refuses it: a body keeps `max_body` + 1 bytes, a file's content
    `max_content` + 1 bytes.
    """
    head: dict[str, object] = {"do": NAMES[type(request)]}
    tail: bytes | memoryview = b""
    for name, value in request._asdict().items():
        match value:
            case bytes():
                tail = memoryview(value)[: (max_body if name == "body" else max_content) + 1]
                head[name] = True
            case str() if name == "params":
                tail = value.encode("utf-8", "surrogatepass")
            case str():
                head[name] = value[: _MAX_TEXTS.get(name, MAX_TEXT)]
            case tuple():
                head[name] = _cut_headers(value)
            case None if name == "body":
                head[name] = False
            case _:
                head[name] = value
    return head, tail


def read_request(frame: Frame) -> Request[object]:
    """Read a request from a worker's frame.

    Raises:
        ProtocolError: the request is unknown, or a field is missing, malformed or too long.
    """
    head = frame.fields()
    read = _READERS.get(head.text("do", 32))
    if read is None:
        raise ProtocolError("unknown request")
    return read(head, frame)


def _cut_headers(headers: Headers) -> list[tuple[str, str]]:
    kept, size = [], 0
    for name, value in headers[:_MAX_SENT_HEADERS]:
        kept.append((name[:_MAX_HEADER_TEXT], value[:_MAX_HEADER_TEXT]))
        size += len(name) + len(value)
        if size > _MAX_HEADER_TEXT:
            break
    return kept


def _read_headers(head: Head) -> Headers:
    pairs: list[tuple[str, str]] = []
    for pair in head.items("headers", _MAX_READ_HEADERS):
        match pair:
            case [str(name), str(value)]:
                pairs.append((name, value))
            case _:
                raise ProtocolError("the field `headers` must be a list of pairs of strings")
    return tuple(pairs)


def _read_params(_head: Head, _name: str, frame: Frame) -> str:
    return frame.text()


def _read_reason(head: Head, name: str) -> Reason:
    # SECURITY: a worker may only record denials that its own side decides.
    reason = _REFUSALS.get(head.text(name, 64))
    if reason is None:
        raise ProtocolError("the worker may not decide this refusal")
    return reason


def _make_reader(kind: type[Any]) -> Callable[[Head, Frame], Request[object]]:
    """Return a function that reads the fields of a request, each by its name and type."""
    hints = get_type_hints(kind).items()
    readers = [(name, _read_params if name == "params" else _FIELDS[hint]) for name, hint in hints]
    return lambda head, frame: kind(*[read(head, name, frame) for name, read in readers])


_FIELDS: dict[object, Callable[[Head, str, Frame], object]] = {
    str: lambda head, name, _: head.text(name, _MAX_TEXTS.get(name, MAX_TEXT)),
    str | None: lambda head, name, _: head.read_optional_text(name, _MAX_TEXTS.get(name, MAX_TEXT)),
    bool: lambda head, name, _: head.flag(name),
    int: lambda head, name, _: head.whole(name),
    int | None: lambda head, name, _: head.read_optional_whole(name),
    float | None: lambda head, name, _: head.read_optional_number(name),
    bytes: lambda _head, _name, frame: bytes(frame.tail),
    bytes | None: lambda head, name, frame: bytes(frame.tail) if head.flag(name) else None,
    Headers: lambda head, _name, _frame: _read_headers(head),
    Reason: lambda head, name, _: _read_reason(head, name),
}
"""Strict readers of the fields of requests. A request has at most one field in the frame's tail."""
_READERS = {name: _make_reader(kind) for kind, name in NAMES.items()}


# -- replies: written by the host, read by a worker --------------------------------------------------------------------


def write_reply(reply: object) -> tuple[bytes, bytes]:
    """Return a reply as head and tail of a frame."""
    match reply:
        case None:
            return _OK, b""
        case bytes():
            return _BYTES, reply
        case str():
            return _TEXT, reply.encode("utf-8", "surrogatepass")
    return _OK, json.dumps(plain(reply)).encode()


def write_failure(failure: HostFailure) -> tuple[bytes, bytes]:
    """Return a failure as head and tail of a frame."""
    return _FAILURE, json.dumps(failure.as_dict()).encode()


def read_reply(frame: Frame) -> object:
    """Return the data of a reply, for `Request.read_reply`. The host is trusted.

    Raises:
        HostFailure: the host denied the request or failed.
        HostEndedError: the call has ended.
    """
    if frame.head == _OK:
        return json.loads(bytes(frame.tail)) if frame.tail else None
    if frame.head == _BYTES:
        return bytes(frame.tail)
    if frame.head == _TEXT:
        return frame.text()
    if frame.head == _FAILURE:
        raise HostFailure.from_dict(json.loads(bytes(frame.tail)))
    raise HostEndedError
