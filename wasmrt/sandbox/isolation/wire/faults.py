"""Errors of a worker as frames: a closed set of types, rebuilt from bounded fields."""

from __future__ import annotations

from typing import Any

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
from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES
from wasmrt.sandbox.isolation.wire._frames import Head, ProtocolError

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
_TEXT = 6 * MAX_ERROR_TEXT_BYTES
"""Longer than the host's own limit, which it applies after the scan for secrets."""


def as_fields(error: WasmrtError) -> dict[str, Any]:
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


def from_fields(head: Head) -> WasmrtError:
    """Return the error that a worker reports.

    Raises:
        ProtocolError: a worker may not report such an error.
    """
    name = head.text("error", 64)
    code, message, hint = head.text("code", 200), head.text("message", _TEXT), head.text_or_none("hint", _TEXT)
    if name == CancelledError.__name__:
        return CancelledError(message)
    if name in _LIMITS:
        limit = head.number_or_none("limit")
        return _LIMITS[name](
            message, limit=limit or 0, used=head.number_or_none("used"), setting=head.text("setting", 64), hint=hint
        )
    if name == _EXIT:
        return GuestExitError(message, exit_code=head.whole("exit_code", 255), hint=hint)
    if name in _TOOL_ERRORS:
        try:
            kind = ToolErrorKind(head.text("kind", 64))
        except ValueError as error:
            raise ProtocolError("a worker reported an error of an unknown kind") from error
        return _TOOL_ERRORS[name](message, code=code, hint=hint, kind=kind)
    if name in _COMPONENT_ERRORS:
        return _COMPONENT_ERRORS[name](message, code=code, hint=hint)
    if name == ConfineError.__name__:
        return ConfineError(message, hint=hint)
    if name in (InternalError.__name__, WasmrtError.__name__):
        return InternalError("the worker's own code failed", hint="please report it")
    raise ProtocolError("a worker reported an unknown error")
