"""All errors that wasmrt raises, grouped by their causes.

WasmrtError                     code, hint, retryable
├─ ConfigurationError           an invalid setting or file
│  └─ CapabilityFileError · ConfigFileError · ManifestError   .problems: every error in the file, with its place
├─ ComponentError               an invalid component: bytes, layer, world, imports
├─ CapabilityDeniedError        .decision: reason, rule, hint
├─ InstallError                 a source, a name or a missing grant
├─ BuildError                   a failed build step
│  └─ MissingToolchainError     a missing command or package
├─ SecretError                  a missing, expired or unreadable credential
├─ LeakError                    a secret in data that must not contain it
├─ ApprovalError                an answer to a request that is not pending, or an unusable approval store
├─ UndoError                    workspace changes that cannot be undone
├─ MemoryStoreError             an agent's memory: a missing document, or an unusable file
├─ ConfineError                 a process that the system cannot confine
├─ ToolError                    .kind .usage .logs .decisions: one call failed
│  ├─ InvalidParametersError
│  │  └─ MalformedArgumentsError
│  ├─ UnknownToolError
│  ├─ GuestError                the tool reported an error
│  │  └─ GuestExitError         .exit_code: the tool exited
│  ├─ TrapError                 the guest crashed
│  ├─ WorkerCrashedError        .signal: the worker process ended during the call
│  ├─ LimitError                .limit .used .setting
│  │  └─ FuelExhaustedError · DeadlineExceededError · MemoryLimitError · OutputLimitError · BudgetExceededError
│  │     TooManyCallsError: too many calls wait for a permit
│  ├─ NotAuthorizedError        .code: the reason of the denial
│  │  ├─ AccessRequestedError   .requests: an approval is pending
│  │  └─ RunSuspendedError      a code mode program is awaiting approval
│  ├─ RunReplayError            a suspended program cannot be resumed
│  ├─ RateLimitedError · ExternalServiceError
│  └─ CancelledError · RuntimeClosedError
└─ InternalError                a bug in wasmrt

If a ValueError or an error of wasmtime or h11 reaches the caller, this is a bug in wasmrt.
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
    TooManyCallsError,
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
    "TooManyCallsError",
    "ToolError",
    "ToolErrorKind",
    "TrapError",
    "UndoError",
    "UnknownImportError",
    "UnknownToolError",
    "UnknownWorldError",
    "WasmrtError",
    "WorkerCrashedError",
]  # fmt: skip
