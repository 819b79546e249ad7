"""Encode a call and its end as frames. The heads of calls and results are packed, which is faster than JSON.

An error is one of a closed set of types, rebuilt from bounded fields.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from wasmrt.core import limits
from wasmrt.core.errors import (
    BudgetExceededError,
    CancelledError,
    ComponentError,
    ComponentTooLargeError,
    ConfineError,
    DeadlineExceededError,
    FuelExhaustedError,
    GuestError,
    GuestExitError,
    GuestOutputError,
    InstantiationError,
    InternalError,
    InvalidComponentError,
    InvalidParametersError,
    LimitError,
    MemoryLimitError,
    OutputLimitError,
    ToolError,
    ToolErrorKind,
    TrapError,
    UnknownImportError,
    UnknownWorldError,
    WasmrtError,
)
from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES, MAX_HOST_CALLS, ResourceLimits
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.clock import SEED_BYTES, Clock, LogicalClock, SystemClock
from wasmrt.sandbox.isolation.wire._head import Head, ProtocolError

_CALL = struct.Struct("<dQQI5?16sQ")
_COUNTS = struct.Struct("<4Q")
_MAX_COUNT = 2**62
NO_CLOCK = (False, False, bytes(SEED_BYTES), 0)
"""The clock fields of a call that uses the system's clock."""


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
    """The size of the params in the frame's tail. The context follows the params."""
    has_context: bool
    has_workspace: bool
    is_shared: bool
    """True if other calls run in the worker at the same time."""
    deterministic: bool
    """True for a logical clock, which the next three fields describe."""
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
    """Store in `call` the usage that a worker reports.

    Raises:
        ProtocolError: the counts are malformed or impossible.
    """
    if len(counts) != _COUNTS.size:
        raise ProtocolError("the worker sent malformed counts")
    fuel, host_calls, values, dropped = _COUNTS.unpack(counts)
    if max(fuel, values, dropped) > _MAX_COUNT or host_calls > MAX_HOST_CALLS + 1:
        raise ProtocolError("the worker sent impossible counts")
    call.fuel_used = fuel
    call.host_calls = max(call.host_calls, host_calls)
    call.lifted_values = values
    call.log_entries_dropped = dropped


_TOOL_ERRORS: dict[str, type[ToolError]] = {
    kind.__name__: kind for kind in (ToolError, InvalidParametersError, GuestError, TrapError, GuestOutputError)
}
_LIMITS: dict[str, type[LimitError]] = {
    kind.__name__: kind
    for kind in (FuelExhaustedError, DeadlineExceededError, MemoryLimitError, OutputLimitError, BudgetExceededError)
}
_COMPONENT_ERRORS: dict[str, type[ComponentError]] = {
    kind.__name__: kind
    for kind in (
        *(ComponentError, ComponentTooLargeError, InvalidComponentError, InstantiationError),
        *(UnknownImportError, UnknownWorldError),
    )
}
_EXIT = GuestExitError.__name__
_KNOWN = {
    *_TOOL_ERRORS,
    _EXIT,
    *_LIMITS,
    *_COMPONENT_ERRORS,
    "CancelledError",
    "ConfineError",
    "InternalError",
    "WasmrtError",
}
_SETTINGS = {
    f"limits.{name}"
    for name in (*ResourceLimits.__dataclass_fields__, *(name for name in vars(limits) if name.startswith("MAX_")))
}
_TEXT = 6 * MAX_ERROR_TEXT_BYTES
"""Maximum characters of an error's text. The host cuts it to a lower limit after the scan for secrets."""


def write_error(error: WasmrtError) -> dict[str, Any]:
    """Return an error as the head of a frame."""
    fields: dict[str, Any] = {
        "error": next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KNOWN),
        "code": error.code[:200],
        "message": error.message[:_TEXT],
        "hint": None if error.hint is None else error.hint[:_TEXT],
    }
    if isinstance(error, LimitError):
        fields |= {"limit": error.limit, "used": error.used, "setting": error.setting}
    elif isinstance(error, GuestExitError):
        fields["exit_code"] = error.exit_code
    elif isinstance(error, ToolError):
        fields["kind"] = str(error.kind)
    return fields


def read_error(head: Head) -> WasmrtError:
    """Return the error that a worker reports.

    Raises:
        ProtocolError: workers may not report this error.
    """
    name = head.text("error", 64)
    code, message, hint = head.line("code", 200), head.line("message", _TEXT), head.read_optional_line("hint", _TEXT)
    if name == CancelledError.__name__:
        return CancelledError(message)
    if name in _LIMITS:
        setting = head.text("setting", 64)
        if setting not in _SETTINGS:
            raise ProtocolError("the worker reported an unknown limit")
        limit, used = head.read_optional_number("limit") or 0, head.read_optional_number("used")
        return _LIMITS[name](message, limit=limit, used=used, setting=setting, hint=hint)
    if name == _EXIT:
        return GuestExitError(message, exit_code=head.whole("exit_code", 255), hint=hint)
    if name in _TOOL_ERRORS:
        try:
            kind = ToolErrorKind(head.text("kind", 64))
        except ValueError as error:
            raise ProtocolError("the worker reported an error of an unknown kind") from error
        return _TOOL_ERRORS[name](message, code=code, hint=hint, kind=kind)
    if name in _COMPONENT_ERRORS:
        return _COMPONENT_ERRORS[name](message, code=code, hint=hint)
    if name == ConfineError.__name__:
        return ConfineError(message, hint=hint)
    if name in (InternalError.__name__, WasmrtError.__name__):
        return InternalError("the worker's own code failed", hint="please report it")
    raise ProtocolError("the worker reported an unknown error")
