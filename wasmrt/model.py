"""The values that pass between packages: frozen, plain, without behaviour beyond their own rendering.

Named tuples: every call makes some, and a dataclass takes seven times as long to define at every start.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from decimal import Decimal


class Reason(StrEnum):
    """Why a decision came out as it did. A closed set: a denial never invents a word of its own."""

    ALLOWED = "allowed"
    # nothing was granted at all
    NOT_GRANTED = "not-granted"
    # URLs and the allowlist
    EMPTY_ALLOWLIST = "empty-allowlist"
    INVALID_URL = "invalid-url"
    INSECURE_SCHEME = "insecure-scheme"
    HOST_NOT_ALLOWED = "host-not-allowed"
    PORT_NOT_ALLOWED = "port-not-allowed"
    PATH_NOT_ALLOWED = "path-not-allowed"
    METHOD_NOT_ALLOWED = "method-not-allowed"
    # addresses
    ADDRESS_NOT_ALLOWED = "address-not-allowed"
    NO_ADDRESS = "no-address"
    # requests
    HEADER_NOT_ALLOWED = "header-not-allowed"
    REQUEST_TOO_LARGE = "request-too-large"
    RESPONSE_TOO_LARGE = "response-too-large"
    REQUEST_BUDGET = "request-budget"
    RATE_LIMITED = "rate-limited"
    LEAK = "leak"
    CREDENTIAL_MISSING = "credential-missing"
    CREDENTIAL_EXPIRED = "credential-expired"
    CREDENTIAL_INSECURE = "credential-insecure"
    # workspace
    INVALID_PATH = "invalid-path"
    PREFIX_NOT_ALLOWED = "prefix-not-allowed"
    NOT_FOUND = "not-found"
    NOT_A_FILE = "not-a-file"
    FILE_TOO_LARGE = "file-too-large"
    # secrets and tools
    SECRET_NOT_ALLOWED = "secret-not-allowed"  # noqa: S105 - a reason, not a password
    ALIAS_NOT_ALLOWED = "alias-not-allowed"
    INVOKE_BUDGET = "invoke-budget"
    INVOKE_DEPTH = "invoke-depth"
    INVOKE_CYCLE = "invoke-cycle"
    # WASI
    FILESYSTEM_DENIED = "filesystem-denied"
    SOCKETS_DENIED = "sockets-denied"


class Decision(NamedTuple):
    """One check of one power: what was decided, by which rule, and the line that would change it."""

    allowed: bool
    reason: Reason
    rule: str
    """The rule that decided, in words or as the JSON path of the grant's entry."""
    hint: str | None = None
    """For a denial: the line to add to the capability file, or the step to take."""
    capability: str = ""
    """`http`, `workspace`, `secrets`, `tool_invoke`, ..."""
    subject: str = ""
    """What was asked for, cut and free of secrets: `GET https://api.example.com/v1/`."""

    def __bool__(self) -> bool:
        return self.allowed

    def as_dict(self) -> dict[str, Any]:
        return {
            "allowed": self.allowed,
            "reason": str(self.reason),
            "rule": self.rule,
            "hint": self.hint,
            "capability": self.capability,
            "subject": self.subject,
        }


class LogLevel(StrEnum):
    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class LogEntry(NamedTuple):
    level: LogLevel
    message: str
    timestamp_ms: int
    """Unix milliseconds."""


class Usage(NamedTuple):
    """What one call used until it ended, well or badly."""

    fuel: int = 0
    wall_seconds: float = 0.0
    """To the microsecond."""
    peak_memory_bytes: int | None = None
    """None where the engine does not tell."""
    params_bytes: int = 0
    output_bytes: int = 0
    host_calls: int = 0
    http_requests: int = 0
    http_sent_bytes: int = 0
    http_received_bytes: int = 0
    tool_invocations: int = 0
    log_entries: int = 0
    log_entries_dropped: int = 0

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


NOTHING_USED = Usage()


class ToolOutput(NamedTuple):
    """What a call answered.

    `result` is the JSON value, scanned; `raw` the guest's own text, scanned but uncut; `duration` is in seconds.
    """

    result: Any
    raw: str | None = None
    cost: Decimal | None = None
    duration: float = 0.0
    usage: Usage = NOTHING_USED
    logs: tuple[LogEntry, ...] = ()
    decisions: tuple[Decision, ...] = ()
    call_id: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "result": self.result,
            "cost": None if self.cost is None else str(self.cost),
            "duration": self.duration,
            "usage": self.usage.as_dict(),
            "logs": [{"level": e.level, "message": e.message, "timestamp_ms": e.timestamp_ms} for e in self.logs],
            "decisions": [d.as_dict() for d in self.decisions],
            "call_id": self.call_id,
        }
