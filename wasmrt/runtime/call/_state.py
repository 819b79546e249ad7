"""The host's side of one call: what is granted, which secrets it used, what was decided, what it spent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wasmrt.capabilities import BY_SECTION, Capabilities
from wasmrt.core.effects import Effect
from wasmrt.core.errors import DeadlineExceededError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_DECISIONS, MAX_HTTP_REQUESTS, MAX_TOOL_INVOCATIONS, ResourceLimits
from wasmrt.core.model import Addition, Decision, GrantList, Reason, Step, Usage, Withheld
from wasmrt.core.url import Network
from wasmrt.egress.leaks import Direction, LeakDetector, LeakScanner, WatchedSecrets
from wasmrt.runtime.audit import Tape
from wasmrt.runtime.context import CallTool, MayInvoke, ToolContext
from wasmrt.sandbox.component import printable
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.requests import Headers, HttpOpen

if TYPE_CHECKING:
    from wasmrt.egress.gateway import SecretsView
    from wasmrt.runtime.workspace import WorkspaceReader, WorkspaceWriter

_LATE = "[withheld: it could not be scanned in time]"
CLOSING_SECONDS = 0.05
"""Logs and errors of a call that is late are still scanned for this long; what is not done by then is withheld."""


_NARROWED = frozenset(
    {Reason.NOT_GRANTED, Reason.EMPTY_ALLOWLIST, Reason.METHOD_NOT_ALLOWED, Reason.REMOVE_NOT_ALLOWED}
)

_NO_CONTEXT = ToolContext()


class ToolInvoker(Protocol):
    """The way to another tool by alias; raises `ToolError` or `CapabilityDeniedError`."""

    def invoke(self, call: Call, alias: str, params: str) -> str: ...


class GuestResponse(Protocol):
    """A response of the gateway for a guest, already scrubbed. Methods raise `HostFailure`."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers: ...

    def read(self) -> bytes:
        """Wait for the next piece of the body; empty at its end."""

    def read_all(self) -> bytes:
        """Wait for the rest of the body."""

    def close(self) -> None:
        """Release the connection."""


class HttpAccess(Protocol):
    """The way to the network for guests; raises `HostFailure`."""

    @property
    def networks(self) -> tuple[Network, ...]:
        """Internal networks that the operator exempts."""

    def open(self, call: Call, request: HttpOpen) -> GuestResponse:
        """Send a request through every check and wait for the head of its response."""


class Files(NamedTuple):
    """The workspace of one call."""

    reader: WorkspaceReader | None
    writer: WorkspaceWriter | None


class Backends(NamedTuple):
    """A runtime's services for the calls of one tool; None where nothing is configured or granted."""

    detector: LeakDetector
    http: HttpAccess | None = None
    workspace: WorkspaceReader | None = None
    writer: WorkspaceWriter | None = None
    files_of: Callable[[str, Path | None], Files] | None = None
    """From a user, and the folder that a call brings, to the workspace of that call; None where no file is
    granted."""
    secrets_of: Callable[[str, Lifetime], SecretsView] | None = None
    """From a user and a call's time to the view of that user's secrets, and of nobody else's."""
    tools: ToolInvoker | None = None
    networks: tuple[Network, ...] = ()
    """Internal networks that the operator exempts, for the refusals of a grant without requests."""


