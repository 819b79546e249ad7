"""`wasi:io@0.2`: error, poll, streams."""

from __future__ import annotations

from wasmrt.core.errors import TrapError
from wasmrt.core.limits import MAX_STREAM_CHUNK_BYTES
from wasmrt.sandbox.component import Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.wasi import _streams
from wasmrt.sandbox.guest.wasi._handles import Handles, Pollables, drop_handle, drop_pollable
from wasmrt.sandbox.guest.wasi._streams import NEVER_NS, InputStream, IoError, OutputStream, Pollable


def _debug_string(ctx: GuestCall, rep: int) -> str:
    return ctx.part(Handles).get(rep, IoError).text


def _wait(ctx: GuestCall, pollables: list[Pollable]) -> list[int]:
    """Sleep until one is due and return the indexes of those that are; the deadline ends the wait."""
    while True:
        now = ctx.clock.monotonic_ns()
        ready = [index for index, pollable in enumerate(pollables) if pollable.due() <= now]
        if ready:
            return ready
        soonest = min(pollable.due() for pollable in pollables)
        if soonest >= NEVER_NS:
            raise TrapError(
                "the guest waits for a response to a request that it has not finished",
                hint="finish the request's outgoing-body before waiting",
            )
        ctx.clock.sleep(ctx.lifetime, (soonest - now) / 1e9)


def _poll(ctx: GuestCall, reps: list[int]) -> list[int]:
    if not reps:
        raise TrapError("the guest polled an empty list", hint="WIT: wasi:io/poll traps on an empty list")
    table = ctx.part(Pollables)
    return _wait(ctx, [table.get(rep, Pollable) for rep in reps])


def _block(ctx: GuestCall, rep: int) -> None:
    _wait(ctx, [ctx.part(Pollables).get(rep, Pollable)])


def _ready(ctx: GuestCall, rep: int) -> bool:
    due = ctx.part(Pollables).get(rep, Pollable).due()
    return due == 0 or due <= ctx.clock.monotonic_ns()


def _subscribe_input(ctx: GuestCall, rep: int) -> int:
    return _streams.subscribe(ctx, ctx.part(Handles).get(rep, InputStream).pollable())


def _subscribe_output(ctx: GuestCall, rep: int) -> int:
    ctx.part(Handles).get(rep, OutputStream)
    return _streams.subscribe(ctx, Pollable())


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
        {"poll": _poll, "[method]pollable.ready": _ready, "[method]pollable.block": _block},
        {"pollable": drop_pollable},
    ),
    HostInterface(
        "wasi:io/streams@0.2.0",
        {
            "[method]input-stream.read": _streams.read,
            "[method]input-stream.blocking-read": _streams.read,
            "[method]input-stream.skip": _streams.skip,
            "[method]input-stream.blocking-skip": _streams.skip,
            "[method]input-stream.subscribe": _subscribe_input,
            "[method]output-stream.check-write": _check_write,
            "[method]output-stream.write": _streams.write,
            "[method]output-stream.blocking-write-and-flush": _streams.write,
            "[method]output-stream.flush": _flush,
            "[method]output-stream.blocking-flush": _flush,
            "[method]output-stream.subscribe": _subscribe_output,
            "[method]output-stream.write-zeroes": _streams.write_zeroes,
            "[method]output-stream.blocking-write-zeroes-and-flush": _streams.write_zeroes,
            "[method]output-stream.splice": _streams.splice,
            "[method]output-stream.blocking-splice": _streams.splice,
        },
        {"input-stream": drop_handle, "output-stream": drop_handle},
    ),
)
