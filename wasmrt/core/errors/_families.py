"""Root of all errors, and the families that no call is needed for.

The tree of them stands in the package's docstring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from wasmrt.core.model import Decision


class WasmrtError(Exception):
    """Root of every error raised by wasmrt.

    `code` is stable and machine-readable, `hint` is the next step in one sentence, `retryable` says whether
    the same call may succeed later. The message never holds a secret, a header or a host path, but for those that an
    operator wrote: of the configuration file, and in it.

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
        """The error as JSON-ready data, for `--json` and audit records."""
        return {
            "error": type(self).__name__,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "retryable": self.retryable,
        }


class ConfigurationError(WasmrtError):
    """An operator's or an embedder's setting is wrong.

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


class UndoError(WasmrtError):
    """A call's changes of the workspace cannot be taken back; `code` says why."""

    code = "undo"


class MemoryStoreError(WasmrtError):
    """An agent's memory cannot be read or written, or has not what was asked of it; `code` says why."""

    code = "memory-store"


class ConfineError(WasmrtError):
    """A process could not be confined as required: the machine lacks a layer, or refuses it."""

    code = "confine"


class InternalError(WasmrtError):
    """A bug in wasmrt; please report it."""

    code = "internal"
