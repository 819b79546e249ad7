"""`wasi:io@0.2`: handles, pollables and streams of one call, as Python objects.

Nothing here blocks by itself: waits use the call's clock, which ends them at the call's deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from wasmrt.core.errors import BudgetExceededError, InternalError, TrapError
from wasmrt.core.limits import MAX_HANDLES, MAX_POLLABLES, MAX_STREAM_CHUNK_BYTES
from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface


def unreachable(resource: str, methods: str) -> dict[str, Callable[..., Any]]:
    """Return functions for the `methods` of a resource that guests never receive; each raises `InternalError`."""
    return {
        f"[method]{resource}.{method}": _make_unreachable_method(f"{resource}.{method}") for method in methods.split()
    }


def _make_unreachable_method(name: str) -> Callable[..., Any]:
    def raise_error(*_: object) -> Any:
        raise InternalError(f"{name} was called, but no guest receives a {name.partition('.')[0]}")

    return raise_error


Kind = TypeVar("Kind")


class Handles:
    """The open resources of one call (streams, errors, descriptors and others), by the guest's handle."""

    limit = MAX_HANDLES
    setting = "limits.MAX_HANDLES"
    noun = "handles"

    def __init__(self) -> None:
        self._open: dict[int, object] = {}
        self._next = 0

    def add(self, thing: object) -> int:
        """Add an object and return its handle.

        Raises:
            BudgetExceededError: the guest has too many open handles.
        """
        if len(self._open) >= self.limit:
            raise BudgetExceededError(
                f"the guest opened more than {self.limit:,} {self.noun}",
                limit=self.limit, used=self.limit + 1, setting=self.setting,
                hint="have the tool drop handles that it no longer uses",
            )  # fmt: skip
        self._next += 1
        self._open[self._next] = thing
        return self._next

    def get(self, rep: int, kind: type[Kind]) -> Kind:
        thing = self._open.get(rep)
        if not isinstance(thing, kind):
            # Unexpected: the engine checks that a handle is open and has the right type.
            raise InternalError(f"handle {rep} is not an open {kind.__name__}")
        return thing

    def drop(self, rep: int) -> None:
        self._open.pop(rep, None)


class Pollables(Handles):
    limit = MAX_POLLABLES
    setting = "limits.MAX_POLLABLES"
    noun = "pollables"


def drop_handle(ctx: GuestCall, rep: int) -> None:
    """Drop a resource in `Handles`. This function is the destructor of most resources."""
    ctx.part(Handles).drop(rep)


def drop_pollable(ctx: GuestCall, rep: int) -> None:
    ctx.part(Pollables).drop(rep)


CLOSED = Err(Case("closed"))
NEVER_NS = 2**65
"""The due time of a pollable that waits for an action of the guest: later than any time of a clock."""


class Pollable:
    """A pollable that is ready from `due_ns` of the guest's monotonic clock on; 0 is always ready."""

    __slots__ = ("_due_ns",)

    def __init__(self, due_ns: int = 0) -> None:
        self._due_ns = due_ns

    def due(self) -> int:
        return self._due_ns


class IoError:
    """The error of a failed stream operation: a message, and the code of a WASI package if there is one."""

    __slots__ = ("file_code", "http_code", "text")

    def __init__(self, text: str, *, file_code: str | None = None, http_code: Case | None = None) -> None:
        self.text = text
        self.file_code = file_code
        self.http_code = http_code


class InputStream:
    """An input stream; this base class is an empty stream."""

    def read(self, ctx: GuestCall, count: int) -> bytes | Err:
        """Read and return at most `count` bytes, or the stream error."""
        return CLOSED

    def pollable(self) -> Pollable:
        return Pollable()


class BytesStream(InputStream):
    """An input stream of bytes in memory, from an offset on."""

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
    """An output stream, always ready for writing."""

    def write(self, ctx: GuestCall, data: bytes) -> Ok | Err:
        raise NotImplementedError


def make_stream_error(ctx: GuestCall, error: IoError) -> Err:
    """Return a stream error with an error resource."""
    return Err(Case("last-operation-failed", ctx.part(Handles).add(error)))


def subscribe(ctx: GuestCall, pollable: Pollable) -> int:
    return ctx.part(Pollables).add(pollable)


def read(ctx: GuestCall, rep: int, count: int) -> Ok | Err:
    """Implement `input-stream.read` and `blocking-read`, which are the same here: a read waits for data."""
    data = ctx.part(Handles).get(rep, InputStream).read(ctx, min(count, MAX_STREAM_CHUNK_BYTES))
    return data if isinstance(data, Err) else Ok(data)


