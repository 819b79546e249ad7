"""Every error that leaves wasmrt, in families by whose fault it is.

WasmrtError                     code, hint, retryable
├─ ConfigurationError           yours: a setting, a capability file
│  └─ CapabilityFileError · ConfigFileError · ManifestError   .problems: every mistake, each with its place in the file
├─ ComponentError               the component's: bytes, layer, world, imports
├─ CapabilityDeniedError        .decision: reason, rule, hint
├─ InstallError                 a source, a name, a grant that is missing
├─ BuildError                   an author's: a build step that failed
│  └─ MissingToolchainError     a command or package that is not on the machine
├─ SecretError                  a credential that is missing, expired or unreadable
├─ LeakError                    a secret seen where it must not be
├─ ApprovalError                an answer to a request that nobody waits for, or that cannot be kept
├─ ConfineError                 the machine's: a process that could not be confined
├─ ToolError                    .kind .usage .logs .decisions: what one call ended with
│  ├─ InvalidParametersError
│  │  └─ MalformedArgumentsError
│  ├─ UnknownToolError
│  ├─ GuestError                the tool itself said no
│  │  └─ GuestExitError         .exit_code: it ended itself, as a program does
│  ├─ TrapError                 the guest broke
│  ├─ WorkerCrashedError        .signal: its process ended in the middle of it
│  ├─ LimitError                .limit .used .setting
│  │  └─ FuelExhaustedError · DeadlineExceededError · MemoryLimitError · OutputLimitError · BudgetExceededError
│  ├─ NotAuthorizedError · RateLimitedError · ExternalServiceError
│  └─ CancelledError · RuntimeClosedError
└─ InternalError                ours: please report it

A raw ValueError, wasmtime.* or h11.* that escapes is a bug.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from wasmrt.model import Decision, LogEntry, Usage


class WasmrtError(Exception):
    """Root of every error raised by wasmrt.

    `code` is stable and machine-readable, `hint` is the next step in one sentence, `retryable` says whether
    the same call may succeed later. The message never holds a secret, a header or a host path, but for those that an
    operator wrote: of the configuration file, and in it.
    """

    code: str = "error"
    retryable: bool = False

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code

    def as_dict(self) -> dict[str, Any]:
        """The error as JSON-ready data, for `--json` and audit records."""
        return {
            "error": type(self).__name__,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
        }


class ConfigurationError(WasmrtError):
    """An operator's or an embedder's setting is wrong."""

    code = "configuration"


class RefusedFileError(ConfigurationError):
    """A file was refused; `problems` lists every mistake as `(place in the file, sentence)`."""

    file = "the file"
    """Its name where its mistakes are listed."""

    def __init__(self, message: str, *, problems: tuple[tuple[str, str], ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"problems": [{"path": p, "message": m} for p, m in self.problems]}


class CapabilityFileError(RefusedFileError):
    """A capability file was refused; `problems` lists every mistake as `(json_path, sentence)`."""

    code = "capability-file"
    file = "the capability file"


class ConfigFileError(RefusedFileError):
    """The operator's configuration file was refused; `problems` lists every mistake as `(key, sentence)`."""

    code = "config-file"

    def __init__(
        self, file: str, message: str, *, problems: tuple[tuple[str, str], ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(f"{file}: {message}", problems=problems, hint=hint)
        self.file = file


class ComponentError(WasmrtError):
    """A component cannot run here; the subclass says why."""

    code = "component"


class NotWasmError(ComponentError):
    """The bytes are no WebAssembly."""

    code = "not-wasm"


class CoreModuleError(ComponentError):
    """The bytes are a core module, and not a component."""

    code = "core-module"


class ComponentTooLargeError(ComponentError):
    """The component is over the size cap, or makes the compiler work beyond a bound on what is counted in it."""

    code = "component-too-large"


class InvalidComponentError(ComponentError):
    """The component does not validate, or exports a known interface with other types."""

    code = "invalid-component"


class UnknownWorldError(ComponentError):
    """The component exports nothing that can be run."""

    code = "unknown-world"


class UnknownImportError(ComponentError):
    """The component imports something that this host does not have."""

    code = "unknown-import"


class InstantiationError(ComponentError):
    """The component cannot be started within its limits."""

    code = "instantiation"


class IntegrityError(ComponentError):
    """Stored bytes no longer match the digest they were stored under."""

    code = "integrity"


class CapabilityDeniedError(WasmrtError):
    """A power was asked for that the grant does not hold; `decision` says which rule refused it."""

    code = "capability-denied"

    def __init__(self, message: str, *, decision: Decision | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or (None if decision is None else decision.hint))
        self.decision = decision


class InstallError(WasmrtError):
    """A tool cannot be installed, found or removed."""

    code = "install"


class InvalidNameError(InstallError):
    """A name breaks the rule of names, is protected, or is taken."""

    code = "invalid-name"


class NotInstalledError(InstallError):
    """There is no tool of this name."""

    code = "not-installed"


class SourceError(InstallError):
    """The source of a component cannot be read."""

    code = "source"


class PackageError(InstallError):
    """A package or its archive is refused; `code` says for what: a link, a name, a size, a broken header, ..."""

    code = "package"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint or "get the package again, from whoever made it")


class ManifestError(RefusedFileError):
    """A package's manifest was refused; `problems` lists every mistake as `(key, sentence)`."""

    code = "manifest"
    file = "the manifest"


class GrantRequiredError(InstallError):
    """The tool asks for something else than was granted; a person has to decide."""

    code = "grant-required"


class BuildError(WasmrtError):
    """A tool could not be built from its source; `output` is the end of what the build step printed."""

    code = "build"

    def __init__(self, message: str, *, output: str = "", code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint)
        self.output = output

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | ({"output": self.output} if self.output else {})


class MissingToolchainError(BuildError):
    """A build needs a command or a package that is not here; the hint says how to get it."""

    code = "missing-toolchain"


class SecretError(WasmrtError):
    """A secret cannot be used."""

    code = "secret"


class SecretNotFoundError(SecretError):
    """The secret is not set."""

    code = "secret-not-found"


class SecretExpiredError(SecretError):
    """The secret has expired and cannot be renewed."""

    code = "secret-expired"


class SecretBackendError(SecretError):
    """The store cannot be read or written.

    `path` is the file that it is about, where it is about one. It is for the operator, and stays out of message and
    hint: those may reach a guest.
    """

    code = "secret-backend"

    def __init__(self, message: str, *, path: Path | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class LeakError(WasmrtError):
    """A secret was found where it must not be, and the value was withheld."""

    code = "leak"


class ApprovalError(WasmrtError):
    """A person's answer changed nothing, or approvals cannot be kept; `code` says why."""

    code = "approval"


class ConfineError(WasmrtError):
    """A process could not be confined as required: the machine lacks a layer, or refuses it."""

    code = "confine"


class InternalError(WasmrtError):
    """A bug in wasmrt; please report it."""

    code = "internal"


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
    """One call failed. What was used, logged and decided until then is kept on the error."""

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
        super().__init__(message or f"the tool exited with status {exit_code} before it answered", hint=hint)
        self.exit_code = exit_code

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
    """A limit ended the call; `setting` names what raises it."""

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

    def for_model(self) -> str:
        """Return the rule that refused it, and not what would lift it."""
        denial = next((each for each in self.decisions if not each.allowed), None)
        return super().for_model() if denial is None else f"{denial.rule}; go on without it"


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
