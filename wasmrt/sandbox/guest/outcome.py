"""The end of a guest as a typed error: from the call's own state and the trap's code; messages are never parsed."""

from __future__ import annotations

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
from wasmrt.core.limits import MIB
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.call import GuestBudgets
from wasmrt.sandbox.guest.engine import EngineFault, LowerError, TrapCode

_HINTS = {
    TrapCode.UNREACHABLE: "the guest gave up: a panic, a failed assertion, or memory over its limit of {memory}",
    TrapCode.STACK_OVERFLOW: "the guest recursed too deeply, often over deeply nested input",
    TrapCode.MEMORY_OUT_OF_BOUNDS: "the guest has a memory bug",
    TrapCode.CANNOT_LEAVE_COMPONENT: "the guest called the host while it was given a value, often to say that it needs "
    "memory over its limit of {memory}",
    TrapCode.CANNOT_ENTER_COMPONENT: "the guest was called while it was not able to be",
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


def ended(error: BaseException, budgets: GuestBudgets) -> BaseException:
    """Return what stopped a guest: the call's first failure before all else, an engine's fault as a `ToolError`."""
    cause = budgets.failure or error
    if isinstance(cause, EngineFault):
        return _from_fault(cause, budgets)
    if isinstance(cause, LowerError):
        return InvalidParametersError(f"the value does not fit the tool's type: {cause}")
    return cause


OUT_OF_MEMORY = "out-of-memory"
"""The code of a failure of kind `executor` with which a tool tells that memory was refused to it.

The engine's C API does not tell that: it calls nobody when it refuses to grow a memory, and counts nothing.
"""
_GUEST_CODE = re.compile(r"[a-z][a-z0-9]*(?:[-_.][a-z0-9]+){0,7}\Z")
_MAX_CODE_CHARS = 48


def typed_failure(failure: Mapping[str, Any], budgets: GuestBudgets) -> ToolError:
    """Make the error of a tool that answered with a `failure` of the world's: its kind, its code, its message."""
    kind, code, message = failure["kind"], failure.get("code"), failure["message"]
    if (kind, code) != (FailureKind.EXECUTOR, OUT_OF_MEMORY):
        return guest_failure(kind, code, message)
    limit = budgets.limits.memory_bytes
    return MemoryLimitError(
        f"the tool met its memory limit of {_in_words(limit)}: {message}",
        limit=limit, used=None, setting="limits.memory_bytes",
    )  # fmt: skip


def is_typed_failure(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value has the form of the world's `failure`, as JSON; a guest's own type may be near it."""
    return (
        isinstance(value, dict)
        and {"kind", "message"} <= value.keys() <= _FAILURE
        and isinstance(value["kind"], str)
        and value["kind"] in _GUEST_KINDS
        and isinstance(value["message"], str)
        and isinstance(value.get("code"), str | None)
    )


def guest_failure(kind: str, code: str | None, message: str | None) -> GuestError:
    """Make the error of a tool that answered with its own typed failure.

    The message is the guest's, whole: it is scanned, made printable and cut where the call ends, in that order. A code
    that is not a short word of `a-z 0-9 - _ .` is left out for the kind, which is one of the world's.
    """
    own = code is not None and len(code) <= _MAX_CODE_CHARS and _GUEST_CODE.match(code) is not None
    said = message or code or kind
    return GuestError(said, code=f"{GUEST_CODE_PREFIX}{code}" if own else kind, kind=_GUEST_KINDS[kind])


def _from_fault(cause: EngineFault, budgets: GuestBudgets) -> ToolError:
    if cause.code == TrapCode.OUT_OF_FUEL:
        return FuelExhaustedError(
            f"the guest used up its fuel of {budgets.limits.fuel:,}",
            limit=budgets.limits.fuel, used=budgets.fuel_used, setting="limits.fuel",
        )  # fmt: skip
    if cause.code is None:
        # Not a trap: the engine refused to go on, as it does over values or instances it cannot hold.
        return TrapError(f"the engine stopped the guest: {printable_line(cause.message, 300)}", code="stopped")
    return TrapError(
        f"the guest trapped: {cause.code.words}", code=f"trap-{cause.code.words.replace(' ', '-')}",
        hint=_HINTS.get(cause.code, "").format(memory=_in_words(budgets.limits.memory_bytes)) or None,
    )  # fmt: skip


def _in_words(size_bytes: int) -> str:
    return f"{size_bytes:,} bytes" if size_bytes % MIB else f"{size_bytes // MIB:,} MiB"
