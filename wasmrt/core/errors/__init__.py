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
├─ UndoError                    changes of the workspace that cannot be taken back
├─ MemoryStoreError             an agent's memory: what it does not hold, and a file that cannot be used
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
│  ├─ NotAuthorizedError        .code is the reason
│  │  ├─ AccessRequestedError   .requests: a person was asked, not yet
│  │  └─ RunSuspendedError      a program of code mode waits for a person
│  ├─ RunReplayError            a program that waited cannot be continued
│  ├─ RateLimitedError · ExternalServiceError
│  └─ CancelledError · RuntimeClosedError
└─ InternalError                ours: please report it

A raw ValueError, wasmtime.* or h11.* that escapes is a bug.
"""

from __future__ import annotations

from wasmrt.core.errors._calls import (
    GUEST_CODE_PREFIX,
    AccessRequestedError,
    BudgetExceededError,
    CancelledError,
    DeadlineExceededError,
    ExternalServiceError,
    FuelExhaustedError,
    GuestError,
    GuestExitError,
    GuestOutputError,
    InvalidParametersError,
    LimitError,
    MalformedArgumentsError,
    MemoryLimitError,
    NotAuthorizedError,
    OutputLimitError,
    RateLimitedError,
    RunReplayError,
    RunSuspendedError,
    RuntimeClosedError,
    ToolError,
    ToolErrorKind,
    TrapError,
    UnknownToolError,
    WorkerCrashedError,
)
from wasmrt.core.errors._families import (
    ApprovalError,
    BuildError,
    CapabilityDeniedError,
    CapabilityFileError,
    ComponentError,
    ComponentTooLargeError,
    ConfigFileError,
    ConfigurationError,
    ConfineError,
    CoreModuleError,
    GrantRequiredError,
    InstallError,
    InstantiationError,
    IntegrityError,
    InternalError,
    InvalidComponentError,
    InvalidNameError,
    LeakError,
    ManifestError,
    MemoryStoreError,
    MissingToolchainError,
    NotInstalledError,
    NotWasmError,
    PackageError,
    RefusedFileError,
    SecretBackendError,
    SecretError,
    SecretExpiredError,
    SecretNotFoundError,
    SourceError,
    UndoError,
    UnknownImportError,
    UnknownWorldError,
    WasmrtError,
)

__all__ = [
    "GUEST_CODE_PREFIX",
    "AccessRequestedError",
    "ApprovalError",
    "BudgetExceededError",
    "BuildError",
    "CancelledError",
    "CapabilityDeniedError",
    "CapabilityFileError",
    "ComponentError",
    "ComponentTooLargeError",
    "ConfigFileError",
    "ConfigurationError",
    "ConfineError",
    "CoreModuleError",
    "DeadlineExceededError",
    "ExternalServiceError",
    "FuelExhaustedError",
    "GrantRequiredError",
    "GuestError",
    "GuestExitError",
    "GuestOutputError",
    "InstallError",
    "InstantiationError",
    "IntegrityError",
    "InternalError",
    "InvalidComponentError",
    "InvalidNameError",
    "InvalidParametersError",
    "LeakError",
    "LimitError",
    "MalformedArgumentsError",
    "ManifestError",
    "MemoryLimitError",
    "MemoryStoreError",
    "MissingToolchainError",
    "NotAuthorizedError",
    "NotInstalledError",
    "NotWasmError",
    "OutputLimitError",
    "PackageError",
    "RateLimitedError",
    "RefusedFileError",
    "RunReplayError",
    "RunSuspendedError",
    "RuntimeClosedError",
    "SecretBackendError",
    "SecretError",
    "SecretExpiredError",
    "SecretNotFoundError",
    "SourceError",
    "ToolError",
    "ToolErrorKind",
    "TrapError",
    "UndoError",
    "UnknownImportError",
    "UnknownToolError",
    "UnknownWorldError",
    "WasmrtError",
    "WorkerCrashedError",
]
