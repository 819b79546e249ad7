"""Errors of calls: `ToolError` and its subclasses. Each contains the usage, logs and decisions of the failed call."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from wasmrt.core.errors._families import WasmrtError

if TYPE_CHECKING:
    from wasmrt.core.model import Decision, LogEntry, Usage

GUEST_CODE_PREFIX = "tool:"
"""The prefix of all codes from guests, so that they differ from the codes of the host, such as `ok` in receipts."""


class ToolErrorKind(StrEnum):
    """The kind of a failed call, for agents that treat failures differently."""

    INVALID_PARAMETERS = "invalid-parameters"
    EXECUTION_FAILED = "execution-failed"
    TIMEOUT = "timeout"
    NOT_AUTHORIZED = "not-authorized"
    RATE_LIMITED = "rate-limited"
    EXTERNAL_SERVICE = "external-service"
    SANDBOX = "sandbox"


class ToolError(WasmrtError):
    """A call failed. The error contains the usage, logs and decisions up to the failure.

    Examples:
        >>> from wasmrt import ToolError, ToolRegistry
        >>> try:
        ...     ToolRegistry().execute("missing", {})
        ... except ToolError as error:
        ...     print(error.code, error.retryable)
        unknown-tool False
    """

    code = "execution-failed"
    kind: ToolErrorKind = ToolErrorKind.EXECUTION_FAILED

    def __init__(
        self, message: str, *, code: str | None = None, hint: str | None = None, kind: ToolErrorKind | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        if kind is not None:
            self.kind = kind
        self.call_id: str | None = None
        self.usage: Usage | None = None
        self.logs: tuple[LogEntry, ...] = ()
        self.decisions: tuple[Decision, ...] = ()

    def for_model(self) -> str:
        """Return the message for a model: the failure, and how the model itself can correct the call.

        SECURITY: hints about granting more access are only for users. A model would ask the user to follow them.
        """
        message = self.message
        for decision in self.decisions:
            if not decision.allowed:
                message = message.replace(decision.sentence, decision.refusal)
                if decision.hint:
                    message = message.replace(decision.hint, "").rstrip(" ;,")
        return f"{message}; the same call may work later" if self.retryable else message

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        data = super().as_dict() | {"kind": str(self.kind), "call_id": self.call_id}
        if self.usage is not None:
            data["usage"] = self.usage.as_dict()
        data["decisions"] = [d.as_dict() for d in self.decisions]
        return data


class InvalidParametersError(ToolError):
    """The params do not match the tool's schema, are not JSON, or exceed a size bound."""

    code = "invalid-parameters"
    kind = ToolErrorKind.INVALID_PARAMETERS

    def for_model(self) -> str:
        """Return the message without the hint, which is for users."""
        return self.message


class MalformedArgumentsError(InvalidParametersError):
    """A model's arguments are not a JSON object."""

    code = "malformed-arguments"

    def for_model(self) -> str:
        """Return the error with its position, and the expected form."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class UnknownToolError(ToolError):
    """No tool has this name, or the tool cannot be called here."""

    code = "unknown-tool"
    kind = ToolErrorKind.INVALID_PARAMETERS

    def for_model(self) -> str:
        """Return the message with the unknown name, and a suggestion for the name that was probably meant."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class GuestError(ToolError):
    """The tool ran and reported an error."""

    code = "guest-error"


class GuestExitError(GuestError):
    """The guest exited with an exit code: a program failed, or a tool exited before it returned a result."""

    code = "guest-exit"

    def __init__(self, message: str | None = None, *, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message or self._default_message(exit_code), hint=hint)
        self.exit_code = exit_code

    @staticmethod
    def _default_message(exit_code: int) -> str:
        return f"the tool exited with status {exit_code} before it returned a result"

    @property
    def is_bare(self) -> bool:
        """True if the message contains only the exit code."""
        return self.message == self._default_message(self.exit_code)

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"program_exit_code": self.exit_code}


class TrapError(ToolError):
    """The guest crashed with a WebAssembly trap, for example by an out-of-bounds access or a stack overflow."""

    code = "trap"
    kind = ToolErrorKind.SANDBOX


class GuestOutputError(ToolError):
    """The guest returned a result that its world does not allow, for example invalid JSON."""

    code = "invalid-output"
    kind = ToolErrorKind.SANDBOX


class WorkerCrashedError(ToolError):
    """The worker process of the guest exited or violated the protocol. `signal` is the signal that ended it, if any."""

    code = "worker-crashed"
    kind = ToolErrorKind.SANDBOX

    def __init__(self, message: str, *, signal: int | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or "call the tool again; if this happens again, do not use the tool")
        self.signal = signal


