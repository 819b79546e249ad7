"""Immutable values that all areas use: decisions, suggestions, log entries, usage and output."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from wasmrt.core.setting_commands import append_command

if TYPE_CHECKING:
    from decimal import Decimal


class Reason(StrEnum):
    """The reason of a decision. Each reason has a stable, machine-readable value.

    Examples:
        >>> from wasmrt import Capabilities, Reason
        >>> Capabilities.none().explain_workspace("notes.txt").reason is Reason.NOT_GRANTED
        True
    """

    ALLOWED = "allowed"
    # no grant at all
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
    NOT_SCANNED = "not-scanned"
    CREDENTIAL_MISSING = "credential-missing"
    CREDENTIAL_EXPIRED = "credential-expired"
    CREDENTIAL_INSECURE = "credential-insecure"
    # workspace
    INVALID_PATH = "invalid-path"
    PREFIX_NOT_ALLOWED = "prefix-not-allowed"
    NOT_FOUND = "not-found"
    NOT_A_FILE = "not-a-file"
    FILE_TOO_LARGE = "file-too-large"
    TOO_MANY_ENTRIES = "too-many-entries"
    PROTECTED_FILE = "protected-file"
    REMOVE_NOT_ALLOWED = "remove-not-allowed"
    WRITE_BUDGET = "write-budget"
    ALREADY_EXISTS = "already-exists"
    NOT_EMPTY = "not-empty"
    NO_SPACE = "no-space"
    NOT_UNDOABLE = "not-undoable"
    # secrets and tools
    SECRET_NOT_ALLOWED = "secret-not-allowed"  # noqa: S105 - a reason, not a password
    ALIAS_NOT_ALLOWED = "alias-not-allowed"
    INVOKE_BUDGET = "invoke-budget"
    INVOKE_DEPTH = "invoke-depth"
    INVOKE_CYCLE = "invoke-cycle"
    # policy, confirmation and approval
    EXTERNAL_TOOL = "external-tool"
    NOT_IN_PRESET = "not-in-preset"
    NOT_IN_VIEW = "not-in-view"
    NETWORK_NOT_ALLOWED = "network-not-allowed"
    DENIED_BY_RULE = "denied-by-rule"
    EFFECT_NOT_ALLOWED = "effect-not-allowed"
    ACTION_NOT_ALLOWED = "action-not-allowed"
    ACTION_MISSING = "action-missing"
    SUBAGENT_DENIED = "subagent-denied"
    COMMAND_NOT_ALLOWED = "command-not-allowed"
    APPROVAL_REQUIRED = "approval-required"
    APPROVAL_DENIED = "approval-denied"
    UNTRUSTED_FLOW = "untrusted-flow"
    INVALID_ARGUMENTS = "invalid-arguments"
    UNKNOWN_TOOL = "unknown-tool"
    DEFINITION_CHANGED = "definition-changed"
    MESSAGE_REFUSED = "message-refused"
    # WASI
    FILESYSTEM_DENIED = "filesystem-denied"
    SOCKETS_DENIED = "sockets-denied"


class GrantList(str):
    """The path of an extensible list in a capability file, such as `http.allowlist`.

    Each kind of capability declares its list. `is_map` is true if the list is an object, to which the members of an
    entry are added.

    If the section can be `true` instead of an object, `everything` is the JSON of the entry that `true` stands for.
    """

    __slots__ = ("everything", "is_map")
    is_map: bool
    everything: str | None

    def __new__(cls, path: str, *, is_map: bool = False, everything: str | None = None) -> Self:  # noqa: D102 - see above
        self = super().__new__(cls, path)
        self.is_map, self.everything = is_map, everything
        return self

    @property
    def section(self) -> str:
        """The section that contains the list."""
        return self.partition(".")[0]


class Addition(NamedTuple):
    """A suggestion to add an entry to a capability file, which would allow a denied use.

    `Capabilities.with_addition` adds the entry.
    """

    to: GrantList
    entry: str
    """The entry as JSON text."""
    new_section: bool = False
    """True if the capability file does not contain the section of the list yet."""

    @property
    def hint(self) -> str:
        """The suggestion as text, with the line to add."""
        section, name = self.to.section, self.to.partition(".")[2]
        if self.entry == self.to.everything:
            return f'add "{section}": true'
        if self.new_section:
            return f'add "{section}": {{"{name}": {self.entry if self.to.is_map else f"[{self.entry}]"}}}'
        return f"add to {self.to}: {self.entry[1:-1] if self.to.is_map else self.entry}"

    def as_dict(self) -> dict[str, Any]:
        """Return the addition as JSON data."""
        return {"kind": "addition", "to": str(self.to), "entry": json.loads(self.entry)}


class Step(NamedTuple):
    """A suggestion to a user or the tool's author after a denial: a sentence, or a command to run."""

    text: str

    @property
    def hint(self) -> str:
        """The suggestion as text."""
        return self.text

    def as_dict(self) -> dict[str, Any]:
        """Return the step as JSON data."""
        return {"kind": "step", "step": self.text}


class Exemption(NamedTuple):
    """A suggestion to the operator to exempt a network from the address check, which a capability file cannot do."""

    network: str | None
    """The network in CIDR form, or None if the address of the host is not known."""

    @property
    def hint(self) -> str:
        """The suggestion as text."""
        command = append_command("network.unsafe_allowed_networks", self.network or "NETWORK")
        return f"no capability file can allow it; an operator may: {command}"

    def as_dict(self) -> dict[str, Any]:
        """Return the suggestion as JSON data: a step, and the network."""
        return {"kind": "step", "step": self.hint, "network": self.network}


