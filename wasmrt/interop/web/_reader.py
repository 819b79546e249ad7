"""Read a request from a connection, within the limits of its head and body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager

import h11

from wasmrt.interop.web._message import Request, WebBounds

_MAX_AHEAD_BYTES = 64 * 1024
"""Bytes that a client may send before the response to its previous request."""


class GoneError(Exception):
    """The client disconnected or exceeded a limit; no response is possible."""


class ClientReader(asyncio.StreamReader):
    """A stream that cancels a client's running task if the client disconnects or sends too far ahead."""

    def __init__(self) -> None:
        super().__init__()
        self._task: asyncio.Task[object] | None = None
        """The task that answers the current request."""
        self._unread = 0
        self._gone = False

    @contextmanager
    def cancel_on_disconnect(self) -> Iterator[None]:
        """Cancel the block if the client disconnects.

        Raises:
            GoneError: the client has disconnected.
        """
        if self._gone or self._unread > _MAX_AHEAD_BYTES:
            raise GoneError
        task = self._task = asyncio.current_task()
        assert task is not None
        try:
            yield
        except asyncio.CancelledError:
            if self._task is task or task.uncancel():
                raise  # cancelled from elsewhere
            raise GoneError from None
        else:
            if self._task is not task:  # the block suppressed its cancellation
                task.uncancel()
                raise GoneError
        finally:
            self._task = None

    def unwatch(self) -> None:
        """Stop watching, so that the task is cancelled only once."""
        self._task = None

    async def read(self, n: int = -1) -> bytes:
        """Return at most `n` received bytes; wait for the first."""
        data = await super().read(n)
        self._unread -= len(data)
        return data

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # no transport feeds more
        """Receive data."""
        super().feed_data(data)
        self._unread += len(data)
        if self._unread > _MAX_AHEAD_BYTES:
            self._leave()

    def feed_eof(self) -> None:
        """Receive the end of the stream."""
        super().feed_eof()
        self._gone = True
        self._leave()

    def set_exception(self, exc: Exception) -> None:
        """Receive the error of a broken connection."""
        super().set_exception(exc)
        self._gone = True
        self._leave()

    def _leave(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()


END_OF_HEAD = re.compile(rb"\n\r?\n")
"""The end of a head. Wrong line endings match too: otherwise the server would wait for the end, and not refuse."""
_BAD_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_FOLD = re.compile(rb"\n[ \t]")
_LENGTH = re.compile(rb"(?im)^content-length:([^\r]*)")
_ONE_LENGTH = re.compile(rb"[ \t]*[0-9]{1,15}[ \t]*")
_ALONE = ("authorization", "content-length", "content-type", "cookie", "expect", "host", "origin", "transfer-encoding")
"""Headers that must not be repeated (RFC 9110): servers could read a repetition as two different requests."""


class Refused(Exception):  # noqa: N818 - it carries a response's status, and never leaves this package
    """A request to answer with `status` before closing the connection."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def check_shape(head: bytes, bounds: WebBounds) -> None:
    """Refuse a head that another server could parse differently.

    SECURITY: h11 accepts bare LF line ends, joins folded lines, and merges equal lengths (RFC 9112, 2.2, 5.2 and
    6.3). If a proxy in front of this server does not, the two see different requests.
    """
    if len(head) > bounds.head_bytes or head.count(b"\n") > bounds.headers + 2:
        raise Refused(431)
    if _BAD_LINE_END.search(head) or _FOLD.search(head):
        raise Refused(400)
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or not all(map(_ONE_LENGTH.fullmatch, lengths)):
        raise Refused(400)


def parse(event: h11.Request, client: str) -> Request:
    """Return the request of a head; its body follows later.

    SECURITY: refuse two lengths, or a length with chunks, since a proxy may choose the other (RFC 9112, 6.1), and a
    target that contains a server name (`http://...`, RFC 9112, 3.2.2), which could contradict the Host header.
    """
    headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers)
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _ALONE) or {"content-length", "transfer-encoding"} <= {*names}:
        raise Refused(400)
    target = event.target.decode("ascii")
    if not target.startswith("/") or "#" in target:
        raise Refused(400)
    if event.http_version != b"1.1" and (event.http_version != b"1.0" or "transfer-encoding" in names):
        raise Refused(400 if event.http_version == b"1.0" else 505)
    path, _, query = target.partition("?")
    method = event.method.decode("ascii")
    return Request(method=method, path=path, query=query, headers=headers, client=client)


def body_length(request: Request, bounds: WebBounds) -> int:
    """Return the declared length of a body, 0 if it is missing or chunked.

    Raises:
        Refused: the body is too long or encoded, or the Expect header is not supported.
    """
    if (request.header("content-encoding") or "identity").lower() != "identity":
        raise Refused(415)
    if (request.header("expect") or "100-continue").lower() != "100-continue":
        raise Refused(417)
    length = int(request.header("content-length") or 0)
    if length > bounds.body_bytes:
        raise Refused(413)
    return length
