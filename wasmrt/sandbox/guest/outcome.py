"""Convert the failure that ended a guest to a typed error.

The type depends on the call's state, the trap's code and, if the guest aborted, its last log lines. Messages of the
engine are never parsed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from wasmrt.core.errors import (
    GUEST_CODE_PREFIX,
    FuelExhaustedError,
    GuestError,
    InvalidParametersError,
    MemoryLimitError,
    ToolError,
    ToolErrorKind,
    TrapError,
)
from wasmrt.core.limits import MAX_LOG_ENTRY_BYTES, MIB
from wasmrt.core.model import LogLevel
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.call import GuestBudgets, GuestCall
from wasmrt.sandbox.guest.engine import EngineFault, LowerError, TrapCode

_HINTS = {
    TrapCode.UNREACHABLE: "the guest aborted: a panic, a failed assertion, or memory over its limit of {memory}",
    TrapCode.STACK_OVERFLOW: "the guest recursed too deeply, often over deeply nested input",
    TrapCode.MEMORY_OUT_OF_BOUNDS: "the guest has a memory bug",
    TrapCode.CANNOT_LEAVE_COMPONENT: "the guest called the host while a value was passed to it, often to report "
    "memory over its limit of {memory}",
    TrapCode.CANNOT_ENTER_COMPONENT: "the guest was called while it could not accept calls",
}

_FAILURE = {"kind", "code", "message"}
_GUEST_KINDS: dict[str, ToolErrorKind] = {
    FailureKind.AUTH_REQUIRED: ToolErrorKind.NOT_AUTHORIZED,
    FailureKind.INPUT: ToolErrorKind.INVALID_PARAMETERS,
    FailureKind.OUTPUT_TOO_LARGE: ToolErrorKind.SANDBOX,
    FailureKind.EXECUTOR: ToolErrorKind.SANDBOX,
    FailureKind.NETWORK_DENIED: ToolErrorKind.NOT_AUTHORIZED,
    FailureKind.CLIENT: ToolErrorKind.EXTERNAL_SERVICE,
    FailureKind.OPERATION_FAILED: ToolErrorKind.EXECUTION_FAILED,
}


def end_cause(error: BaseException, budgets: GuestBudgets) -> BaseException:
    """Return the error that stopped a guest: the call's first failure if it has one, otherwise `error`.

    An `EngineFault` or `LowerError` is converted to a `ToolError`. If the guest wrote a
    failure before it failed, aborted or exited, the written failure is returned and becomes the call's failure.
    """
    cause = budgets.failure or error
    if isinstance(budgets, GuestCall) and budgets.written_failure is not None and _is_own_end(cause):
        budgets.failure = typed_failure(budgets.written_failure, budgets)
        return budgets.failure
    if isinstance(cause, EngineFault):
        return _from_fault(cause, budgets)
    if isinstance(cause, LowerError):
        return InvalidParametersError(f"the value does not fit the tool's type: {cause}")
    return cause


def _is_own_end(cause: BaseException) -> bool:
    """Return whether the guest itself ended the call, so that no limit or host function is the cause."""
    return isinstance(cause, GuestError) or (isinstance(cause, EngineFault) and cause.code == TrapCode.UNREACHABLE)


WRITTEN_FAILURE = "wasmrt-failure"
"""The key of a JSON object that contains a `failure` record, written to standard error or to the log.

Functions without an error type cannot return a failure, so the wrappers of `wasmrt build` write it and end the guest.
"""


def take_written_failure(call: GuestCall, text: str | bytes) -> bool:
    """If `text` is a written failure, store it and return True. Such a text does not belong in the log.

    SECURITY: like a returned failure, it is untrusted: its code gets a prefix, and the host scans and cuts its text.
    """
    if len(text) > MAX_LOG_ENTRY_BYTES or WRITTEN_FAILURE not in str(text[:20]):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict) or not is_typed_failure(failure := value.get(WRITTEN_FAILURE)):
        return False
    call.written_failure = failure
    return True


OUT_OF_MEMORY = "out-of-memory"
"""The code of a failure with which a tool reports that it could not allocate memory; the kind is `executor`.

