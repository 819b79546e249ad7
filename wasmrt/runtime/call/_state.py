"""The host's state of one call: its grant, secrets, decisions and usage."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wasmrt.capabilities import BY_SECTION, Capabilities, WorkspaceWriteCapability
from wasmrt.core.effects import Effect
from wasmrt.core.errors import DeadlineExceededError
from wasmrt.core.lifetime import EndEvent, Lifetime
from wasmrt.core.limits import MAX_DECISIONS, MAX_HTTP_REQUESTS, MAX_TOOL_INVOCATIONS, ResourceLimits
from wasmrt.core.model import Addition, Decision, Reason, Step, ToolOutput, Usage, Withheld
from wasmrt.core.url import Network
from wasmrt.egress.leaks import Direction, LeakDetector, LeakScanner, WatchedSecrets
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import Tape
from wasmrt.runtime.context import CallTool, MayInvoke, ToolContext
from wasmrt.sandbox.component import printable
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.replies import Headers
from wasmrt.sandbox.guest.requests import HttpOpen

if TYPE_CHECKING:
    from wasmrt.egress.gateway import SecretsView
    from wasmrt.runtime.workspace import WorkspaceReader, WorkspaceWriter

WITHHELD = "[withheld: it could not be scanned in time]"
"""Replaces text that could not be scanned in time."""
CLOSING_SECONDS = 0.05
"""Extra time to scan logs and errors of a call after its deadline. Text that is not scanned by then is withheld."""


_NARROWED = frozenset(
    {Reason.NOT_GRANTED, Reason.EMPTY_ALLOWLIST, Reason.METHOD_NOT_ALLOWED, Reason.REMOVE_NOT_ALLOWED}
)

_NO_CONTEXT = ToolContext()


class ToolRunner(NamedTuple):
    """Runs the tools that other tools invoke."""

    run: Callable[[str, str, Call], ToolOutput | None]
    """Runs a tool for the call of another tool, given the name, the params as JSON text, and that call. Returns None if
    no tool with the name is prepared."""
    rates: RateLimiter


class GuestResponse(Protocol):
    """A response from the gateway to a guest, with secrets removed. Methods raise `HostFailure`."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers: ...

    def read(self) -> bytes:
        """Wait for the next piece of the body and return it; return empty bytes at the end."""

    def read_all(self) -> bytes:
        """Wait for the rest of the body and return it."""

    def close(self) -> None: ...


class HttpAccess(Protocol):
    """Network access for guests. Methods raise `HostFailure` for denied and failed requests."""

    @property
    def networks(self) -> tuple[Network, ...]:
        """Internal networks that the operator allows."""

    def open(self, call: Call, request: HttpOpen) -> GuestResponse:
        """Check and send a request, and wait for the status and the headers of the response."""


class Files(NamedTuple):
    """The workspace of one call."""

    reader: WorkspaceReader | None
    writer: WorkspaceWriter | None


class Backends(NamedTuple):
    """The services that a runtime provides for calls of one tool; None if not configured or not granted."""

    detector: LeakDetector
    http: HttpAccess | None = None
    workspace: WorkspaceReader | None = None
    writer: WorkspaceWriter | None = None
    files_of: Callable[[str, Path | None], Files] | None = None
    """Returns the files of a call, given the user and the call's own folder, if any. None if the grant has no files."""
    secrets_of: Callable[[str, Lifetime], SecretsView] | None = None
    """Returns the secrets of a user, given the user and the call's lifetime."""
    tools: ToolRunner | None = None
    networks: tuple[Network, ...] = ()
    """Internal networks that the operator allows. Used to explain denials if the grant has no HTTP."""


