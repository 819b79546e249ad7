"""`wasi:random@0.2` from the call's clock: the system's randomness, or a seed where the call must replay."""

from __future__ import annotations

from wasmrt.core.errors import BudgetExceededError
from wasmrt.core.limits import MAX_RANDOM_BYTES, MAX_RANDOM_BYTES_PER_CALL
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface


class _Drawn:
    def __init__(self) -> None:
        self.count = 0


def _bytes(ctx: GuestCall, count: int) -> bytes:
    if count > MAX_RANDOM_BYTES_PER_CALL:
        raise BudgetExceededError(
            f"the guest asked for {count:,} random bytes at once",
            limit=MAX_RANDOM_BYTES_PER_CALL, used=count, setting="limits.MAX_RANDOM_BYTES_PER_CALL",
            hint="have the tool seed a generator of its own",
        )  # fmt: skip
    drawn = ctx.part(_Drawn)
    drawn.count += count
    if drawn.count > MAX_RANDOM_BYTES:
        raise BudgetExceededError(
            f"the guest drew more than {MAX_RANDOM_BYTES:,} random bytes",
            limit=MAX_RANDOM_BYTES, used=drawn.count, setting="limits.MAX_RANDOM_BYTES",
            hint="have the tool seed a generator of its own",
        )  # fmt: skip
    return ctx.clock.random_bytes(count)


def _u64(ctx: GuestCall) -> int:
    return int.from_bytes(_bytes(ctx, 8), "little")


def _seed(ctx: GuestCall) -> tuple[int, int]:
    return _u64(ctx), _u64(ctx)


INTERFACES = (
    HostInterface("wasi:random/random@0.2.0", {"get-random-bytes": _bytes, "get-random-u64": _u64}),
    HostInterface("wasi:random/insecure@0.2.0", {"get-insecure-random-bytes": _bytes, "get-insecure-random-u64": _u64}),
    HostInterface("wasi:random/insecure-seed@0.2.0", {"insecure-seed": _seed}),
)