def skip(ctx: GuestCall, rep: int, count: int) -> Ok | Err:
    answer = read(ctx, rep, count)
    return Ok(len(answer.value)) if isinstance(answer, Ok) else answer


def write(ctx: GuestCall, rep: int, data: bytes) -> Ok | Err:
    """Write at most one chunk. More data is a stream error, because `check-write` permits only one chunk."""
    if len(data) > MAX_STREAM_CHUNK_BYTES:
        return make_stream_error(ctx, IoError(f"a write may have {MAX_STREAM_CHUNK_BYTES} bytes, see check-write"))
    return ctx.part(Handles).get(rep, OutputStream).write(ctx, data)


def write_zeroes(ctx: GuestCall, rep: int, count: int) -> Ok | Err:
    return write(ctx, rep, bytes(min(count, MAX_STREAM_CHUNK_BYTES + 1)))  # `write` rejects more than a chunk


def splice(ctx: GuestCall, rep: int, source: int, count: int) -> Ok | Err:
    answer = read(ctx, source, count)
    if isinstance(answer, Err):
        return answer
    written = write(ctx, rep, answer.value)
    return Ok(len(answer.value)) if isinstance(written, Ok) else written


def _debug_string(ctx: GuestCall, rep: int) -> str:
    return ctx.part(Handles).get(rep, IoError).text


def _wait(ctx: GuestCall, pollables: list[Pollable]) -> list[int]:
    """Sleep until a pollable is due, and return the indexes of all that are due. The deadline ends the sleep."""
    while True:
        now = ctx.clock.monotonic_ns()
        ready = [index for index, pollable in enumerate(pollables) if pollable.due() <= now]
        if ready:
            return ready
        soonest = min(pollable.due() for pollable in pollables)
        if soonest >= NEVER_NS:
            raise TrapError(
                "the guest waits for the response to a request that it has not finished",
                hint="finish the request's outgoing-body before waiting",
            )
        ctx.clock.sleep(ctx.lifetime, (soonest - now) / 1e9)


def _poll(ctx: GuestCall, reps: list[int]) -> list[int]:
    if not reps:
        raise TrapError("the guest polled an empty list", hint="have the tool poll at least one pollable")
    table = ctx.part(Pollables)
    return _wait(ctx, [table.get(rep, Pollable) for rep in reps])


def _block(ctx: GuestCall, rep: int) -> None:
    _wait(ctx, [ctx.part(Pollables).get(rep, Pollable)])


def _is_ready(ctx: GuestCall, rep: int) -> bool:
    due = ctx.part(Pollables).get(rep, Pollable).due()
    return due == 0 or due <= ctx.clock.monotonic_ns()


def _subscribe_input(ctx: GuestCall, rep: int) -> int:
    return subscribe(ctx, ctx.part(Handles).get(rep, InputStream).pollable())


def _subscribe_output(ctx: GuestCall, rep: int) -> int:
    ctx.part(Handles).get(rep, OutputStream)
    return subscribe(ctx, Pollable())


def _check_write(ctx: GuestCall, rep: int) -> Ok:
    ctx.part(Handles).get(rep, OutputStream)
    return Ok(MAX_STREAM_CHUNK_BYTES)


def _flush(ctx: GuestCall, rep: int) -> Ok:
    ctx.part(Handles).get(rep, OutputStream)
    return Ok()


INTERFACES = (
    HostInterface("wasi:io/error@0.2.0", {"[method]error.to-debug-string": _debug_string}, {"error": drop_handle}),
    HostInterface(
        "wasi:io/poll@0.2.0",
        {"poll": _poll, "[method]pollable.ready": _is_ready, "[method]pollable.block": _block},
        {"pollable": drop_pollable},
    ),
    HostInterface(
        "wasi:io/streams@0.2.0",
        {
            "[method]input-stream.read": read,
            "[method]input-stream.blocking-read": read,
            "[method]input-stream.skip": skip,
            "[method]input-stream.blocking-skip": skip,
            "[method]input-stream.subscribe": _subscribe_input,
            "[method]output-stream.check-write": _check_write,
            "[method]output-stream.write": write,
            "[method]output-stream.blocking-write-and-flush": write,
            "[method]output-stream.flush": _flush,
            "[method]output-stream.blocking-flush": _flush,
            "[method]output-stream.subscribe": _subscribe_output,
            "[method]output-stream.write-zeroes": write_zeroes,
            "[method]output-stream.blocking-write-zeroes-and-flush": write_zeroes,
            "[method]output-stream.splice": splice,
            "[method]output-stream.blocking-splice": splice,
        },
        {"input-stream": drop_handle, "output-stream": drop_handle},
    ),
)
