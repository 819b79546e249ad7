"""The head of a call and of its result: a few numbers each, packed, since every call sends one of both."""

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
"""The fields of a clock, of a guest that has the system's."""


def clock_fields(clock: Clock) -> tuple[bool, bool, bytes, int]:
    """Return the fields of a head that say which clock the guest has."""
    if not isinstance(clock, LogicalClock):
        return NO_CLOCK
    return True, clock.waits, clock.seed.to_bytes(SEED_BYTES, "little"), clock.start_ns


class CallHead(NamedTuple):
    """The head of a call, which says all but its params and context."""

    seconds: float
    """Until its deadline."""
    max_request_bytes: int
    max_write_bytes: int
    params_bytes: int
    """Of the frame's tail; what follows them is the context."""
    has_context: bool
    has_workspace: bool
    deterministic: bool
    """With a logical clock, which the next three are of."""
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
    """Return what a guest has used as bytes."""
    return _COUNTS.pack(call.fuel_used, call.host_calls, call.lifted_values, call.log_entries_dropped)


def take_counts(call: GuestCall, counts: bytes) -> None:
    """Put what a worker says it has used into its call.

    Raises:
        ProtocolError: these are no counts.
    """
    if len(counts) != _COUNTS.size:
        raise ProtocolError("a worker sent counts that are none")
    fuel, host_calls, values, dropped = _COUNTS.unpack(counts)
    if max(fuel, values, dropped) > _MAX_COUNT or host_calls > MAX_HOST_CALLS + 1:
        raise ProtocolError("a worker counted more than there can be")
    call.fuel_used = fuel
    call.host_calls = max(call.host_calls, host_calls)
    call.lifted_values = values
    call.log_entries_dropped = dropped
