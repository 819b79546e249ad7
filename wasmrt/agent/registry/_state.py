"""The request, the state and the receipt of one call."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from blake3 import blake3

from wasmrt.agent.approvals import params_digest
from wasmrt.core.effects import EVERY_EFFECT, Effect
from wasmrt.core.errors import NotAuthorizedError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.model import NOTHING_USED, Decision, ToolOutput
from wasmrt.core.names import MAX_NAME_LENGTH
from wasmrt.core.strict_json import encode_json
from wasmrt.core.traits import Traits
from wasmrt.runtime.audit import EMPTY_RECEIPT, OK, Approval, Receipt
from wasmrt.runtime.context import Progress, ToolsOfCaller

if TYPE_CHECKING:
    from wasmrt.agent.access import AccessRequest
    from wasmrt.agent.approvals import ApprovalAnswer, Approver
    from wasmrt.agent.flows import Flow, PlannedCall
    from wasmrt.agent.policy import FlowFinding
    from wasmrt.agent.registry._registered import RegisteredTool, ToolRestrictions
    from wasmrt.agent.registry._services import RegistryServices
    from wasmrt.agent.registry._tool import Tool
    from wasmrt.core.telemetry import Operation


_PROCESS = os.urandom(6).hex()
_numbers = itertools.count(1)


class CallObserver(Protocol):
    """The job that makes calls. It records them, and can refuse a call."""

    def begin_call(self, name: str, arguments: Any) -> None:
        """Record that a call begins.

        Raises:
            CancelledError: the job has ended.
        """

    def end_call(self, name: str, output: ToolOutput | None, failure: ToolError | None) -> None:
        """Record the output or the failure of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The job or running tool that makes the calls of a view.

    Its user and trace are used for these calls, even if other ones are passed to the methods of the view.
    """

    user: str
    trace: str
    parent_id: str
    """The ID of the job, or of the tool's call."""
    chain: tuple[str, ...] = ()
    lifetime: Lifetime | None = None
    """The limit of all calls; None if they may continue after their caller has ended."""
    observer: CallObserver | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """A request to call a tool. It is immutable; the pipeline records its findings in a `CallState`."""

    name: str
    arguments: Any
    """The params as the model or the program sent them: an object, or its JSON text."""
    user: str = "local"
    trace: str = ""
    client: str = ""
    """The name that the client of the call gave, for display only; empty if no client made the call."""
    data: Any = None
    call_id: str = field(default_factory=lambda: f"{_PROCESS}-t{next(_numbers):x}")
    on_progress: Progress | None = None
    token: str | None = None
    """A confirmation token, which replaces an approval."""
    approver: Approver | None = None
    """The approver for this call; None for the registry's approver."""
    tools: ToolsOfCaller | None = None
    """The tools of the view that was called, for built-in tools that describe these tools."""
    parent_id: str = ""
    """The ID of the call or job that makes this call; empty if neither makes it."""
    chain: tuple[str, ...] = ()
    """The tools whose programs or jobs led to this call, outermost first."""
    receipt_trace: str = ""
    """The trace ID for the receipt, if the call has no trace."""
    observer: CallObserver | None = None
    """The job that makes the call; None if no job makes it."""
    started: float = field(default_factory=time.monotonic)
    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)


@dataclass(slots=True, kw_only=True)
class CallState:
    """The state of one call in the pipeline. Each step reads parts of the state and adds its own findings."""

    services: RegistryServices
    restrictions: ToolRestrictions
    request: CallRequest
    within: Lifetime | None = None
    """The lifetime of the program, job or tool that makes the call."""
    direct: bool = False
    """True if the program that makes this call keeps running, and keeps its permit, during the call."""
    params: dict[str, Any] = field(default_factory=dict)
    entry: RegisteredTool | None = None
    """The tool. Its grant includes the access that was granted for this call."""
    bound: Tool | None = None
    """The tool with its state for this conversation; None if it has no such state."""
    registered: RegisteredTool | None = None
    """The tool without access that was granted for this call."""
    traits: Traits = field(default_factory=Traits)
    view_effects: frozenset[Effect] = EVERY_EFFECT
    """The effects that the view allows."""
    effects: frozenset[Effect] = EVERY_EFFECT
    """The effects that this call may have."""
    decisions: list[Decision] = field(default_factory=list)
    approval_needed: Decision | None = None
    """The reason why the call requires approval; None if it does not."""
    answer: ApprovalAnswer | None = None
    shown: str | None = None
    """The preview that the approver of this call saw; None if no approver saw one."""
    confirmed_content: str | None = None
    """The digest of the files that the confirmation token of this call covers; None without one."""
    approved_by: tuple[str, str, str] | None = None
    """For an approval without a request: its kind, its approver and its scope."""
    planned: PlannedCall | None = None
    """The step of an approved plan that the call fits."""
    flow: Flow | None = None
    """The data flow of the call, if flow rules apply."""
    finding: FlowFinding | None = None
    """The flow rule that denies the call or requires approval of it, if any."""
    granted_access: tuple[AccessRequest, ...] = ()
    """The granted access requests that apply to this call."""
    access_requests: tuple[str, ...] = ()
    """IDs of the access requests that resulted from this call."""
    previewing: bool = False
    """True while the tool creates the preview. The tool may read untrusted text for this."""
    ran: bool = False
    """True from the start of the tool on, also after it has ended."""
    output: ToolOutput | None = None
    edited: bool = False
    """True if the approver changed the params."""
    operation: Operation | None = None
    """The telemetry span of the call, if telemetry is on."""
    in_sandbox: bool = False
    """True as soon as the runtime has begun to run a component. The runtime then writes the receipt."""

    @property
    def tool(self) -> Tool:
        """The tool that the call runs; available after the lookup."""
        assert self.entry is not None
        return self.entry.tool if self.bound is None else self.bound

    @property
    def known(self) -> RegisteredTool:
        """The entry of the tool; available after the lookup."""
        assert self.entry is not None
        return self.entry

    @property
    def policy_digest(self) -> str:
        """The digest recorded with each decision: the digest of the view's last preset, or else of the policy."""
        presets = self.restrictions.presets
        return presets[-1].digest if presets else self.services.policy.digest

    def begin_in_sandbox(self) -> None:
        """Record that the component's call has begun."""
        self.in_sandbox = True

    def apply(self, decision: Decision | str) -> None:
        """Record the decision of a step, with the digest of the policy, and raise an error if it is a denial.

        `decision` is a string if the step had nothing to decide; then nothing is recorded.

        Raises:
            NotAuthorizedError: the decision is a denial.
        """
        if isinstance(decision, str):
            return
        if not decision.policy:
            decision = decision._replace(policy=self.policy_digest)
        self.decisions.append(decision)
        if not decision.allowed:
            raise denial_error(decision)