class Withheld(NamedTuple):
    """A suggestion to grant an entry that the tool's capability file already requests, with the command for this."""

    addition: Addition
    command: str

    @property
    def hint(self) -> str:
        """The suggestion as text."""
        return f"grant it: {self.command}"

    def as_dict(self) -> dict[str, Any]:
        """Return the suggestion as JSON data: a step, and the entry."""
        return {"kind": "step", "step": self.hint, "addition": self.addition.as_dict()}


Suggestion = Addition | Step | Exemption | Withheld
_SUBJECT_CHARS = 200


class _Decided(NamedTuple):
    allowed: bool
    reason: Reason
    rule: str
    """The rule that led to the decision: a phrase, or the JSON path of an entry of the grant."""
    suggestion: Suggestion | None
    """For a denial: the entry that would allow the use, or another step."""
    capability: str
    """The section of a capability file, such as `http`, or a different name for the kind of check."""
    subject: str
    """The use that was checked, truncated and without secrets: `GET https://api.example.com/v1/`."""
    policy: str = ""
    """The BLAKE3 digest, in hexadecimal, of the policy or preset that led to the decision; otherwise empty."""


class Decision(_Decided):
    """The result of one check: whether a use is allowed, the rule that led to this, and a suggestion for a denial.

    If the argument `hint` is a string, it becomes a `Step`.

    Examples:
        >>> from wasmrt import Capabilities
        >>> decision = Capabilities.none().explain_http("GET", "https://api.example.com/")
        >>> decision.allowed, decision.capability
        (False, 'http')
    """

    __slots__ = ()

    def __new__(  # noqa: D102 - the class says it
        cls,
        allowed: bool,
        reason: Reason,
        rule: str,
        hint: str | Suggestion | None = None,
        capability: str = "",
        subject: str = "",
        policy: str = "",
    ) -> Decision:
        suggestion = Step(hint) if isinstance(hint, str) else hint
        return super().__new__(cls, allowed, reason, rule, suggestion, capability, subject, policy)

    def __bool__(self) -> bool:
        return self.allowed

    @property
    def hint(self) -> str | None:
        """The suggestion as text."""
        return None if self.suggestion is None else self.suggestion.hint

    @property
    def refusal(self) -> str:
        """The subject and the rule as text, without the suggestion."""
        return f"{self.subject}: {self.rule}" if self.subject else self.rule

    @property
    def sentence(self) -> str:
        """The subject, the rule and the suggestion in one sentence, as the guest gets them."""
        return f"{self.refusal}; {self.hint}" if self.hint else self.refusal

    def redacted(self, redact: Callable[[str], str]) -> Decision:
        """Apply `redact` to all text of the decision, and truncate the subject.

        SECURITY: if `redact` changes a suggested entry, the suggestion becomes a step, because the redacted entry would
        grant something different.
        """
        text = f"{self.rule}\n{self.subject}\n{self.hint}"
        if redact(text) == text:  # most decisions contain no secret: one search of all text shows that
            return self._replace(subject=_cut_subject(self.subject)) if len(self.subject) > _SUBJECT_CHARS else self
        suggestion = self.suggestion
        if suggestion is not None and (hint := redact(suggestion.hint)) != suggestion.hint:
            suggestion = Step(hint)
        return self._replace(rule=redact(self.rule), suggestion=suggestion, subject=_cut_subject(redact(self.subject)))

    def as_dict(self) -> dict[str, Any]:
        """Return the decision as JSON data."""
        return {
            "allowed": self.allowed,
            "reason": str(self.reason),
            "rule": self.rule,
            "hint": self.hint,
            "suggestion": None if self.suggestion is None else self.suggestion.as_dict(),
            "capability": self.capability,
            "subject": self.subject,
        } | ({"policy": self.policy} if self.policy else {})


def _cut_subject(subject: str) -> str:
    return f"{subject[:_SUBJECT_CHARS]}..." if len(subject) > _SUBJECT_CHARS else subject


class LogLevel(StrEnum):
    """The severity of a log line of a guest."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class LogEntry(NamedTuple):
    """A line that a guest logged."""

    level: LogLevel
    message: str
    timestamp_ms: int
    """The Unix time in milliseconds."""


class Usage(NamedTuple):
    """The resources that a call used, whether it succeeded or failed."""

    fuel: int = 0
    wall_seconds: float = 0.0
    """The duration of the call, rounded to microseconds."""
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
        """Return all values by name."""
        return self._asdict()


NOTHING_USED = Usage()


class ToolOutput(NamedTuple):
    """The output of a call.

    `result` is the JSON value that the tool returned, after scanning. `raw` is the text that the guest returned, after
    scanning and without truncation. `duration` is in seconds.

    Examples:
        >>> from wasmrt import ToolRegistry, tool
        >>> @tool(effects=[])
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> registry = ToolRegistry()
        >>> _ = registry.register(add)
        >>> output = registry.execute("add", {"a": 1, "b": 2})
        >>> output.result, output.usage.http_requests
        (3, 0)
    """

    result: Any
    raw: str | None = None
    cost: Decimal | None = None
    duration: float = 0.0
    usage: Usage = NOTHING_USED
    logs: tuple[LogEntry, ...] = ()
    decisions: tuple[Decision, ...] = ()
    call_id: str = ""
    labels: tuple[str, ...] | None = None
    """The labels of the text in the result (`wasmrt.agent.flows.Label`), or None if the tool does not set them."""

    def as_dict(self) -> dict[str, Any]:
        """Return the output as JSON data."""
        return {
            "result": self.result,
            "cost": None if self.cost is None else str(self.cost),
            "duration": self.duration,
            "usage": self.usage.as_dict(),
            "logs": [{"level": e.level, "message": e.message, "timestamp_ms": e.timestamp_ms} for e in self.logs],
            "decisions": [d.as_dict() for d in self.decisions],
            "call_id": self.call_id,
        }
