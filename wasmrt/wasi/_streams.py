"""Streams and pollables as Python objects: what the interfaces of `wasi:io` hand out numbers for.

Nothing here blocks on its own: waiting goes through the call's clock, which ends at the call's deadline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt.engine import Case, Err, Ok
from wasmrt.limits import MAX_STREAM_CHUNK_BYTES
from wasmrt.wasi._handles import Handles, Pollables

if TYPE_CHECKING:
    from wasmrt.context import CallContext

CLOSED = Err(Case("closed"))


class Pollable:
    """Ready from `due_ns` of the guest's monotonic clock on; 0 is always ready."""

    __slots__ = ("due_ns",)

    def __init__(self, due_ns: int = 0) -> None:
        self.due_ns = due_ns


class IoError:
    """What a failed stream operation leaves behind: a text, and the filesystem's word where it has one."""

    __slots__ = ("code", "text")

    def __init__(self, text: str, code: str | None = None) -> None:
        self.text = text
        self.code = code


class InputStream:
    """At its end from the start: standard input, and the base of what can be read."""

    def read(self, ctx: CallContext, count: int) -> bytes | Err:
        """At most `count` bytes, or the stream error."""
        return CLOSED

    def pollable(self) -> Pollable:
        return Pollable()


class OutputStream:
    """Takes everything at once; the base of what can be written."""

    def write(self, ctx: CallContext, data: bytes) -> None:
        raise NotImplementedError


def failed(ctx: CallContext, text: str, code: str | None = None) -> Err:
    """A stream error that carries an error resource."""
    return Err(Case("last-operation-failed", ctx.part(Handles).add(IoError(text, code))))


def subscribe(ctx: CallContext, pollable: Pollable) -> int:
    return ctx.part(Pollables).add(pollable)


def read(ctx: CallContext, rep: int, count: int) -> Ok | Err:
    """`[method]input-stream.read` and its blocking twin: no stream of ours is ever half ready."""
    data = ctx.part(Handles).get(rep, InputStream).read(ctx, min(count, MAX_STREAM_CHUNK_BYTES))
    return data if isinstance(data, Err) else Ok(data)


def skip(ctx: CallContext, rep: int, count: int) -> Ok | Err:
    answer = read(ctx, rep, count)
    return Ok(len(answer.value)) if isinstance(answer, Ok) else answer


def write(ctx: CallContext, rep: int, data: bytes) -> Ok | Err:
    """Write at most one chunk; more breaks the contract of `check-write`, and is an error of the stream."""
    if len(data) > MAX_STREAM_CHUNK_BYTES:
        return failed(ctx, f"a write may hold {MAX_STREAM_CHUNK_BYTES} bytes, see check-write")
    ctx.part(Handles).get(rep, OutputStream).write(ctx, data)
    return Ok()


def write_zeroes(ctx: CallContext, rep: int, count: int) -> Ok | Err:
    if count > MAX_STREAM_CHUNK_BYTES:
        return failed(ctx, f"a write may hold {MAX_STREAM_CHUNK_BYTES} bytes, see check-write")
    return write(ctx, rep, bytes(count))


def splice(ctx: CallContext, rep: int, source: int, count: int) -> Ok | Err:
    answer = read(ctx, source, count)
    if isinstance(answer, Err):
        return answer
    written = write(ctx, rep, answer.value)
    return Ok(len(answer.value)) if isinstance(written, Ok) else written
