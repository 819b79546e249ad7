"""Clocks, polling and randomness: coarse, limited by the call's deadline, and deterministic in a replay."""

from __future__ import annotations

import pytest

from tests.sandbox.wasi.conftest import Guest
from wasmrt.core.errors import BudgetExceededError, CancelledError, DeadlineExceededError, TrapError
from wasmrt.core.limits import (
    CLOCK_RESOLUTION_NS,
    MAX_POLLABLES,
    MAX_RANDOM_BYTES,
    MAX_RANDOM_BYTES_PER_CALL,
)
from wasmrt.sandbox.guest.clock import LogicalClock, SystemClock

_HOUR = 3_600_000_000_000


def test_clocks_are_truncated_to_their_resolution() -> None:
    guest = Guest(clock=SystemClock())
    assert guest("clocks/monotonic-clock#resolution") == CLOCK_RESOLUTION_NS
    assert guest("clocks/monotonic-clock#now") % CLOCK_RESOLUTION_NS == 0
    wall = guest("clocks/wall-clock#now")
    assert wall["seconds"] > 1_700_000_000
    assert wall["nanoseconds"] % CLOCK_RESOLUTION_NS == 0
    assert guest("clocks/wall-clock#resolution") == {"seconds": 0, "nanoseconds": CLOCK_RESOLUTION_NS}


def test_the_timezone_is_utc(guest: Guest) -> None:
    now = guest("clocks/wall-clock#now")
    assert guest("clocks/timezone#utc-offset", now) == 0
    assert guest("clocks/timezone#display", now)["name"] == "UTC"


def test_the_clock_is_not_before_the_instant_slept_until() -> None:
    guest = Guest(clock=SystemClock())
    due = guest("clocks/monotonic-clock#now") + 2_300_000
    guest("io/poll#[method]pollable.block", guest("clocks/monotonic-clock#subscribe-instant", due))
    assert guest("clocks/monotonic-clock#now") >= due


def test_poll_returns_the_first_pollables_that_are_due(guest: Guest) -> None:
    late = guest("clocks/monotonic-clock#subscribe-duration", 2 * _HOUR)
    early = guest("clocks/monotonic-clock#subscribe-duration", _HOUR)
    assert guest("io/poll#poll", [late, early]) == [1]
    assert guest("io/poll#[method]pollable.ready", early)
    assert not guest("io/poll#[method]pollable.ready", late)


@pytest.mark.parametrize("nanoseconds", [_HOUR, 2**64 - 1])
def test_a_sleep_ends_at_the_deadline(nanoseconds: int) -> None:
    guest = Guest(seconds=0.05, clock=SystemClock())
    with pytest.raises(DeadlineExceededError):
        guest("io/poll#[method]pollable.block", guest("clocks/monotonic-clock#subscribe-duration", nanoseconds))


def test_a_sleep_ends_when_the_call_is_cancelled() -> None:
    guest = Guest(clock=SystemClock())
    pollable = guest("clocks/monotonic-clock#subscribe-duration", _HOUR)
    guest.call.lifetime.cancel()
    with pytest.raises(CancelledError):
        guest("io/poll#poll", [pollable])


def test_polling_nothing_traps(guest: Guest) -> None:
    with pytest.raises(TrapError):
        guest("io/poll#poll", [])


def test_pollables_are_limited_and_can_be_dropped(guest: Guest) -> None:
    pollables = [guest("clocks/monotonic-clock#subscribe-duration", 1) for _ in range(MAX_POLLABLES)]
    with pytest.raises(BudgetExceededError) as caught:
        guest("clocks/monotonic-clock#subscribe-duration", 1)
    assert caught.value.setting == "limits.MAX_POLLABLES"
    guest.drop("io/poll#pollable", pollables[0])
    guest("clocks/monotonic-clock#subscribe-duration", 1)


@pytest.mark.parametrize("name", ["random/random#get-random-bytes", "random/insecure#get-insecure-random-bytes"])
def test_random_bytes_are_limited_per_request_and_in_total(guest: Guest, name: str) -> None:
    assert len(guest(name, MAX_RANDOM_BYTES_PER_CALL)) == MAX_RANDOM_BYTES_PER_CALL
    with pytest.raises(BudgetExceededError):
        guest(name, MAX_RANDOM_BYTES_PER_CALL + 1)
    for _ in range(MAX_RANDOM_BYTES // MAX_RANDOM_BYTES_PER_CALL - 1):
        guest(name, MAX_RANDOM_BYTES_PER_CALL)
    with pytest.raises(BudgetExceededError):
        guest(name, 1)


def test_real_randomness_differs_between_calls() -> None:
    first, second = Guest(clock=SystemClock()), Guest(clock=SystemClock())
    assert first("random/random#get-random-bytes", 32) != second("random/random#get-random-bytes", 32)


def test_a_logical_clock_replays_time_and_randomness() -> None:
    def trace() -> list[object]:
        guest = Guest(clock=LogicalClock(seed=7))
        pollable = guest("clocks/monotonic-clock#subscribe-duration", _HOUR)
        guest("io/poll#[method]pollable.block", pollable)
        return [
            guest("clocks/monotonic-clock#now"),
            guest("clocks/wall-clock#now"),
            guest("random/random#get-random-u64"),
            guest("random/insecure-seed#insecure-seed"),
            guest("random/insecure#get-insecure-random-u64"),
        ]

    assert trace() == trace()
