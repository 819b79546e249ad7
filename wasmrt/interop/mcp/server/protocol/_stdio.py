"""The stdio transport: one message per line on standard input and output."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from wasmrt.core.limits import KIB, MIB
from wasmrt.interop.mcp.server.protocol._caller import Peer
from wasmrt.interop.mcp.server.protocol._connection import Connection, Report
from wasmrt.interop.mcp.server.protocol._server import Server
from wasmrt.interop.mcp.server.protocol._wire import (
    INVALID_REQUEST,
    MAX_MESSAGE_BYTES,
    Answer,
    UnreadableError,
    encode_message,
)

DRAIN_SECONDS = 5.0
"""Seconds for calls that still run at the end of standard input."""
_READ_BYTES = 256 * KIB
_MAX_UNWRITTEN_BYTES = 8 * MIB
"""Bytes of unread responses; while there are more, no further messages are read."""


async def serve_stdio(
    server: Server,
    *,
    user: str,
    report: Report,
    source: int = 0,
    sink: int = 1,
    ended: asyncio.Event | None = None,
) -> None:
    """Serve one client over two file descriptors, until the source ends or the sink cannot be written.

    After `ended` is set, running requests are still answered. Cancelling this function cancels them.

    Args:
        server: Answers the messages.
        user: The user of the calls.
        report: Called with messages for the server's operator.
        source: The descriptor to read.
        sink: The descriptor to write.
        ended: Set to stop reading.
    """
    ended = ended or asyncio.Event()
    out = LineWriter(sink, ended.set)
    connection = Connection(server, Peer(user), out.send, report)
    reader = LineReader(source, connection.receive, connection.answer_unreadable, ended.set, lambda: out.is_full)
    out.on_room = reader.resume
    reader.start()
    try:
        await ended.wait()
        if not out.broken:
            await connection.drain(DRAIN_SECONDS)
            await out.drain(DRAIN_SECONDS)
    finally:
        reader.stop()
        await connection.closed()
        out.stop()
        server.close()


class Lines:
    """Splits bytes into lines, none of which is longer than a message may be."""

    def __init__(self, take: Callable[[bytes], None], answer_unreadable: Callable[[UnreadableError], None]) -> None:
        self._take = take
        self._answer_unreadable = answer_unreadable
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> None:
        """Split bytes; pass on each complete line without its end, except empty lines."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._add(line)
            self._end()
        self._add(rest)

    def end(self) -> None:
        """Handle the rest after the last line end as a line: the input has ended."""
        self._end()

    def _add(self, data: bytes) -> None:
        if self._skipping or not data:
            return
        self._parts.append(data)
        self._size += len(data)
        if self._size > MAX_MESSAGE_BYTES:
            self._parts, self._size, self._skipping = [], 0, True
            self._answer_unreadable(
                UnreadableError(INVALID_REQUEST, f"the message is over {MAX_MESSAGE_BYTES:,} bytes")
            )

    def _end(self) -> None:
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._size, self._skipping = [], 0, False
        if line.strip(b" \t\r"):
            self._take(line)


class LineReader:
    """Reads lines from a descriptor in the event loop, or from a regular file in a thread."""

    def __init__(
        self,
        source: int,
        take: Callable[[bytes], None],
        answer_unreadable: Callable[[UnreadableError], None],
        on_end: Callable[[], None],
        is_full: Callable[[], bool],
    ) -> None:
        self._source = source
        self._lines = Lines(take, answer_unreadable)
        self._on_end = on_end
        self._is_full = is_full
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._polled = True

    def start(self) -> None:
        """Start reading."""
        try:
            self._loop.add_reader(self._source, self._read)
            self._reading = True
        except OSError:  # epoll does not support regular files
            self._polled = False
            threading.Thread(target=self._read_file, name="wasmrt-mcp-input", daemon=True).start()

    def stop(self) -> None:
        """Stop reading."""
        if self._reading:
            self._loop.remove_reader(self._source)
            self._reading = False

    def resume(self) -> None:
        """Continue reading, after the client has read responses."""
        if self._polled and not self._reading:
            self._loop.add_reader(self._source, self._read)
            self._reading = True

    def _read(self) -> None:
        try:
            data = os.read(self._source, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._take(data)
        if data and self._is_full():
            self.stop()

    def _take(self, data: bytes) -> None:
        if data:
            self._lines.feed(data)
            return
        self._lines.end()
        self.stop()
        self._polled = False
        self._on_end()

    def _read_file(self) -> None:
        data = b"more"
        while data:
            try:
                data = os.read(self._source, _READ_BYTES)
            except OSError:
                data = b""
            try:
                self._loop.call_soon_threadsafe(self._take, data)
            except RuntimeError:  # the loop was closed
                return


class LineWriter:
    """Writes messages to a descriptor without blocking if the client does not read.

    The descriptor's flags are unchanged, since it may be a shared terminal. A pipe that is ready accepts `PIPE_BUF`
    bytes without blocking (POSIX, write), so at most that many are written at a time.
    """

    def __init__(self, sink: int, on_broken: Callable[[], None]) -> None:
        self._sink = sink
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[memoryview] = deque()
        self._size = 0
        self._watched = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._poll = select.poll()
        self._poll.register(sink, select.POLLOUT)
        self.broken = False
        """True once the client has closed its end."""
        self.on_room: Callable[[], None] = lambda: None

    @property
    def is_full(self) -> bool:
        """True if the client has left too many bytes unread."""
        return self._size > _MAX_UNWRITTEN_BYTES

    def send(self, message: Answer) -> None:
        """Write a message, at once or when the client reads."""
        if self.broken:
            return
        line = encode_message(message) + b"\n"
        self._waiting.append(memoryview(line))
        self._size += len(line)
        self._empty.clear()
        if not self._watched:
            self._write()

    async def drain(self, seconds: float) -> None:
        """Wait up to `seconds` until everything is written."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), seconds)

    def stop(self) -> None:
        """Stop writing."""
        if self._watched:
            self._loop.remove_writer(self._sink)
            self._watched = False

    def _write(self) -> None:
        was_full = self.is_full
        while self._waiting:
            if not self._poll.poll(0):
                self._watch()
                break
            try:
                size = os.write(self._sink, self._waiting[0][: select.PIPE_BUF])
            except (BlockingIOError, InterruptedError):
                self._watch()
                break
            except OSError:
                self._close_broken()
                return
            self._size -= size
            self._waiting[0] = self._waiting[0][size:]
            if not self._waiting[0]:
                self._waiting.popleft()
        if not self._waiting:
            self.stop()
            self._empty.set()
        if was_full and not self.is_full:
            self.on_room()

    def _watch(self) -> None:
        if not self._watched:
            self._loop.add_writer(self._sink, self._write)
            self._watched = True

    def _close_broken(self) -> None:
        self.broken = True
        self.stop()
        self._waiting.clear()
        self._size = 0
        self._empty.set()
        self._on_broken()
