"""Approved plans in the pipeline, and the tool with which a model proposes a plan."""

from __future__ import annotations

from functools import partial
from typing import Any

from wasmrt.agent.builtin.host_tool import HostTool, Params
from wasmrt.agent.builtin.host_tool import Plan as ProposedChange
from wasmrt.agent.flows import PROPOSE_PLAN, Plan, only_transforms
from wasmrt.agent.registry import _flow
from wasmrt.agent.registry._services import RegistryServices
from wasmrt.agent.registry._state import CallState
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Decision, Reason
from wasmrt.runtime.context import ToolContext

_DESCRIPTION = (
    "Ask the user to approve several calls at once: {steps: [{tool, effects, times, params}]}. Each parameter has a "
    "fixed value; a bound ({max: 500}, {matches: '*.example.com'}, {below: 'bills/'}, {text: 200}); or an earlier step "
    "as its source ({from: 'read_file'}, with member for one member of its results). "
    "Calls that fit the plan need no further approval."
)


def find_step(state: CallState) -> Decision | str:
    """Find the step of an approved plan that the call fits. The call is not counted."""
    traces, request = state.services.traces, state.request
    plans, trace = traces.plans(request.user, request.trace), traces.find(request.user, request.trace)
    if plans is None or trace is None or state.registered is None:
        return "the trace has no plan"
    # A call that only reads needs no approval by flow rules, so its values may come from anywhere.
    checked = _flow.is_checked(state)
    described = partial(_flow.find_describing, state)
    state.planned = plans.find(
        state.registered, state.params, state.effects,
        lambda value: checked and trace.is_untrusted(value, lambda each: bool(described(each))),
    )  # fmt: skip
    if state.planned is None:
        return "no plan of the trace covers the call"
    rule = f"{state.planned.name} covers the call, approved by {state.planned.by}"
    return Decision(True, Reason.ALLOWED, rule, None, "tool.plan", state.known.name)


def take(state: CallState) -> bool:
    """Count a call that fits a plan. If its step was used up meanwhile, undo the approval and return False."""
    if state.planned is None:
        return True
    if state.approval_needed is not None:
        state.planned = None  # a person decides about this call
        return True
    plans = state.services.traces.plans(state.request.user, state.request.trace)
    if plans is not None and plans.take(state.planned):
        return True
    state.planned = state.approved_by = None
    return False


def record_result(state: CallState, result: Any) -> None:
    """Add the result of a planned call as a source of values for later steps.

    SECURITY: the result of a tool that only transforms its params is a choice of the model, and no source. Without
    params, there is no choice: such a tool returns the time, for example.
    """
    plans = state.services.traces.plans(state.request.user, state.request.trace)
    chosen = only_transforms(state.effects) and bool(state.params)
    if plans is not None and state.planned is not None and not chosen:
        plans.record(state.planned, state.params, result)


def plan_tool(services: RegistryServices) -> HostTool:
    """Return the tool that proposes a plan. An approver sees the whole plan, and only an approver can approve it."""

    def plan(params: Params) -> ProposedChange:
        proposed = Plan.of(params["plan"])
        services.traces.find_tools(proposed)
        return ProposedChange(proposed.text, partial(_approve, services, proposed))

    tool = HostTool(
        PROPOSE_PLAN, _DESCRIPTION, {"plan": {"type": "object"}}, plan=plan, required=("plan",), in_programs=False
    )
    tool.approval_reason = "the calls that fit this plan will need no further approval"
    return tool


def _approve(services: RegistryServices, plan: Plan, context: ToolContext) -> dict[str, Any]:
    trace = services.traces.get(context.user, context.trace_id)
    if trace is None:
        raise ConfigurationError("plans need an open trace", hint="open it: tools.trace(NAME)")
    # SECURITY: HostTool has checked that an approver of this call saw this plan.
    approval = context.receipt.approval
    if approval is None or not approval.by:
        raise ConfigurationError("the approver of the plan has no name", hint="set `by` in the answer")
    trace.approve_plan(plan, by=approval.by)
    return {"approved": True, "steps": len(plan.steps)}
