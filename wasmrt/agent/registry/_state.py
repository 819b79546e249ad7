"""One call of a registered tool, while it goes through the steps."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wasmrt.agent.approvals import params_digest
from wasmrt.core.effects import EVERY_EFFECT, Effect
from wasmrt.core.errors import NotAuthorizedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.model import Decision, ToolOutput
from wasmrt.core.traits import Traits
from wasmrt.runtime.context import Progress, ToolsOfCaller

if TYPE_CHECKING:
    from wasmrt.agent.access import AccessRequest
    from wasmrt.agent.approvals import ApprovalAnswer, Approver
    from wasmrt.agent.flows import Destination, Flow
    from wasmrt.agent.policy import FlowFinding
    from wasmrt.agent.registry._entry import Entry
    from wasmrt.agent.registry._lens import Lens
    from wasmrt.agent.registry._system import System
    from wasmrt.agent.registry._tool import Tool
    from wasmrt.core.telemetry import Operation

_PROCESS = os.urandom(6).hex()
_numbers = itertools.count(1)


@dataclass(slots=True, kw_only=True)
class CallState:
    """The knowledge of a call so far. Each step reads some of it, and adds."""

    system: System
    lens: Lens
    name: str
    arguments: Any
    call_id: str = field(default_factory=lambda: f"{_PROCESS}-t{next(_numbers):x}")
    user: str = "local"
    trace: str = ""
    data: Any = None
    on_progress: Progress | None = None
    token: str | None = None
    """A confirmation token, in place of a person's answer."""
    approver: Approver | None = None
    """Who is asked about this call, in place of the registry's approver."""
    tools: ToolsOfCaller | None = None
    """The tools of the view that it is made through, for our own tools that describe them."""
    parent_id: str = ""
    """The call whose program makes this one; empty for a call from outside."""
    chain: tuple[str, ...] = ()
    """Callers before it."""
    receipt_trace: str = ""
    """The trace that its receipt names, where it belongs to none of its own."""
    within: Lifetime | None = None
    """The time of the program that makes it."""
    direct: bool = False
    """True while the program that makes it is running, and has a permit."""
    started: float = field(default_factory=time.monotonic)
    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    params: dict[str, Any] = field(default_factory=dict)
    entry: Entry | None = None
    """The tool, with all that it was granted for this call."""
    bound: Tool | None = None
    """The tool with its state for this conversation; None if it keeps none."""
    registered: Entry | None = None
    """The tool as it is registered."""
    traits: Traits = field(default_factory=Traits)
    held: frozenset[Effect] = EVERY_EFFECT
    """The effects that the view holds the call to."""
    effects: frozenset[Effect] = EVERY_EFFECT
    """The effects that this call may have."""
    decisions: list[Decision] = field(default_factory=list)
    needs: Decision | None = None
    """The reason that a person has to approve the call; None where nobody has to."""
    answer: ApprovalAnswer | None = None
    shown: str | None = None
    """The preview that the person who approved this very call saw."""
    approved_by: tuple[str, str, str] | None = None
    """The way, the giver and the scope of its approval, where no person was asked in this call."""
    flow: Flow | None = None
    """The call as a flow, where flows are looked at."""
    finding: FlowFinding | None = None
    """The rule over flows that the call does not pass."""
    beside: tuple[Destination, ...] = ()
    """The links that a yes to a call that only reads is for besides."""
    access: tuple[AccessRequest, ...] = ()
    """The answers by which a person granted the call more than the tool has."""
    access_asked: tuple[str, ...] = ()
    """The requests by which a person was asked for what it was refused."""
    looks: bool = False
    """True while its preview is made, which may read what strangers wrote."""
    ran: bool = False
    """True from the moment when the tool is started."""
    output: ToolOutput | None = None
    edited: bool = False
    """True where a person changed the params."""
    operation: Operation | None = None
    """The call as telemetry has it, where somebody wants to know."""
    in_sandbox: bool = False
    """True from the moment when a component's call has begun: it writes the receipt."""

    @property
    def tool(self) -> Tool:
        """The tool that is called; the step that looks it up has been."""
        assert self.entry is not None
        return self.entry.tool if self.bound is None else self.bound

    @property
    def known(self) -> Entry:
        """The entry of the tool that is called."""
        assert self.entry is not None
        return self.entry

    @property
    def policy_digest(self) -> str:
        """The digest that a step's own decision is stamped with: of the last preset, else of the policy."""
        presets = self.lens.presets
        return presets[-1].digest if presets else self.system.policy.digest

    def begin_in_sandbox(self) -> None:
        """Note that the component's call has begun."""
        self.in_sandbox = True

    def take(self, decision: Decision | str) -> None:
        """Put a decision on record, under the policy that it was made; words alone are none.

        Raises:
            NotAuthorizedError: it is a denial.
        """
        if isinstance(decision, str):
            return
        if not decision.policy:
            decision = decision._replace(policy=self.policy_digest)
        self.decisions.append(decision)
        if not decision.allowed:
            raise denied(decision)


def denied(decision: Decision) -> NotAuthorizedError:
    """Return the error of a denial: its code is the reason, its hint the step that would let it through."""
    subject = f"{decision.subject}: " if decision.subject else ""
    error = NotAuthorizedError(f"{subject}{decision.rule}", code=str(decision.reason), hint=decision.hint)
    error.decisions = (decision,)
    return error


def changed(params: Mapping[str, Any] | None, old: Mapping[str, Any]) -> bool:
    """Tell whether a person has edited the params. By digest: to Python `True` and `1` are the same."""
    return params is not None and params_digest(params) != params_digest(old)
