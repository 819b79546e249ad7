"""Packed heads of the frames of a call and of its result; packing is faster than JSON."""

from __future__ import annotations

import struct
from typing import NamedTuple

from wasmrt.core.limits import MAX_HOST_CALLS
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.clock import SEED_BYTES, Clock, LogicalClock, SystemClock
from wasmrt.sandbox.isolation.wire._frames import ProtocolError

_CALL = struct.Struct("<dQQI4?16sQ")
_COUNTS = struct.Struct("<4Q")
_MAX_COUNT = 2**62
NO_CLOCK = (False, False, bytes(SEED_BYTES), 0)
"""The fields of the system's clock."""


def clock_fields(clock: Clock) -> tuple[bool, bool, bytes, int]:
    """Return the fields of a head that describe the guest's clock."""
    if not isinstance(clock, LogicalClock):
        return NO_CLOCK
    return True, clock.waits, clock.seed.to_bytes(SEED_BYTES, "little"), clock.start_ns


class CallHead(NamedTuple):
    """The head of a call: everything except params and context."""

    seconds: float
    """Time until the deadline."""
    max_request_bytes: int
    max_write_bytes: int
    params_bytes: int
    """The length of the params in the frame's tail; the context follows them."""
    has_context: bool
    has_workspace: bool
    deterministic: bool
    """True for a logical clock, whose fields are the next three."""
    waits: bool
    seed: bytes
    start_ns: int
    tool: str

    def pack(self) -> bytes:
        """Return the head as bytes."""
        return _CALL.pack(*self[:-1]) + self.tool.encode()

    def clock(self) -> Clock:
        """Return the clock of the guest."""
        if not self.deterministic:
            return SystemClock()
        return LogicalClock(seed=int.from_bytes(self.seed, "little"), start_ns=self.start_ns, waits=self.waits)

    @staticmethod
    def unpack(head: bytes) -> CallHead:
        """Read a head that the host packed."""
        return CallHead._make((*_CALL.unpack_from(head), str(head[_CALL.size :], "utf-8")))


def pack_counts(call: GuestCall) -> bytes:
    """Return a guest's usage as bytes."""
    return _COUNTS.pack(call.fuel_used, call.host_calls, call.lifted_values, call.log_entries_dropped)


def take_counts(call: GuestCall, counts: bytes) -> None:
    """Store the usage that a worker reports in its call.

    Raises:
        ProtocolError: the counts are malformed or impossible.
    """
    if len(counts) != _COUNTS.size:
        raise ProtocolError("a worker sent malformed counts")
    fuel, host_calls, values, dropped = _COUNTS.unpack(counts)
    if max(fuel, values, dropped) > _MAX_COUNT or host_calls > MAX_HOST_CALLS + 1:
        raise ProtocolError("a worker sent impossible counts")
    call.fuel_used = fuel
    call.host_calls = max(call.host_calls, host_calls)
    call.lifted_values = values
    call.log_entries_dropped = dropped
