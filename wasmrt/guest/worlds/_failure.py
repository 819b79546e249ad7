"""What a host function answers when it cannot do what was asked, before it is put in the words of a world."""

from __future__ import annotations

from wasmrt.context import CallContext
from wasmrt.errors import CapabilityDeniedError, ToolError, ToolErrorKind, WasmrtError
from wasmrt.limits import MAX_ERROR_TEXT_BYTES
from wasmrt.model import Decision

_OF_TOOL_ERROR = {
    ToolErrorKind.INVALID_PARAMETERS: "input",
    ToolErrorKind.NOT_AUTHORIZED: "auth-required",
    ToolErrorKind.RATE_LIMITED: "executor",
    ToolErrorKind.TIMEOUT: "executor",
    ToolErrorKind.SANDBOX: "executor",
    ToolErrorKind.EXTERNAL_SERVICE: "client",
}


class HostFailure(Exception):  # noqa: N818 - a refusal, as the worlds call it
    """A typed refusal: `kind` is one of the closed set that wasmrt:tool and near:agent@0.4.1 share."""

    def __init__(self, kind: str, code: str, message: str, *, request_sent: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.message = message[:MAX_ERROR_TEXT_BYTES]
        self.request_sent = request_sent

    @property
    def text(self) -> str:
        """For worlds whose errors are one string."""
        return f"{self.code}: {self.message}"

    def as_failure(self) -> dict[str, str | None]:
        """wasmrt:tool's `failure`."""
        return {"kind": self.kind, "code": self.code, "message": self.message}

    def as_http_failure(self) -> dict[str, str | bool | None]:
        """near:agent@0.4.1's `http-failure`."""
        return {**self.as_failure(), "request-sent": self.request_sent}


def denied(context: CallContext, decision: Decision) -> HostFailure:
    """Record a denial and put it in a sentence that ends with what would allow it."""
    context.decide(decision)
    return HostFailure("network-denied", str(decision.reason), _sentence(decision))


def from_error(context: CallContext, error: WasmrtError) -> HostFailure:
    """The refusal for an error of ours that the guest may know about; errors that end the call pass it by."""
    if isinstance(error, CapabilityDeniedError) and error.decision is not None:
        return denied(context, error.decision)
    kind = "operation-failed"
    if isinstance(error, ToolError):
        kind = _OF_TOOL_ERROR.get(error.kind, kind)
    return HostFailure(kind, error.code, error.message)


def _sentence(decision: Decision) -> str:
    said = decision.rule if not decision.subject else f"{decision.subject}: {decision.rule}"
    return f"{said}; {decision.hint}" if decision.hint else said