The host cannot detect this itself: the engine's C API has neither a callback nor a counter for refused memory growth.
"""
_REFUSED_ALLOCATION = re.compile(
    r"memory allocation of \d+ bytes failed"  # Rust: library/std/src/alloc.rs
    r"|out of memory: \d+ bytes more were refused"  # the templates for C and Rust
    r"|runtime: out of memory: cannot allocate \d+-byte block .*|fatal error: out of memory"  # Go: runtime/mem.go
    r"|MemoryError"  # Python, at the end of a traceback
)
"""The line that a language's runtime logs before it aborts because it could not allocate memory."""
_LAST_LINES = 8
_CRASHED = "crashed"
_CRASH_HINT = "fix the tool's source, then run: wasmrt build && wasmrt test"
_GUEST_CODE = re.compile(r"[a-z][a-z0-9]*(?:[-_.][a-z0-9]+){0,7}\Z")
_MAX_CODE_CHARS = 48


def typed_failure(failure: Mapping[str, Any], budgets: GuestBudgets) -> ToolError:
    """Return the error for a `failure` record (kind, code and message) that a tool returned.

    A failure with the code `OUT_OF_MEMORY` becomes a `MemoryLimitError`, any other failure a `GuestError`.
    """
    kind, code, message = failure["kind"], failure.get("code"), failure["message"]
    if (kind, code) != (FailureKind.EXECUTOR, OUT_OF_MEMORY):
        return guest_failure(kind, code, message)
    return _memory_limit(budgets, message)


def _memory_limit(budgets: GuestBudgets, reason: str) -> MemoryLimitError:
    limit = budgets.limits.memory_bytes
    return MemoryLimitError(
        f"the tool reached its memory limit of {_format_size(limit)}: {reason}",
        limit=limit, used=None, setting="limits.memory_bytes",
    )  # fmt: skip


def is_typed_failure(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a JSON value has exactly the form of the tool worlds' `failure` record.

    The check is strict, because a component of another world may return errors of a similar type.
    """
    return (
        isinstance(value, dict)
        and {"kind", "message"} <= value.keys() <= _FAILURE
        and isinstance(value["kind"], str)
        and value["kind"] in _GUEST_KINDS
        and isinstance(value["message"], str)
        and isinstance(value.get("code"), str | None)
    )


def guest_failure(kind: str, code: str | None, message: str | None) -> GuestError:
    """Return the `GuestError` for a typed failure that a tool returned.

    The message is the guest's complete text. When the call ends, it is scanned, made printable and truncated, in this
    order. A code that is not a short word of `a-z 0-9 - _ .` is replaced by the kind, which the world defines.
    """
    own = code is not None and len(code) <= _MAX_CODE_CHARS and _GUEST_CODE.match(code) is not None
    text = message or code or kind
    hint = _CRASH_HINT if code == _CRASHED else None
    return GuestError(text, code=f"{GUEST_CODE_PREFIX}{code}" if own else kind, kind=_GUEST_KINDS[kind], hint=hint)


def _from_fault(cause: EngineFault, budgets: GuestBudgets) -> ToolError:
    if cause.code == TrapCode.OUT_OF_FUEL:
        return FuelExhaustedError(
            f"the guest used up its fuel of {budgets.limits.fuel:,}",
            limit=budgets.limits.fuel, used=budgets.fuel_used, setting="limits.fuel",
        )  # fmt: skip
    if cause.code is None:
        # This is not a trap. The engine stopped, for example because it cannot represent a value or an instance.
        return TrapError(f"the engine stopped the guest: {printable_line(cause.message, 300)}", code="stopped")
    if cause.code == TrapCode.UNREACHABLE and (line := _refused_allocation(budgets)):
        return _memory_limit(budgets, line)
    return TrapError(
        f"the guest trapped: {cause.code.words}", code=f"trap-{cause.code.words.replace(' ', '-')}",
        hint=_HINTS.get(cause.code, "").format(memory=_format_size(budgets.limits.memory_bytes)) or None,
    )  # fmt: skip


def _refused_allocation(budgets: GuestBudgets) -> str | None:
    """Return the line with which an aborted guest reported that it could not allocate memory, or None.

    SECURITY: the guest can log this line without a reason, as it can return a failure with the code `OUT_OF_MEMORY`.
    """
    if not isinstance(budgets, GuestCall):
        return None
    lines = [entry.message for entry in budgets.logs if entry.level in (LogLevel.WARN, LogLevel.ERROR)]
    return next((line for line in lines[-_LAST_LINES:] if _REFUSED_ALLOCATION.fullmatch(line.strip())), None)


def _format_size(size_bytes: int) -> str:
    return f"{size_bytes:,} bytes" if size_bytes % MIB else f"{size_bytes // MIB:,} MiB"
