"""Implement `wasi:clocks@0.2` and `wasi:random@0.2` with the call's clock."""

from __future__ import annotations

from collections import Counter
from typing import Any

from wasmrt.core.errors import BudgetExceededError
from wasmrt.core.limits import CLOCK_RESOLUTION_NS, MAX_RANDOM_BYTES, MAX_RANDOM_BYTES_PER_CALL
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.wasi._io import Pollable, subscribe

_SECOND = 1_000_000_000
_RANDOM_BYTES = "random bytes"


def _monotonic(ctx: GuestCall) -> int:
    # SECURITY: the time is truncated, because cache-timing attacks need a precise timer.
    return ctx.clock.monotonic_ns() // CLOCK_RESOLUTION_NS * CLOCK_RESOLUTION_NS


def _subscribe_instant(ctx: GuestCall, when: int) -> int:
    # The time is rounded up, so that a guest that slept until `when` never reads an earlier time afterwards.
    return subscribe(ctx, Pollable(-(-when // CLOCK_RESOLUTION_NS) * CLOCK_RESOLUTION_NS))


def _subscribe_duration(ctx: GuestCall, nanoseconds: int) -> int:
    return _subscribe_instant(ctx, ctx.clock.monotonic_ns() + nanoseconds)


def datetime(nanoseconds: int) -> dict[str, int]:
    """Return the WIT record `datetime` for a Unix time in nanoseconds."""
    return {"seconds": nanoseconds // _SECOND, "nanoseconds": nanoseconds % _SECOND}


def _wall(ctx: GuestCall) -> dict[str, int]:
    return datetime(ctx.clock.now_ns() // CLOCK_RESOLUTION_NS * CLOCK_RESOLUTION_NS)


def _utc(_ctx: GuestCall, _when: dict[str, int]) -> dict[str, Any]:
    return {"utc-offset": 0, "name": "UTC", "in-daylight-saving-time": False}


def _bytes(ctx: GuestCall, count: int) -> bytes:
    if count > MAX_RANDOM_BYTES_PER_CALL:
        raise BudgetExceededError(
            f"the guest requested {count:,} random bytes at once",
            limit=MAX_RANDOM_BYTES_PER_CALL, used=count, setting="limits.MAX_RANDOM_BYTES_PER_CALL",
            hint="have the tool seed its own generator",
        )  # fmt: skip
    used: Counter[str] = ctx.part(Counter)
    used[_RANDOM_BYTES] += count
    if used[_RANDOM_BYTES] > MAX_RANDOM_BYTES:
        raise BudgetExceededError(
            f"the guest requested more than {MAX_RANDOM_BYTES:,} random bytes",
            limit=MAX_RANDOM_BYTES, used=used[_RANDOM_BYTES], setting="limits.MAX_RANDOM_BYTES",
            hint="have the tool seed its own generator",
        )  # fmt: skip
    return ctx.clock.random_bytes(count)


def _u64(ctx: GuestCall) -> int:
    return int.from_bytes(_bytes(ctx, 8), "little")


def _seed(ctx: GuestCall) -> tuple[int, int]:
    return _u64(ctx), _u64(ctx)


INTERFACES = (
    HostInterface(
        "wasi:clocks/monotonic-clock@0.2.0",
        {
            "now": _monotonic,
            "resolution": lambda _ctx: CLOCK_RESOLUTION_NS,
            "subscribe-instant": _subscribe_instant,
            "subscribe-duration": _subscribe_duration,
        },
    ),
    HostInterface(
        "wasi:clocks/wall-clock@0.2.0", {"now": _wall, "resolution": lambda _ctx: datetime(CLOCK_RESOLUTION_NS)}
    ),
    HostInterface("wasi:clocks/timezone@0.2.0", {"display": _utc, "utc-offset": lambda _ctx, _when: 0}),
    HostInterface("wasi:random/random@0.2.0", {"get-random-bytes": _bytes, "get-random-u64": _u64}),
    HostInterface("wasi:random/insecure@0.2.0", {"get-insecure-random-bytes": _bytes, "get-insecure-random-u64": _u64}),
    HostInterface("wasi:random/insecure-seed@0.2.0", {"insecure-seed": _seed}),
)
