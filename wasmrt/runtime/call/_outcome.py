"""The end of a call as a `ToolError`, whatever the host's side raised."""

from __future__ import annotations

from wasmrt.core.errors import (
    CapabilityDeniedError,
    LeakError,
    NotAuthorizedError,
    SecretError,
    ToolError,
    ToolErrorKind,
    WasmrtError,
)


def tool_error(cause: BaseException) -> BaseException:
    """Return the error that the caller gets. KeyboardInterrupt and its like pass through unchanged.

    SECURITY: the text of an exception that nobody foresaw may hold anything, so none of it is passed on.
    """
    if isinstance(cause, ToolError) or not isinstance(cause, Exception):
        return cause
    if isinstance(cause, (CapabilityDeniedError, SecretError)):
        return NotAuthorizedError(cause.message, code=cause.code, hint=cause.hint)
    if isinstance(cause, LeakError):
        return ToolError(cause.message, code=cause.code, hint=cause.hint, kind=ToolErrorKind.SANDBOX)
    if isinstance(cause, WasmrtError):
        return ToolError(cause.message, code=cause.code, hint=cause.hint)
    return ToolError(
        "a host function broke; this is a bug in wasmrt",
        code="internal", hint="please report it", kind=ToolErrorKind.SANDBOX,
    )  # fmt: skip