class LimitError(ToolError):
    """The call exceeded a limit. `setting` is the name of the setting for this limit.

    Examples:
        >>> from wasmrt import LimitError
        >>> error = LimitError("out of fuel", limit=100, used=100, setting="limits.fuel")
        >>> error.setting, error.limit
        ('limits.fuel', 100)
    """

    code = "limit"
    kind = ToolErrorKind.SANDBOX

    def __init__(
        self, message: str, *, limit: float, used: float | None, setting: str, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint or f"if the tool needs more, raise {setting} in its capability file")
        self.limit = limit
        self.used = used
        self.setting = setting

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"limit": self.limit, "used": self.used, "setting": self.setting}


class FuelExhaustedError(LimitError):
    """The guest used up its fuel."""

    code = "fuel-exhausted"


class DeadlineExceededError(LimitError):
    """The call passed its deadline."""

    code = "deadline-exceeded"
    kind = ToolErrorKind.TIMEOUT
    retryable = True


class TooManyCallsError(LimitError):
    """Too many calls wait for a permit. The call was not started."""

    code = "too-many-calls"
    kind = ToolErrorKind.RATE_LIMITED
    retryable = True


class MemoryLimitError(LimitError):
    """The guest needs more memory than its limit allows."""

    code = "memory-limit"


class OutputLimitError(LimitError):
    """The tool's output exceeds its size limit."""

    code = "output-too-large"


class BudgetExceededError(LimitError):
    """The call used up a budget, such as the number of HTTP requests, tool invocations, handles or host calls."""

    code = "budget-exceeded"


class NotAuthorizedError(ToolError):
    """The call needs access that was not granted, or a credential that is missing or invalid."""

    code = "not-authorized"
    kind = ToolErrorKind.NOT_AUTHORIZED

    @staticmethod
    def of(decision: Decision, code: str | None = None) -> NotAuthorizedError:
        """Return the error for a denial. The code of the error is `code` or, by default, the reason of the denial."""
        error = NotAuthorizedError(decision.sentence, code=code or str(decision.reason), hint=decision.hint)
        error.decisions = (decision,)
        return error

    def for_model(self) -> str:
        """Return the rule of the first denial, without the hint."""
        denial = next((each for each in self.decisions if not each.allowed), None)
        return super().for_model() if denial is None else f"{denial.rule}; continue without it"


class AccessRequestedError(NotAuthorizedError):
    """The tool needs access that is not granted. The user was asked to approve the access, and has not answered yet."""

    code = "access-requested"

    def __init__(self, requests: tuple[str, ...]) -> None:
        """Create the error for the pending requests with these IDs, which `wasmrt approvals show ID` accepts."""
        super().__init__(
            "approval pending: the tool needs access that is not granted, and the user has received a request for it",
            hint=f"answer the request: wasmrt approvals show {requests[0]}",
        )
        self.requests = requests

    def for_model(self) -> str:
        """Return a constant message. SECURITY: the message contains neither text from the tool nor a request ID."""
        return f"{self.message}; continue with other work, and make the same call again later"

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"requests": list(self.requests)}


class RunSuspendedError(NotAuthorizedError):
    """A code mode program is awaiting approval. Running the same code again resumes it."""

    code = "run-suspended"

    def for_model(self) -> str:
        """Return the reason for the suspension. SECURITY: the hint about resuming the program is only for users."""
        return self.message


class RunReplayError(ToolError):
    """A suspended program cannot be resumed, and no tool was called. `code` is the reason."""

    code = "run-differs"


class RateLimitedError(ToolError):
    """The rate limit of this user and tool is reached. The call can be repeated after `retry_after_seconds`."""

    code = "rate-limited"
    kind = ToolErrorKind.RATE_LIMITED
    retryable = True

    def __init__(
        self, message: str, *, retry_after_seconds: float, hint: str | None = None, limit_type: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds
        self.limit_type = limit_type
        """The window that is full, `minute` or `hour`; empty if it is not known."""

    def for_model(self) -> str:
        """Return the message, with the time after which the model can repeat the call."""
        return f"{self.message}; try again in {self.retry_after_seconds:.0f} seconds"

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"retry_after_seconds": self.retry_after_seconds, "limit_type": self.limit_type}


class ExternalServiceError(ToolError):
    """A service that the host needs for the call failed."""

    code = "external-service"
    kind = ToolErrorKind.EXTERNAL_SERVICE
    retryable = True


class CancelledError(ToolError):
    """The call was cancelled."""

    code = "cancelled"
    kind = ToolErrorKind.TIMEOUT


class RuntimeClosedError(ToolError):
    """The runtime is closed, or was closed while the call ran."""

    code = "runtime-closed"
    kind = ToolErrorKind.SANDBOX