class Call:
    """The state of one call, from opening to closing.

    Only `lifetime.cancel` may be called from other threads. Access decisions are made by `wasmrt.capabilities`
    from `grant`; this class records them and counts usage.
    """

    is_shared = False
    """See `wasmrt.runtime.call._admission.Caller`. Calls that share a worker get their permit before they begin."""

    def __init__(
        self,
        *,
        call_id: str,
        tool: str,
        limits: ResourceLimits,
        grant: Capabilities,
        full_grant: Capabilities,
        backends: Backends,
        find_amendment: Callable[[Addition], str | None] | None = None,
        context: ToolContext = _NO_CONTEXT,
        action: str | None = None,
        parent: Call | None = None,
        lifetime: Lifetime | None = None,
    ) -> None:
        self.call_id = call_id
        receipt, workspace = context.receipt, context.workspace
        self.trace_id: str = receipt.trace_id or context.trace_id or (call_id if parent is None else parent.trace_id)
        """ID of the trace: the caller's if given, otherwise the ID of the outermost call."""
        self.within: str = receipt.parent_id if parent is None else parent.within
        """ID of the program run that made the outermost call; empty if no program made that call."""
        self.tool, self.user = tool, context.user
        self.limits, self.grant, self.backends = limits, grant, backends
        self.parent, self.on_progress = parent, context.on_progress
        self.full_grant = full_grant
        """The grant before it was narrowed to the call's effects and write paths."""
        self._find_amendment = find_amendment
        self.workspace: Path | None = workspace if parent is None or workspace is not None else parent.workspace
        """The folder for this call's files; None to use the runtime's."""
        self.files = Files(backends.workspace, backends.writer)
        """The call's workspace, after `open_files`."""
        self.effects = effective_effects(context, parent)
        self.write_paths = effective_write_paths(context, parent)
        self.may_invoke: MayInvoke | None = context.may_invoke if parent is None else parent.may_invoke
        self.call_tool: CallTool | None = context.call_tool
        self.tool_chain: tuple[str, ...] = (*(parent.tool_chain if parent else ()), action or tool)
        """Names of the calling tools, as used in grants, followed by the name of the tool itself."""
        self.lifetime: Lifetime = lifetime or start_lifetime(limits, context, parent)
        self.deadline = self.lifetime.deadline
        """Monotonic time, in seconds, at which the call ends."""
        self.guest: GuestCall | None = None
        """The guest's side of the call; None for the host's own calls, and after the end.

        The guest refers to the call. Without this cycle, memory is freed at the end, and not by the garbage collector.
        """
        self.tape: Tape | None = None
        """Records or replays the guest's requests; None if the call is neither recorded nor replayed."""
        self.decisions: list[Decision] = []
        self.decisions_dropped = 0
        self.params_bytes = 0
        self.http_requests = 0
        self.http_sent_bytes = 0
        self.http_received_bytes = 0
        self.tool_invocations = 0
        self._scan_time = _ScanTime(self.lifetime)
        self._watched = WatchedSecrets(backends.detector, check=self._scan_time.check)
        self.scanner: LeakScanner = self._watched.scanner
        """Scans text for matches of the leak rules, and for every secret that the call has used so far."""

    @property
    def cancelled(self) -> EndEvent:
        """Set when the call was cancelled or its runtime closed."""
        return self.lifetime.cancelled

    def open_files(self) -> None:
        """Open the workspace of this call.

        Raises:
            ConfigurationError: the workspace root is not a directory.
        """
        if self.backends.files_of is not None:
            self.files = self.backends.files_of(self.user, self.workspace)

    # -- secrets and leaks -----------------------------------------------------------------------------------------

    @property
    def secrets(self) -> SecretsView | None:
        """The secrets of this call's user."""
        return None if self.backends.secrets_of is None else self.backends.secrets_of(self.user, self.lifetime)

    def extend_scan_time(self) -> None:
        """Allow a short time for scanning logs and errors, even after the deadline."""
        self._scan_time.extend()

    def watch(self, name: str, value: str) -> None:
        """Make `scanner` also search for the secret `value`. Must be called before the secret is used."""
        self._watched.watch(name, value)
        self.scanner = self._watched.scanner

    # -- budgets ---------------------------------------------------------------------------------------------------

    def charge_http_request(self) -> bool:
        """Count an HTTP request for this call and its callers; return False if one of their budgets is exhausted."""
        if self.parent is not None and not self.parent.charge_http_request():
            return False
        if self.http_requests >= MAX_HTTP_REQUESTS:
            return False
        self.http_requests += 1
        return True

    def charge_http_bytes(self, *, sent: int, received: int) -> None:
        """Count transferred bytes, including headers."""
        self.http_sent_bytes += sent
        self.http_received_bytes += received

    def charge_tool_invocation(self) -> bool:
        """Count an invocation for this call and its callers; return False if one of their budgets is exhausted."""
        if self.parent is not None and not self.parent.charge_tool_invocation():
            return False
        if self.tool_invocations >= MAX_TOOL_INVOCATIONS:
            return False
        self.tool_invocations += 1
        return True

    # -- decisions and usage ---------------------------------------------------------------------------------------

    def decide(self, decision: Decision) -> Decision:
        """Record a decision for the result and the receipt; return it with its text redacted.

        SECURITY: a decision may contain text from the guest, so its text is scanned, then truncated. After
        `MAX_DECISIONS` decisions, further decisions are counted but not recorded.
        """
        decision = self.redact(decision)
        if len(self.decisions) < MAX_DECISIONS:
            self.decisions.append(decision)
        else:
            self.decisions_dropped += 1
        return decision

    def redact(self, decision: Decision) -> Decision:
        """Return a decision in the form in which guests, receipts and users see it: with the actual cause, no secrets.

        SECURITY: a guest may repeat the text of a decision. The repeated text is hidden from models only if it equals
        the text of a recorded decision.
        """
        scanner, decision = self.scanner.partial, self._explain_narrowing(decision)
        try:
            redacted = decision.redacted(lambda text: scanner.redact(text, direction=Direction.OUTWARD))
        except DeadlineExceededError:
            return decision._replace(rule=WITHHELD, suggestion=None, subject="")
        return redacted.redacted(printable)

    def describe(self, redacted: Decision) -> str:
        """Return the message of a denial for the guest. The suggestion is included only if the denial was recorded."""
        return redacted.sentence if redacted in self.decisions else redacted.refusal

    def _explain_narrowing(self, decision: Decision) -> Decision:
        """Explain a denial that is caused by the limits on the call's effects or write paths, not by the full grant.

        The usual suggestion, an addition to the capability file, would not help: the file already contains the entry.
        """
        if self._is_denied_by_paths(decision):
            folder = decision.subject.rpartition("/")[0] or decision.subject
            step = Step(f'add "{folder}" to allow_write_paths of the preset')
            return decision._replace(rule="the preset does not allow tools to write to this path", suggestion=step)
        section = decision.capability
        if self.effects is None or decision.allowed or decision.reason not in _NARROWED:
            return self._explain_withheld(decision)
        if section not in BY_SECTION or self.grant.section(section) == self.full_grant.section(section):
            return self._explain_withheld(decision)
        effects = ", ".join(sorted(self.effects)) or "none"
        step = Step("call the tool without the view or preset that limits its effects, or declare the effect")
        return decision._replace(rule=f"the call is limited to its effects ({effects})", suggestion=step)

    def _explain_withheld(self, decision: Decision) -> Decision:
        """Explain the denial: the capability file requests this access, but the operator did not grant it."""
        suggestion = decision.suggestion
        if decision.allowed or self._find_amendment is None or not isinstance(suggestion, Addition):
            return decision
        if (amendment := self._find_amendment(suggestion)) is None:
            return decision
        withheld = Withheld(suggestion, f"wasmrt grant {self.tool} --add {quote(amendment)}")
        rule = f"{decision.rule}; the tool requests it, but it was not granted"
        return decision._replace(rule=rule, suggestion=withheld)

    def _is_denied_by_paths(self, decision: Decision) -> bool:
        if not self.write_paths or decision.reason != Reason.PREFIX_NOT_ALLOWED:
            return False
        if decision.capability != WorkspaceWriteCapability.section:
            return False
        return self.full_grant.explain_workspace_write(decision.subject).allowed

    def usage(self, *, output_bytes: int = 0) -> Usage:
        """Return the usage of the call and its guest so far."""
        guest = self.guest
        fuel, host_calls, logs, dropped = (
            (0, 0, 0, 0)
            if guest is None
            else (guest.fuel_used, guest.host_calls, len(guest.logs), guest.log_entries_dropped)
        )
        return Usage(  # positional arguments, for speed: every call creates a Usage
            fuel,
            int((time.monotonic() - self.lifetime.started) * 1e6) / 1e6,
            self.params_bytes,
            output_bytes,
            host_calls,
            self.http_requests,
            self.http_sent_bytes,
            self.http_received_bytes,
            self.tool_invocations,
            logs,
            dropped,
        )


