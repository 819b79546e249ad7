"""Explain a call without running it, and map the flows of a view."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from wasmrt.agent.approvals import ApprovalRequest
from wasmrt.agent.flows import FlowMap, Label, Reach
from wasmrt.agent.policy import OUTGOING
from wasmrt.agent.registry import _access, _flow, _steps
from wasmrt.agent.registry._flow import result_labels
from wasmrt.agent.registry._pipeline import FORGET_HINT, approval_request, tool_context
from wasmrt.agent.registry._registered import OWN_SOURCES
from wasmrt.agent.registry._state import CallState
from wasmrt.capabilities.model import ANY_HOST
from wasmrt.core.effects import NETWORKING, Effect, in_words
from wasmrt.core.errors import InvalidParametersError, RateLimitedError, ToolError, UnknownToolError
from wasmrt.core.model import Decision, Reason
from wasmrt.runtime.prepared import PreparedTool

STEPS: tuple[tuple[str, Callable[[CallState], _steps.Step]], ...] = (
    ("arguments", _steps.parse),
    ("lookup", _steps.look_up),
    ("program", _steps.check_program),
    ("schema", _steps.check_schema),
    ("access", _access.add_granted),
    ("view", _steps.check_view),
    ("filter", _steps.check_filter),
    ("preset", _steps.check_preset),
    ("rules", _steps.check_rules),
    ("exfiltration", _steps.check_exfiltration),
    ("plan", _flow.find_plan_step),
    ("confirmation", _steps.check_confirmation),
    ("flow", _flow.check_flow),
    ("workspace", _steps.check_tool_policy),
    ("rate", partial(_steps.check_rate, record=False)),
)


class Outcome(StrEnum):
    """The outcome that an explained call would have."""

    RUNS = "runs"
    ASKS = "asks"
    """The call would require approval."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps that a call would go through, each with its decision. The last one is the step that stops the call."""

    outcome: Outcome
    steps: tuple[tuple[str, Decision], ...]

    @property
    def stopped_at(self) -> str | None:
        """The step that would deny the call or request approval; None if the call would run."""
        return None if self.outcome is Outcome.RUNS else self.steps[-1][0]

    @property
    def decision(self) -> Decision:
        """The last decision."""
        return self.steps[-1][1]

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as JSON data."""
        return {
            "outcome": str(self.outcome),
            "stopped_at": self.stopped_at,
            "steps": [{"step": name} | decision.as_dict() for name, decision in self.steps],
        }


def explain(state: CallState) -> Explanation:
    """Evaluate the steps of a call. The call is not run or counted, and no approval is requested or token used up."""
    walked = _evaluate_steps(state)
    if not walked[-1][1].allowed:
        return Explanation(Outcome.REFUSED, tuple(walked))
    if state.approval_needed is None:
        return Explanation(Outcome.RUNS, tuple(walked))
    answer = state.services.approvals.remembered(approval_request(state, None))
    what = "tool.approval"
    if answer is None:
        walked.append(("approval", state.approval_needed._replace(policy=state.policy_digest)))
        return Explanation(Outcome.ASKS, tuple(walked))
    reason = Reason.ALLOWED if answer.approved else Reason.APPROVAL_DENIED
    rule = f"a remembered answer applies ({answer.scope}{f' by {answer.by}' if answer.by else ''})"
    hint = None if answer.approved else FORGET_HINT
    walked.append(("approval", Decision(answer.approved, reason, rule, hint, what, state.known.name)))
    return Explanation(Outcome.RUNS if answer.approved else Outcome.REFUSED, tuple(walked))


def approval_preview(state: CallState) -> ApprovalRequest | None:
    """Return the approval request that a call would cause, without making the call.

    Return None if the call would be denied, requires no approval, or a remembered answer applies.
    """
    if not _evaluate_steps(state)[-1][1].allowed or state.approval_needed is None:
        return None
    try:
        shown = state.tool.preview(state.params, tool_context(state, state.tool.timeout_seconds))
    except Exception:  # the call itself would fail with this error
        return None
    request = approval_request(state, shown)
    return None if state.services.approvals.remembered(request) is not None else request


def _evaluate_steps(state: CallState) -> list[tuple[str, Decision]]:
    """Return the name and the decision of each step, up to the first denial."""
    walked: list[tuple[str, Decision]] = []
    for name, step in STEPS:
        decision = _try_step(state, step, name)
        if not decision.policy:
            decision = decision._replace(policy=state.policy_digest)
        walked.append((name, decision))
        if not decision.allowed:
            break
    return walked


def _try_step(state: CallState, step: Callable[[CallState], _steps.Step], name: str) -> Decision:
    try:
        found = step(state)
        if isinstance(found, Decision):
            return found
        return Decision(True, Reason.ALLOWED, found, None, f"tool.{name}", state.request.name[:80])
    except Exception as raised:
        error = raised if isinstance(raised, ToolError) else ToolError(f"the step failed with {type(raised).__name__}")
        denial = next((each for each in error.decisions if not each.allowed), None)
        return denial or Decision(
            False, _derive_reason(error), error.message, error.hint, f"tool.{name}", state.request.name[:80]
        )


def _derive_reason(error: ToolError) -> Reason:
    if isinstance(error, InvalidParametersError):
        return Reason.INVALID_ARGUMENTS
    if isinstance(error, RateLimitedError):
        return Reason.RATE_LIMITED
    return Reason.UNKNOWN_TOOL if isinstance(error, UnknownToolError) else Reason.DENIED_BY_RULE


_SENDING = OUTGOING | NETWORKING
_MAX_HOSTS = 3


def flow_map(probes: Iterable[CallState]) -> FlowMap:
    """Return the map of flows between tools. Each probe is the state of a hypothetical call of one tool."""
    return FlowMap(tuple(_build_reach(probe) for probe in probes))


def _build_reach(probe: CallState) -> Reach:
    entry, effects = probe.known, probe.effects
    foreign = entry.source not in OWN_SOURCES
    labels = result_labels(probe, frozenset())
    return Reach(
        tool=entry.name,
        private=_describe_private_source(effects) if Label.PRIVATE in labels else "",
        untrusted=_describe_untrusted_source(effects, foreign=foreign) if Label.UNTRUSTED in labels else "",
        sends=_describe_sending(probe) if effects & _SENDING else "",
        asks=_is_always_asking(probe),
    )


def _describe_private_source(effects: frozenset[Effect]) -> str:
    if Effect.READ_FILESYSTEM in effects:
        return "reads files"
    if Effect.READ_MEMORY in effects:
        return "reads its memory"
    return "reads data with its credential" if Effect.USE_SECRET in effects else "can read private data"


def _describe_untrusted_source(effects: frozenset[Effect], *, foreign: bool) -> str:
    if effects & NETWORKING:
        return "from the network"
    if Effect.READ_FILESYSTEM in effects:
        return "from files"
    if Effect.READ_MEMORY in effects:
        return "from its memory"
    return "the tool itself is third-party" if foreign else "its own results"


def _describe_sending(probe: CallState) -> str:
    hosts = _list_hosts(probe)
    doing = probe.effects & OUTGOING
    words = f"can {in_words(doing)}" if doing else "can send requests, whose paths carry data"
    return f"{words} at {hosts}" if hosts else words


def _list_hosts(probe: CallState) -> str:
    """Return the hosts that a component's grant allows, as text; an empty string if it allows none."""
    http = probe.tool.capabilities.http if isinstance(probe.tool, PreparedTool) else None
    if http is None:
        return ""
    patterns = dict.fromkeys(entry.host_pattern for entry in http.allowlist)
    hosts = ["any public host" if pattern == ANY_HOST else pattern for pattern in patterns]
    more = f" and {len(hosts) - _MAX_HOSTS} more" if len(hosts) > _MAX_HOSTS else ""
    return ", ".join(hosts[:_MAX_HOSTS]) + more


def _is_always_asking(probe: CallState) -> bool:
    """Return whether every call of a tool requires approval, regardless of its params."""
    try:
        _steps.check_confirmation(probe)
    except Exception:  # the tool decides by its params, so it may not require approval for every call
        return False
    return probe.approval_needed is not None
