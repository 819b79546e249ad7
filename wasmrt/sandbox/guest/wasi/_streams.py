"""Streams and pollables as Python objects: what the interfaces of `wasi:io` hand out numbers for.

Nothing here blocks on its own: waiting goes through the call's clock, which ends at the call's deadline.
"""

from __future__ import annotations

from wasmrt.core.limits import MAX_STREAM_CHUNK_BYTES
from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.wasi._handles import Handles, Pollables

CLOSED = Err(Case("closed"))
NEVER_NS = 2**65
"""Due when the guest itself has done something, and not before: later than any time a clock can be asked for."""


class Pollable:
    """Ready from `due_ns` of the guest's monotonic clock on; 0 is always ready."""

    __slots__ = ("_due_ns",)

    def __init__(self, due_ns: int = 0) -> None:
        self._due_ns = due_ns

    def due(self) -> int:
        return self._due_ns


class IoError:
    """The error of a failed stream operation: a text, and its package's code where it has one."""

    __slots__ = ("file_code", "http_code", "text")

    def __init__(self, text: str, *, file_code: str | None = None, http_code: Case | None = None) -> None:
        self.text = text
        self.file_code = file_code
        self.http_code = http_code


class InputStream:
    """At its end from the start: standard input, and the base of what can be read."""

    def read(self, ctx: GuestCall, count: int) -> bytes | Err:
        """At most `count` bytes, or the stream error."""
        return CLOSED

    def pollable(self) -> Pollable:
        return Pollable()


class BytesStream(InputStream):
    """Bytes that are already here, from an offset on."""

    def __init__(self, content: bytes | bytearray, offset: int = 0) -> None:
        self._content = content
        self._offset = offset

    def read(self, ctx: GuestCall, count: int) -> bytes | Err:
        if self._offset >= len(self._content):
            return CLOSED
        chunk = bytes(self._content[self._offset : self._offset + count])
        self._offset += len(chunk)
        return chunk


class OutputStream:
    """Takes everything at once; the base of what can be written."""

    def write(self, ctx: GuestCall, data: bytes) -> Ok | Err:
        raise NotImplementedError


def failed(ctx: GuestCall, error: IoError) -> Err:
    """A stream error that carries an error resource."""
    return Err(Case("last-operation-failed", ctx.part(Handles).add(error)))


def subscribe(ctx: GuestCall, pollable: Pollable) -> int:
    return ctx.part(Pollables).add(pollable)


def read(ctx: GuestCall, rep: int, count: int) -> Ok | Err:
    """`[method]input-stream.read` and its blocking twin: no stream of ours is ever half ready."""
    data = ctx.part(Handles).get(rep, InputStream).read(ctx, min(count, MAX_STREAM_CHUNK_BYTES))
    return data if isinstance(data, Err) else Ok(data)


def skip(ctx: GuestCall, rep: int, count: int) -> Ok | Err:
    answer = read(ctx, rep, count)
    return Ok(len(answer.value)) if isinstance(answer, Ok) else answer


def write(ctx: GuestCall, rep: int, data: bytes) -> Ok | Err:
    """Write at most one chunk; more breaks the contract of `check-write`, and is an error of the stream."""
    if len(data) > MAX_STREAM_CHUNK_BYTES:
        return failed(ctx, IoError(f"a write may hold {MAX_STREAM_CHUNK_BYTES} bytes, see check-write"))
    return ctx.part(Handles).get(rep, OutputStream).write(ctx, data)


def write_zeroes(ctx: GuestCall, rep: int, count: int) -> Ok | Err:
    if count > MAX_STREAM_CHUNK_BYTES:
        return failed(ctx, IoError(f"a write may hold {MAX_STREAM_CHUNK_BYTES} bytes, see check-write"))
    return write(ctx, rep, bytes(count))


def splice(ctx: GuestCall, rep: int, source: int, count: int) -> Ok | Err:
    answer = read(ctx, source, count)
    if isinstance(answer, Err):
        return answer
    written = write(ctx, rep, answer.value)
    return Ok(len(answer.value)) if isinstance(written, Ok) else written