class _ScanTime:
    """The time in which a call's text is scanned: until the deadline, and shortly after it if extended."""

    __slots__ = ("_ends_at", "_lifetime")

    def __init__(self, lifetime: Lifetime) -> None:
        self._lifetime = lifetime
        self._ends_at = lifetime.deadline

    def extend(self) -> None:
        self._ends_at = max(self._ends_at, time.monotonic() + CLOSING_SECONDS)

    def check(self) -> None:
        if time.monotonic() >= self._ends_at:
            raise self._lifetime.late()


def start_lifetime(limits: ResourceLimits, context: ToolContext, parent: Call | None) -> Lifetime:
    """Start the lifetime of a call. It ends no later than the lifetime of the call's caller."""
    outer = context.lifetime if parent is None else parent.lifetime
    return Lifetime(limits.timeout_seconds, within=outer)


def effective_effects(context: ToolContext, parent: Call | None) -> frozenset[Effect] | None:
    """Return the effects that both the context and the calling call allow; None if neither limits effects."""
    own = context.effects
    if parent is None or parent.effects is None:
        return own
    return parent.effects if own is None else own & parent.effects


def effective_write_paths(context: ToolContext, parent: Call | None) -> tuple[tuple[str, ...], ...]:
    """Return the lists of folders that limit the writes of a call: the lists of its caller, and its own lists."""
    outer = () if parent is None else parent.write_paths
    if not context.write_paths:
        return outer
    return (*outer, *(paths for paths in context.write_paths if paths not in outer))
