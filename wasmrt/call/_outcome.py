"""What ended a call, as a ToolError: by the call's own state and the trap's code, never by a text."""

from __future__ import annotations

from wasmrt.component import plain
from wasmrt.context import CallContext
from wasmrt.errors import (
    CapabilityDeniedError,
    FuelExhaustedError,
    GuestError,
    InternalError,
    InvalidParametersError,
    LeakError,
    NotAuthorizedError,
    SecretError,
    ToolError,
    ToolErrorKind,
    TrapError,
    WasmrtError,
)
from wasmrt.guest.engine import EngineFault, LowerError, TrapCode

_HINTS = {
    TrapCode.UNREACHABLE: "the guest gave up: a panic, a failed assertion, or memory it could not get",
    TrapCode.STACK_OVERFLOW: "the guest recursed too deeply, often over deeply nested input",
    TrapCode.MEMORY_OUT_OF_BOUNDS: "the guest has a memory bug",
    TrapCode.CANNOT_ENTER_COMPONENT: "the guest was called while it was not able to be",
}

# The failure kinds of near:agent@0.4.1 and wasmrt:tool, in an agent's words.
_GUEST_KINDS = {
    "auth-required": ToolErrorKind.NOT_AUTHORIZED,
    "input": ToolErrorKind.INVALID_PARAMETERS,
    "output-too-large": ToolErrorKind.SANDBOX,
    "executor": ToolErrorKind.SANDBOX,
    "network-denied": ToolErrorKind.NOT_AUTHORIZED,
    "client": ToolErrorKind.EXTERNAL_SERVICE,
    "operation-failed": ToolErrorKind.EXECUTION_FAILED,
}


def from_exception(error: BaseException, context: CallContext, fuel_used: int) -> BaseException:
    """The error that the caller gets for what stopped the guest; the call's first failure comes first.

    KeyboardInterrupt and its like pass through unchanged.
    """
    cause = context.failure or error
    if isinstance(cause, EngineFault):
        return _from_fault(cause, context, fuel_used)
    if isinstance(cause, LowerError):
        return InvalidParametersError(f"the value does not fit the tool's type: {cause}")
    if isinstance(cause, ToolError) or not isinstance(cause, Exception):
        return cause
    return _as_tool_error(cause)


def guest_failure(kind: str, code: str | None, message: str | None) -> GuestError:
    """The tool's own typed failure."""
    text = plain(message or code or kind)
    return GuestError(text, code=plain(code, 64) if code else kind, kind=_GUEST_KINDS[kind])


def _as_tool_error(cause: Exception) -> ToolError:
    if isinstance(cause, (CapabilityDeniedError, SecretError)):
        return NotAuthorizedError(cause.message, code=cause.code, hint=cause.hint)
    if isinstance(cause, LeakError):
        return ToolError(cause.message, code=cause.code, hint=cause.hint, kind=ToolErrorKind.SANDBOX)
    if isinstance(cause, WasmrtError):
        return ToolError(cause.message, code=cause.code, hint=cause.hint)
    wrapped = InternalError("a host function broke")
    wrapped.__cause__ = cause
    error = ToolError(
        "a host function broke; this is a bug in wasmrt",
        code="internal", hint="please report it", kind=ToolErrorKind.SANDBOX,
    )  # fmt: skip
    error.__cause__ = wrapped
    return error


def _from_fault(cause: EngineFault, context: CallContext, fuel_used: int) -> ToolError:
    if cause.code == TrapCode.OUT_OF_FUEL:
        return FuelExhaustedError(
            f"the guest used up its fuel of {context.limits.fuel:,}",
            limit=context.limits.fuel, used=fuel_used, setting="limits.fuel",
        )  # fmt: skip
    if cause.code is None:
        # Not a trap: the engine refused to go on, as it does over values or instances it cannot hold.
        return TrapError(f"the engine stopped the guest: {plain(cause.message, 300)}", code="stopped")
    return TrapError(
        f"the guest trapped: {cause.code.words}", code=f"trap-{cause.code.words.replace(' ', '-')}",
        hint=_HINTS.get(cause.code),
    )  # fmt: skip