class Call:
    """One call, from opening to close. `lifetime.cancel` from any thread; the rest on the call's own.

    It counts, waits and remembers; what is allowed is decided by `wasmrt.capabilities` from `grant`.
    """

    def __init__(
        self,
        *,
        call_id: str,
        tool: str,
        limits: ResourceLimits,
        grant: Capabilities,
        full_grant: Capabilities,
        backends: Backends,
        to_ask: Callable[[Addition], str | None] | None = None,
        context: ToolContext = _NO_CONTEXT,
        action: str | None = None,
        parent: Call | None = None,
        lifetime: Lifetime | None = None,
    ) -> None:
        self.call_id = call_id
        receipt, workspace = context.receipt, context.workspace
        self.trace_id: str = receipt.trace_id or context.trace_id or (call_id if parent is None else parent.trace_id)
        """The id of what it is part of: the caller's own word for it, or the id of the outermost call."""
        self.within: str = receipt.parent_id if parent is None else parent.within
        """The id of the program's pass that made the outermost call; empty where none did."""
        self.tool, self.user = tool, context.user
        self.limits, self.grant, self.backends = limits, grant, backends
        self.parent, self.on_progress = parent, context.on_progress
        self.full_grant = full_grant
        """The grant before it was narrowed to the effects and folders that the call is held to."""
        self._to_ask = to_ask
        self.workspace: Path | None = workspace if parent is None or workspace is not None else parent.workspace
        """The folder that this call brings for its files; None for the runtime's."""
        self.files = Files(backends.workspace, backends.writer)
        """Its workspace, once it was opened."""
        self.effects = effective_effects(context, parent)
        self.write_paths = effective_write_paths(context, parent)
        self.may_invoke: MayInvoke | None = context.may_invoke if parent is None else parent.may_invoke
        self.call_tool: CallTool | None = context.call_tool
        self.tool_chain: tuple[str, ...] = (*(parent.tool_chain if parent else ()), action or tool)
        """Callers before it, and last itself, by the names that aliases stand for."""
        self.lifetime: Lifetime = lifetime or lifetime_of(limits, context, parent)
        self.deadline = self.lifetime.deadline
        """Monotonic seconds when it ends."""
        self.guest: GuestCall | None = None
        """Its guest's side; None for a call of the host's own."""
        self.tape: Tape | None = None
        """Stands between the guest and its services while the call is recorded or replayed."""
        self.decisions: list[Decision] = []
        self.decisions_dropped = 0
        self.params_bytes = 0
        self.http_requests = 0
        self.http_sent_bytes = 0
        self.http_received_bytes = 0
        self.tool_invocations = 0
        self._scan_until = self.deadline
        self._watched = WatchedSecrets(backends.detector, check=self._check_scan)
        self.scanner: LeakScanner = self._watched.scanner
        """Knows the rules and every secret that was put to use so far."""

    @property
    def cancelled(self) -> threading.Event:
        """Set when it was cancelled or its runtime closed."""
        return self.lifetime.cancelled

    def open_files(self) -> None:
        """Open the workspace of this call.

        Raises:
            ConfigurationError: its folder is none.
        """
        if self.backends.files_of is not None:
            self.files = self.backends.files_of(self.user, self.workspace)

    # -- secrets and leaks -----------------------------------------------------------------------------------------

    @property
    def secrets(self) -> SecretsView | None:
        """The secrets of this call's user."""
        return None if self.backends.secrets_of is None else self.backends.secrets_of(self.user, self.lifetime)

    def closing(self) -> None:
        """Let what the guest left behind be scanned for a moment longer, its deadline or not."""
        self._scan_until = max(self._scan_until, time.monotonic() + CLOSING_SECONDS)

    def _check_scan(self) -> None:
        if time.monotonic() >= self._scan_until:
            raise self.lifetime.late()

    def watch(self, name: str, value: str) -> None:
        """Have `scanner` find `value` from now on; called before a secret is put to use."""
        self._watched.watch(name, value)
        self.scanner = self._watched.scanner

    # -- budgets ---------------------------------------------------------------------------------------------------

    def charge_http_request(self) -> bool:
        """Count one HTTP request, for the callers too; False where a budget of theirs or the call's is spent."""
        if self.parent is not None and not self.parent.charge_http_request():
            return False
        if self.http_requests >= MAX_HTTP_REQUESTS:
            return False
        self.http_requests += 1
        return True

    def charge_http_bytes(self, *, sent: int, received: int) -> None:
        """Count bytes on the wire, headers included."""
        self.http_sent_bytes += sent
        self.http_received_bytes += received

    def charge_tool_invocation(self) -> bool:
        """Count one invocation of another tool, for the callers too; False where one of the budgets is spent."""
        if self.parent is not None and not self.parent.charge_tool_invocation():
            return False
        if self.tool_invocations >= MAX_TOOL_INVOCATIONS:
            return False
        self.tool_invocations += 1
        return True

    # -- what is remembered ----------------------------------------------------------------------------------------

    def decide(self, decision: Decision) -> Decision:
        """Remember a decision for the result and the receipt, and return it as it may be shown.

        SECURITY: a guest chose parts of it. They are scanned, and then cut; the decisions over the cap are counted.
        """
        decision = self.told(decision)
        if len(self.decisions) < MAX_DECISIONS:
            self.decisions.append(decision)
        else:
            self.decisions_dropped += 1
        return decision

    def told(self, decision: Decision) -> Decision:
        """Return a decision as the guest, the record and a person are told of it, in the same words.

        SECURITY: only words that stand in a decision on record are kept from a model when the guest repeats them.
        """
        return self._shown(self._narrowed(decision))

    def sentence_of(self, told: Decision) -> str:
        """Return a refusal as the guest hears it: the step that lifts it, too, where that is on record."""
        return told.sentence if told in self.decisions else told.refusal

    def _narrowed(self, decision: Decision) -> Decision:
        """Say of a refusal that it comes from the effects the call is held to, where the grant itself would allow more.

        An entry for the capability file would not help: it stands there already.
        """
        if self._withheld_by_paths(decision):
            folder = decision.subject.rpartition("/")[0] or decision.subject
            step = Step(f'add "{folder}" to allow_write_paths of the preset')
            return decision._replace(rule="the preset lets no tool write there", suggestion=step)
        section = decision.capability
        if self.effects is None or decision.allowed or decision.reason not in _NARROWED:
            return self._withheld_by_grant(decision)
        if section not in BY_SECTION or self.grant.section(section) == self.full_grant.section(section):
            return self._withheld_by_grant(decision)
        held = ", ".join(sorted(self.effects)) or "none"
        step = Step("call it outside of the view or preset that holds it, or declare the effect for this tool")
        return decision._replace(rule=f"the call is held to its effects ({held})", suggestion=step)

    def _withheld_by_grant(self, decision: Decision) -> Decision:
        """Say of a refusal that the capability file asks for it, and that it was not granted."""
        suggestion = decision.suggestion
        if decision.allowed or self._to_ask is None or not isinstance(suggestion, Addition):
            return decision
        if (amendment := self._to_ask(suggestion)) is None:
            return decision
        withheld = Withheld(suggestion, f"wasmrt grant {self.tool} --add {quote(amendment)}")
        rule = f"{decision.rule}; the tool asks for it, and it was not granted"
        return decision._replace(rule=rule, suggestion=withheld)

    def _withheld_by_paths(self, decision: Decision) -> bool:
        if not self.write_paths or decision.reason != Reason.PREFIX_NOT_ALLOWED:
            return False
        if decision.capability != GrantList.WORKSPACE_WRITE.section:
            return False
        return self.full_grant.explain_workspace_write(decision.subject).allowed

    def _shown(self, decision: Decision) -> Decision:
        scanner = self.scanner.partial
        try:
            return decision.redacted(lambda text: printable(scanner.redact(text, direction=Direction.OUTWARD)))
        except DeadlineExceededError:
            return decision._replace(rule=_LATE, suggestion=None, subject="")

    def usage(self, *, output_bytes: int = 0) -> Usage:
        """Return what the call and its guest have used until now."""
        guest = self.guest
        fuel, host_calls, logs, dropped = (
            (0, 0, 0, 0)
            if guest is None
            else (guest.fuel_used, guest.host_calls, len(guest.logs), guest.log_entries_dropped)
        )
        return Usage(  # by position: every call makes one
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


def lifetime_of(limits: ResourceLimits, context: ToolContext, parent: Call | None) -> Lifetime:
    """Start the lifetime of a call, which ends no later than its caller's."""
    outer = context.lifetime if parent is None else parent.lifetime
    return Lifetime(limits.timeout_seconds, within=outer)


def effective_effects(context: ToolContext, parent: Call | None) -> frozenset[Effect] | None:
    """Return the effects allowed for a call: the intersection of its own and its caller's; None for its whole grant."""
    own = context.effects
    if parent is None or parent.effects is None:
        return own
    return parent.effects if own is None else own & parent.effects


def effective_write_paths(context: ToolContext, parent: Call | None) -> tuple[tuple[str, ...], ...]:
    """Return the folders that limit the writes of a call: its caller's and its own."""
    outer = () if parent is None else parent.write_paths
    return (*outer, *(paths for paths in context.write_paths if paths not in outer))
