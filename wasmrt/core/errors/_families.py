"""The base class of all errors, and the errors that do not belong to a call.

The docstring of `wasmrt.core.errors` shows the complete tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from wasmrt.core.model import Decision


class WasmrtError(Exception):
    """The base class of all errors that wasmrt raises.

    `code` is stable and machine-readable, `hint` is the suggested fix in one sentence, and `retryable` is true if the
    same call may succeed later. The message never contains a secret or a header. It contains no path on the host except
    the path of the configuration file and paths in that file.

    Examples:
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

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes, and restore them without the constructor, whose parameters differ by class."""
        return type(self).__new__, (type(self), *self.args), self.__dict__

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
    """A setting of the operator or of the embedding program is invalid.

    Examples:
        >>> from wasmrt import ConfigurationError, EndpointPattern
        >>> try:
        ...     EndpointPattern.host("api.example.com").with_methods("FETCH")
        ... except ConfigurationError as error:
        ...     print(error.code)
        configuration
    """

    code = "configuration"


class RefusedFileError(ConfigurationError):
    """A file is invalid. `problems` lists all errors, each as a place in the file and a sentence."""

    file = "the file"
    """The name of the file in lists of its errors."""

    def __init__(self, message: str, *, problems: tuple[tuple[str, str], ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"problems": [{"path": p, "message": m} for p, m in self.problems]}


class CapabilityFileError(RefusedFileError):
    """A capability file is invalid. `problems` lists all errors, each as a JSON path and a sentence."""

    code = "capability-file"
    file = "the capability file"


class ConfigFileError(RefusedFileError):
    """The operator's configuration file is invalid. `problems` lists all errors, each as a key and a sentence."""

    code = "config-file"

    def __init__(
        self, file: str, message: str, *, problems: tuple[tuple[str, str], ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(f"{file}: {message}", problems=problems, hint=hint)
        self.file = file


class ComponentError(WasmrtError):
    """A component cannot be run. The subclass of the error is the reason."""

    code = "component"


class NotWasmError(ComponentError):
    """The bytes are not WebAssembly."""

    code = "not-wasm"


class CoreModuleError(ComponentError):
    """The bytes are a core module, not a component."""

    code = "core-module"


class ComponentTooLargeError(ComponentError):
    """The component is too large, or has more functions, types or other parts than can be compiled in bounded time."""

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
    """The grant does not allow a use. `decision` contains the rule that denied the use."""

    code = "capability-denied"

    def __init__(self, message: str, *, decision: Decision | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or (None if decision is None else decision.hint))
        self.decision = decision


class InstallError(WasmrtError):
    """A tool cannot be installed, found or removed."""

    code = "install"


class InvalidNameError(InstallError):
    """The name for a tool is invalid, protected or already taken."""

    code = "invalid-name"


class NotInstalledError(InstallError):
    """No tool with this name is installed."""

    code = "not-installed"


class SourceError(InstallError):
    """The source of a component cannot be read."""

    code = "source"


class PackageError(InstallError):
    """A package or its archive is invalid. `code` is the reason, such as `package-link` or `package-too-large`."""

    code = "package"

    def __init__(self, message: str, *, code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint or "ask the publisher for a new copy of the package")


class ManifestError(RefusedFileError):
    """The manifest of a package is invalid. `problems` lists all errors, each as a key and a sentence."""

    code = "manifest"
    file = "the manifest"


class GrantRequiredError(InstallError):
    """The tool requests access that is not granted yet. A user has to grant the access first."""

    code = "grant-required"


class BuildError(WasmrtError):
    """A tool could not be built from its source code. `output` is the end of the output of the failed build step."""

    code = "build"

    def __init__(self, message: str, *, output: str = "", code: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint)
        self.output = output

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | ({"output": self.output} if self.output else {})


class MissingToolchainError(BuildError):
    """A build needs a command or package that is not installed. The hint explains how to install it."""

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
    """The store of secrets cannot be read or written.

    `path` is the file that cannot be used, or None. Only the operator may see `path`, so it is not in message and hint,
    which a guest can get.
    """

    code = "secret-backend"

    def __init__(self, message: str, *, path: Path | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class LeakError(WasmrtError):
    """A value contains a secret that must not be in it. The value was withheld."""

    code = "leak"


class ApprovalError(WasmrtError):
    """An answer to an approval request had no effect, or approvals cannot be stored. `code` is the reason."""

    code = "approval"


class UndoError(WasmrtError):
    """The changes of a call in the workspace cannot be undone. `code` is the reason."""

    code = "undo"


class MemoryStoreError(WasmrtError):
    """The memory of an agent cannot be read or written, or lacks the requested document. `code` is the reason."""

    code = "memory-store"


class ConfineError(WasmrtError):
    """A process could not be confined, because the system does not support or does not allow a layer of isolation."""

    code = "confine"


class InternalError(WasmrtError):
    """A bug in wasmrt; please report it."""

    code = "internal"
