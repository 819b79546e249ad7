"""Frames between the host and its workers: a kind, a JSON head and a tail of bytes, over a stream socket.

A frame is: `u32` length of everything after the number, `u8` kind, `u64` number of the exchange, `u32` length of the
head, head, tail; integers are little-endian. SECURITY: every frame of a worker is hostile input. Its length is checked
before its bytes are read, its head is a bounded JSON object, and each field is read by name and type (`Head`). The host
chooses a random number for each call and refuses frames with another, so a left-over result never answers a later call.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

from wasmrt.core.errors import WasmrtError
from wasmrt.core.lifetime import EndEvent, Lifetime, await_ready
from wasmrt.core.limits import KIB, MIB
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.core.tasks import current_task
from wasmrt.sandbox.isolation.wire._head import Head, ProtocolError

MAX_DESCRIPTION_HEAD = 16 * MIB
"""Maximum size of a head with the schemas or types of a component."""
MAX_CONTROL_BYTES = 64 * KIB
MAX_DESCRIPTORS = 4
NO_EXCHANGE = 0
"""The exchange number of frames that belong to no call: greetings, `BYE`, and frames of processes that fork others."""
_START = struct.Struct("<IBQ")
_HEAD = struct.Struct("<I")
_FRAME = struct.Struct("<IBQI")
"""The start of a frame: length, kind, number of the exchange and length of the head."""
FRAME_BYTES = _FRAME.size
"""The size of a frame without head and tail."""
_BUFFER_BYTES = 64 * KIB
_JOIN_BYTES = 256 * KIB
_TIMEVAL = struct.Struct("@ll")


class Kind(IntEnum):
    """The kinds of frames; a closed set on both sides."""

    # host to zygote, template and compile worker
    LOAD = 1
    FORK = 2
    COMPILE = 3
    REAP = 4
    # answers of these processes
    HELLO = 16
    SPAWNED = 17
    READY = 18
    ENDED = 19
    REFUSED = 20
    # host to run worker
    DESCRIBE = 32
    ADOPT = 33
    CALL = 34
    ANSWER = 35
    CANCEL = 36
    # run worker to host
    DESCRIBED = 48
    IMPORT = 49
    LOG = 50
    RESULT = 51
    FAULT = 52
    BYE = 53


class ClosedError(WasmrtError):
    """The other end was closed."""

    code = "closed"


class HeadBounds(NamedTuple):
    """Bounds of a head's JSON."""

    size: int
    depth: int
    parts: int
    """Maximum number of lists and objects. Reading each holds the GIL for up to 1 us."""


_HEAD_BOUNDS = HeadBounds(1 * MIB, 8, 20_000)
DESCRIPTION_BOUNDS = HeadBounds(MAX_DESCRIPTION_HEAD, 64, 200_000)


def _never(_events: int = 0) -> None:
    return None


