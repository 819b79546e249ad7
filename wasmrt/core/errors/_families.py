"""The root of all errors, and the families for errors outside of calls.

The docstring of `wasmrt.core.errors` shows the whole tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from wasmrt.core.model import Decision


class WasmrtError(Exception):
    """Root of all errors that wasmrt raises.

    `code` is stable and machine-readable, `hint` is the suggested fix in one sentence, `retryable` means that the same
    call may succeed later. The message never contains a secret, a header or a host path, except paths that the operator
    wrote: the configuration file's own, and paths in it.

    Example:
        >>> from wasmrt import ResourceLimits, WasmrtError
        >>> try:
        ...     ResourceLimits(timeout_seconds=0)
        ... except WasmrtError as error:
        ...     print(error.code)
        configuration
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
        """Return the error as JSON data, for `--json` and audit records."""
        return {
            "error": type(self).__name__,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
        }


class ConfigurationError(WasmrtError):
    """An operator's or an embedding program's setting is invalid.

    Example:
        >>> from wasmrt import ConfigurationError, EndpointPattern
        >>> try:
        ...     EndpointPattern.host("api.example.com").with_methods("FETCH")
        ... except ConfigurationError as error:
        ...     print(error.code)
        configuration
    """

    code = "configuration"


class RefusedFileError(ConfigurationError):
    """A file was refused; `problems` lists every error as `(place in the file, sentence)`."""

    file = "the file"
    """The file's name in the list of its errors."""

    def __init__(self, message: str, *, problems: tuple[tuple[str, str], ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"problems": [{"path": p, "message": m} for p, m in self.problems]}


class CapabilityFileError(RefusedFileError):
    """A capability file was refused; `problems` lists every error as `(json_path, sentence)`."""

    code = "capability-file"
    file = "the capability file"


class ConfigFileError(RefusedFileError):
    """The operator's configuration file was refused; `problems` lists every error as `(key, sentence)`."""

    code = "config-file"

    def __init__(
        self, file: str, message: str, *, problems: tuple[tuple[str, str], ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(f"{file}: {message}", problems=problems, hint=hint)
        self.file = file


class ComponentError(WasmrtError):
    """A component cannot run here; the subclass gives the reason."""

    code = "component"


class NotWasmError(ComponentError):
    """The bytes are not WebAssembly."""

    code = "not-wasm"


class CoreModuleError(ComponentError):
    """The bytes are a core module, not a component."""

    code = "core-module"


class ComponentTooLargeError(ComponentError):
    """The component exceeds the size limit, or a limit on its counts that bounds the compiler's work."""

    code = "component-too-large"


class InvalidComponentError(ComponentError):
    """The component is invalid, or exports a known interface with different types."""

    code = "invalid-component"


class UnknownWorldError(ComponentError):
    """The component has no export that wasmrt can run."""

    code = "unknown-world"


class UnknownImportError(ComponentError):
    """The component imports something that this host does not provide."""

    code = "unknown-import"


class InstantiationError(ComponentError):
    """The component cannot be instantiated within its limits."""

    code = "instantiation"


class IntegrityError(ComponentError):
    """Stored bytes do not match their recorded digest."""

    code = "integrity"


class CapabilityDeniedError(WasmrtError):
    """The grant does not include a requested permission; `decision` has the rule that denied it."""

    code = "capability-denied"

    def __init__(self, message: str, *, decision: Decision | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or (None if decision is None else decision.hint))
        self.decision = decision


class InstallError(WasmrtError):
    """A tool cannot be installed, found or removed."""

    code = "install"


class InvalidNameError(InstallError):
    """A name is invalid, protected or taken."""

    code = "invalid-name"


class NotInstalledError(InstallError):
    """No tool with this name is installed."""

    code = "not-installed"


class SourceError(InstallError):
    """The source of a component cannot be read."""

    code = "source"


class PackageError(InstallError):
    """A package or its archive was refused; `code` is the reason: a link, a name, a size, a broken header, ..."""

    code = "package"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint or "ask the publisher for a new copy of the package")


class ManifestError(RefusedFileError):
    """A package's manifest was refused; `problems` lists every error as `(key, sentence)`."""

    code = "manifest"
    file = "the manifest"


class GrantRequiredError(InstallError):
    """The tool requests something different from its grant; a user has to approve it."""

    code = "grant-required"


class BuildError(WasmrtError):
    """A tool could not be built from its source; `output` is the end of the build step's output."""

    code = "build"

    def __init__(self, message: str, *, output: str = "", code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint)
        self.output = output

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | ({"output": self.output} if self.output else {})


class MissingToolchainError(BuildError):
    """A build needs a command or package that is not installed; the hint has the way to install it."""

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

    `path` is the file concerned, if any. It is for the operator only, and is not in message or hint, which can reach a
    guest.
    """

    code = "secret-backend"

    def __init__(self, message: str, *, path: Path | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class LeakError(WasmrtError):
    """A secret was found where it must not appear, and the value was withheld."""

    code = "leak"


class ApprovalError(WasmrtError):
    """An answer changed nothing, or approvals cannot be stored; `code` is the reason."""

    code = "approval"


class UndoError(WasmrtError):
    """A call's workspace changes cannot be undone; `code` is the reason."""

    code = "undo"


class MemoryStoreError(WasmrtError):
    """An agent's memory cannot be read or written, or lacks the requested document; `code` is the reason."""

    code = "memory-store"


class ConfineError(WasmrtError):
    """A process could not be confined as required: the system lacks a layer or refuses it."""

    code = "confine"


class InternalError(WasmrtError):
    """A bug in wasmrt; please report it."""

    code = "internal"
