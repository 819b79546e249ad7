"""Errors that one call ended with: a `ToolError`, with what was used, logged and decided until then."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from wasmrt.core.errors._families import WasmrtError

if TYPE_CHECKING:
    from wasmrt.core.model import Decision, LogEntry, Usage

GUEST_CODE_PREFIX = "tool:"
"""Of every code that a guest chose, so that none is taken for one of the host's own, such as the audit's `ok`."""


class ToolErrorKind(StrEnum):
    """Kinds of failed calls, in the words an agent already knows."""

    INVALID_PARAMETERS = "invalid-parameters"
    EXECUTION_FAILED = "execution-failed"
    TIMEOUT = "timeout"
    NOT_AUTHORIZED = "not-authorized"
    RATE_LIMITED = "rate-limited"
    EXTERNAL_SERVICE = "external-service"
    SANDBOX = "sandbox"


class ToolError(WasmrtError):
    """One call failed. What was used, logged and decided until then is kept on the error.

    Example:
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
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        kind: ToolErrorKind | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        if kind is not None:
            self.kind = kind
        self.call_id: str | None = None
        self.usage: Usage | None = None
        self.logs: tuple[LogEntry, ...] = ()
        self.decisions: tuple[Decision, ...] = ()

    def for_model(self) -> str:
        """Return what a model is told: what went wrong, and what it can change itself.

        SECURITY: how a refusal would be lifted is for people. A model that is told would ask them for it.
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
    """The params do not fit the tool's schema, or are no JSON within the caps."""

    code = "invalid-parameters"
    kind = ToolErrorKind.INVALID_PARAMETERS

    def for_model(self) -> str:
        """Return what does not fit; the hint is for people, who have the command."""
        return self.message


class MalformedArgumentsError(InvalidParametersError):
    """A model's arguments are no JSON object."""

    code = "malformed-arguments"

    def for_model(self) -> str:
        """Return what is wrong, at which place, and what to send."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class UnknownToolError(ToolError):
    """No tool of this name can be called here."""

    code = "unknown-tool"
    kind = ToolErrorKind.INVALID_PARAMETERS

    def for_model(self) -> str:
        """Return the name, and the one that was probably meant."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class GuestError(ToolError):
    """The tool ran and answered with its own failure."""

    code = "guest-error"


class GuestExitError(GuestError):
    """The guest ended itself with an exit code: a program that failed, or a tool before it answered."""

    code = "guest-exit"

    def __init__(self, message: str | None = None, *, exit_code: int, hint: str | None = None) -> None:
        super().__init__(message or self._bare(exit_code), hint=hint)
        self.exit_code = exit_code

    @staticmethod
    def _bare(exit_code: int) -> str:
        return f"the tool exited with status {exit_code} before it answered"

    @property
    def is_bare(self) -> bool:
        """True where the message tells nothing but the exit code."""
        return self.message == self._bare(self.exit_code)

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"program_exit_code": self.exit_code}


class TrapError(ToolError):
    """The guest broke: unreachable, out-of-bounds access, stack exhausted and the like."""

    code = "trap"
    kind = ToolErrorKind.SANDBOX


class GuestOutputError(ToolError):
    """The guest answered with something that its world does not allow, such as broken JSON."""

    code = "invalid-output"
    kind = ToolErrorKind.SANDBOX


class WorkerCrashedError(ToolError):
    """The process that the guest ran in ended, or broke the rules; `signal` is the system's number of what ended it."""

    code = "worker-crashed"
    kind = ToolErrorKind.SANDBOX

    def __init__(self, message: str, *, signal: int | None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or "call it again; if it happens again, do not run this tool")
        self.signal = signal


class LimitError(ToolError):
    """A limit ended the call; `setting` names what raises it.

    Example:
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
        super().__init__(message, hint=hint or f"raise {setting} in the tool's capability file if it really needs more")
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


class MemoryLimitError(LimitError):
    """The guest needs more memory than its limit gives."""

    code = "memory-limit"


class OutputLimitError(LimitError):
    """The tool answered with more bytes than it may."""

    code = "output-too-large"


class BudgetExceededError(LimitError):
    """A per-call budget (HTTP requests, tool invocations, handles, host calls) ran out."""

    code = "budget-exceeded"


class NotAuthorizedError(ToolError):
    """The grant or the credentials do not allow what the call needs."""

    code = "not-authorized"
    kind = ToolErrorKind.NOT_AUTHORIZED

    @staticmethod
    def of(decision: Decision, code: str | None = None) -> NotAuthorizedError:
        """Return the error of a decision that refuses; its code is the reason, unless another one is given."""
        error = NotAuthorizedError(decision.sentence, code=code or str(decision.reason), hint=decision.hint)
        error.decisions = (decision,)
        return error

    def for_model(self) -> str:
        """Return the rule that refused it, and not what would lift it."""
        denial = next((each for each in self.decisions if not each.allowed), None)
        return super().for_model() if denial is None else f"{denial.rule}; go on without it"


class AccessRequestedError(NotAuthorizedError):
    """The tool was refused something that it was not granted, and a person was asked for it: not yet."""

    code = "access-requested"

    def __init__(self, requests: tuple[str, ...]) -> None:
        """Name the requests, by ids that are for people: `wasmrt approvals show ID`."""
        super().__init__(
            "not yet: the tool needs something that it was not granted, and a person was asked for it",
            hint=f"a person answers it: wasmrt approvals show {requests[0]}",
        )
        self.requests = requests

    def for_model(self) -> str:
        """Return that a person was asked, in words of ours alone. SECURITY: neither the tool's nor the request's id."""
        return f"{self.message}; go on with other work, and make the same call again later"

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"requests": list(self.requests)}


class RunSuspendedError(NotAuthorizedError):
    """A program of the model's waits for a person. The same code, run again, goes on from there."""

    code = "run-suspended"

    def for_model(self) -> str:
        """Return what the program waits for. SECURITY: what would lift it is for people."""
        return self.message


class RunReplayError(ToolError):
    """A program that waited for a person cannot be continued; nothing was called. `code` says why."""

    code = "run-differs"


class RateLimitedError(ToolError):
    """The (user, tool) window is full; `retry_after_seconds` says when it opens again."""

    code = "rate-limited"
    kind = ToolErrorKind.RATE_LIMITED
    retryable = True

    def __init__(self, message: str, *, retry_after_seconds: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds

    def for_model(self) -> str:
        """Return when the same call will be let through."""
        return f"{self.message}; try again in {self.retry_after_seconds:.0f} seconds"

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"retry_after_seconds": self.retry_after_seconds}


class ExternalServiceError(ToolError):
    """A service that the host needs did not do its work."""

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