class Frame(NamedTuple):
    """One frame with an unparsed head. `check` is called while a large head is parsed, and may raise."""

    kind: int
    head: bytes
    tail: bytes | memoryview
    check: Callable[[], None] = _never

    def text(self) -> str:
        """Return the tail as a string.

        Raises:
            ProtocolError: the tail is not UTF-8.
        """
        try:
            return str(self.tail, "utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise ProtocolError("tail of a frame: expected UTF-8") from error

    def fields(self, bounds: HeadBounds = _HEAD_BOUNDS) -> Head:
        """Read the head.

        Raises:
            ProtocolError: the head is not a JSON object within bounds.
        """
        size, depth, parts = bounds
        try:
            value = read_json(self.head, max_bytes=size, max_depth=depth, max_parts=parts, check=self.check)
        except JsonError as error:
            raise ProtocolError("head of a frame: expected JSON within bounds") from error
        if not isinstance(value, dict):
            raise ProtocolError("head of a frame: expected a JSON object")
        return Head(value)


class Channel:
    """One end of a stream socket. Used by one thread at a time.

    A read or write blocks for the seconds set with `patient`. After that, `waiting` is called with the awaited `poll`
    events, and usually waits for them or for the call's end. `between` is called between the pieces of a frame. If
    `waiting` or `between` raises, the wait ends; it can be repeated if the frame fits the buffer.

    `number` is the number of the exchange. It is sent in each frame and expected in each frame received.
    """

    __slots__ = ("_buffer", "_end", "_start", "_view", "between", "number", "socket", "waiting")

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.number = NO_EXCHANGE
        self.waiting: Callable[[int], None] = _never
        self.between: Callable[[], None] = _never
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0

    def patient(self, seconds: float) -> Channel:
        """Set how long a read or write blocks before `waiting` is called."""
        value = _TIMEVAL.pack(int(seconds), int(seconds % 1 * 1e6))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
        return self

    def limit(self, lifetime: Lifetime) -> None:
        """End every wait when `lifetime` ends."""
        self.between = lifetime.check
        self.waiting = partial(lifetime.await_ready, self.socket.fileno())

    def send(self, kind: Kind, head: dict[str, Any] | bytes = b"{}", *tail: bytes | memoryview) -> None:
        """Send a frame.

        Raises:
            ClosedError: the other end was closed.
        """
        parts = pack_frame(kind, self.number, head, *tail)
        if sum(map(len, tail)) <= _JOIN_BYTES:
            self._send(b"".join(parts))
            return
        for part in parts:
            self._send(part)

    @property
    def has_data(self) -> bool:
        """True if bytes of a further frame were read already."""
        return self._start != self._end

    def begin(self) -> None:
        """Start an exchange with a random number, which the peer must repeat in its frames."""
        self.number = int.from_bytes(os.urandom(8), "little") | 1

    def receive(self, most: int, *, joins: bool = False) -> Frame:
        """Wait for a frame of at most `most` bytes. With `joins` (in a worker), take over the number of its exchange.

        Raises:
            ClosedError: the other end was closed.
            ProtocolError: the frame is too long, its lengths contradict each other, or it belongs to another exchange.
        """
        size, kind, number, head = self._read_start()
        if joins:
            self.number = number
        elif number != (NO_EXCHANGE if kind == Kind.BYE else self.number):
            raise ProtocolError("expected a frame of this call, got one of another call")
        return self._read_rest(size, kind, head, most)

    def receive_any(self, most: Callable[[int, int], int]) -> Frame:
        """Wait for a frame of any exchange, and set `number` to its number.

        `most` returns the maximum size of a frame with this number and kind.

        Raises:
            ClosedError, ProtocolError: see `receive`.
        """
        size, kind, number, head = self._read_start()
        self.number = number
        return self._read_rest(size, kind, head, most(number, kind))

    def await_ready(self, events: int, seconds: float, ended: EndEvent | None) -> None:
        """Wait up to `seconds` for events of `poll` on the socket, or until `ended` is set."""
        await_ready(self.socket.fileno(), events, seconds, ended)

    def _read_start(self) -> tuple[int, int, int, int]:
        if self._start == self._end:
            self._start = self._end = 0
        self._reach(_FRAME.size)
        size, kind, number, head = _FRAME.unpack_from(self._buffer, self._start)
        return size, kind, number, head

    def _read_rest(self, size: int, kind: int, head: int, most: int) -> Frame:
        if not _HEAD.size <= size <= most:
            raise ProtocolError(f"expected a frame of at most {most} bytes, got {size}")
        if head > size - _HEAD.size:
            raise ProtocolError("the head of a frame is longer than the frame")
        body = self._take(size - _HEAD.size)
        tail = body[head:] if isinstance(body, bytes) else memoryview(body)[head:]  # only large bodies are not `bytes`
        return Frame(kind, bytes(body[:head]), tail, self.between)

    def cancel(self) -> None:
        """Send a cancel frame without waiting; ignore a closed or full socket."""
        with suppress(OSError):
            frame = _FRAME.pack(_HEAD.size + 2, Kind.CANCEL, self.number, 2)
            self.socket.send(frame + b"{}", socket.MSG_DONTWAIT)

    def close(self) -> None:
        """Close the local end of the socket."""
        self.socket.close()

    def _take(self, size: int) -> bytes | bytearray:
        if size <= _BUFFER_BYTES - _FRAME.size:
            self._reach(_FRAME.size + size)
            start = self._start + _FRAME.size
            self._start = start + size
            return bytes(self._view[start : start + size])
        # In pieces: a worker may announce a length and never send the bytes.
        whole = bytearray(self._view[self._start + _FRAME.size : self._end])
        self._start = self._end = 0
        while len(whole) < size:
            self.between()
            whole += self._receive(min(size - len(whole), MIB))
        return whole

    def _reach(self, size: int) -> None:
        """Wait until the buffer has `size` bytes. SECURITY: `between` also stops a sender of single bytes."""
        if self._end - self._start >= size:
            return
        self._fill()
        while self._end - self._start < size:
            self.between()
            self._fill()

    def _fill(self) -> None:
        if self._start and self._end == _BUFFER_BYTES:
            left = self._end - self._start
            self._view[:left] = bytes(self._view[self._start : self._end])
            self._start, self._end = 0, left
        while True:
            try:
                count = self.socket.recv_into(self._view[self._end :], 0, _flags())
            except BlockingIOError:
                self.waiting(select.POLLIN)
                continue
            except OSError as error:
                raise ClosedError("the other end of the socket was closed") from error
            if not count:
                raise ClosedError("the other end of the socket was closed")
            self._end += count
            return

    def _receive(self, most: int) -> bytes:
        while True:
            try:
                piece = self.socket.recv(most, _flags())
            except BlockingIOError:
                self.waiting(select.POLLIN)
                continue
            except OSError as error:
                raise ClosedError("the other end of the socket was closed") from error
            if not piece:
                raise ClosedError("the other end of the socket was closed")
            return piece

    def _send(self, data: bytes | memoryview) -> None:
        rest = data
        while len(rest):
            try:
                sent = self.socket.send(rest, _flags())
            except BlockingIOError:
                self.waiting(select.POLLOUT)
                continue
            except OSError as error:
                raise ClosedError("the other end of the socket was closed") from error
            if sent == len(rest):
                return
            self.between()
            rest = memoryview(rest)[sent:]


def pack_frame(
    kind: Kind, number: int, head: dict[str, Any] | bytes = b"{}", *tail: bytes | memoryview
) -> tuple[bytes | memoryview, ...]:
    """Return the parts of a frame."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    size = _HEAD.size + len(text) + sum(map(len, tail))
    return _FRAME.pack(size, kind, number, len(text)) + text, *tail


def _flags() -> int:
    """Return the flags of a read or write. In a task, it must not block the thread, not even for a short time."""
    return 0 if current_task() is None else socket.MSG_DONTWAIT


def send_with_descriptors(end: socket.socket, kind: Kind, head: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Send a control frame with descriptors, in one message.

    Raises:
        ClosedError: the other end was closed.
    """
    text = json.dumps(head).encode()
    data = _FRAME.pack(_HEAD.size + len(text), kind, NO_EXCHANGE, len(text)) + text
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    try:
        sent = end.sendmsg([data], rights)
        if sent < len(data):
            end.sendall(data[sent:])
    except OSError as error:
        raise ClosedError("the other end of the socket was closed") from error


def receive_with_descriptors(end: socket.socket) -> tuple[Frame, list[int]]:
    """Wait for a control frame, of at most `MAX_CONTROL_BYTES`, and the descriptors that came with it.

    Raises:
        ClosedError: the other end was closed.
        ProtocolError: the frame is not a control frame.
    """
    data = bytearray()
    descriptors: list[int] = []
    size = _START.size
    while len(data) < size:
        try:
            piece, ancillary, _, _ = end.recvmsg(size - len(data), socket.CMSG_SPACE(4 * MAX_DESCRIPTORS))
        except OSError as error:
            raise ClosedError("the other end of the socket was closed") from error
        for level, kind_of, rights in ancillary:
            if level == socket.SOL_SOCKET and kind_of == socket.SCM_RIGHTS:
                descriptors += array.array("i", rights[: len(rights) // 4 * 4])
        if not piece:
            raise ClosedError("the other end of the socket was closed")
        data += piece
        if len(data) == _START.size:
            size += _START.unpack_from(data)[0]
            if not _START.size + _HEAD.size <= size <= MAX_CONTROL_BYTES:
                raise ProtocolError("a control frame is too long")
    head = _HEAD.unpack_from(data, _START.size)[0]
    first = _START.size + _HEAD.size
    return Frame(data[4], bytes(data[first : first + head]), memoryview(data)[first + head :]), descriptors