def denial_error(decision: Decision) -> NotAuthorizedError:
    """Return the error for a decision that denies a call. The code of the error is the reason of the decision."""
    subject = f"{decision.subject}: " if decision.subject else ""
    error = NotAuthorizedError(f"{subject}{decision.rule}", code=str(decision.reason), hint=decision.hint)
    error.decisions = (decision,)
    return error


def is_edited(params: Mapping[str, Any] | None, old: Mapping[str, Any]) -> bool:
    """Return whether an approver edited the params. Unlike `==`, their digests distinguish `True` from `1`."""
    return params is not None and params_digest(params) != params_digest(old)


_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str)
_MAX_BY_CHARS = 256


def known_receipt(state: CallState) -> Receipt:
    """Return the parts of the receipt that are known before the tool runs."""
    entry, answer = state.entry, state.answer
    approval = None
    if answer is not None and (answer.approved or answer.by):
        how = "denied" if not answer.approved else answer.way if answer.params is None else f"{answer.way}, edited"
        approval = Approval(how, answer.by[:_MAX_BY_CHARS], str(answer.scope))
    elif state.approved_by is not None:
        approval = Approval(*state.approved_by)
    return EMPTY_RECEIPT._replace(
        trace_id=state.request.trace or state.request.receipt_trace,
        client=state.request.client,
        parent_id=state.request.parent_id,
        chain=state.request.chain,
        source="" if entry is None else str(entry.source),
        effects=() if entry is None else tuple(sorted(state.effects)),
        policy=system_policy(state),
        approval=approval,
        decisions=tuple(state.decisions),
    )


def system_policy(state: CallState) -> str:
    """Return the digest of the policy and of the presets of the view."""
    own, presets = state.services.policy, state.restrictions.presets
    added = [preset.digest for preset in presets if preset is not own.active]
    return own.digest if not added else blake3("\n".join([own.digest, *added]).encode()).hexdigest()


def write_receipt(state: CallState, failure: ToolError | None) -> None:
    """Write the receipt of a call that has ended, unless the runtime of its component wrote it."""
    services, entry = state.services, state.entry
    if services.receipts is None or (state.in_sandbox and services.runtime_writes):
        return
    output = state.output
    # Decisions are also made while a tool runs, for example by the egress proxy of a confined program.
    ended = output if output is not None else failure
    name = state.request.name[:MAX_NAME_LENGTH] if entry is None else entry.name
    hashed = services.hashed
    services.receipts(
        known_receipt(state)._replace(
            started_ms=state.request.started_ms,
            ended_ms=time.time_ns() // 1_000_000,
            trace_id=state.request.trace or state.request.receipt_trace or state.request.call_id,
            call_id=state.request.call_id,
            tool=name,
            kind="" if entry is None else "component" if entry.is_component else str(entry.source),
            digest="" if entry is None else entry.digest,
            user=state.request.user,
            chain=(*state.request.chain, name),
            args_hash="" if hashed is None else hashed(_to_text(state.params or state.request.arguments)),
            output_hash="" if hashed is None or output is None else hashed(_to_text(output.result)),
            outcome=OK if failure is None else failure.code,
            usage=NOTHING_USED if output is None else output.usage,
            decisions=tuple(state.decisions if ended is None else ended.decisions),
        )
    )


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else encode_json(_ENCODER, value)
