"""The tool with which a model proposes a plan."""

from __future__ import annotations

from functools import partial
from typing import Any

from wasmrt.agent.builtin.host_tool import HostTool, Params
from wasmrt.agent.builtin.host_tool import Plan as ProposedChange
from wasmrt.agent.flows import PROPOSE_PLAN, Plan
from wasmrt.agent.registry._services import RegistryServices
from wasmrt.core.errors import ConfigurationError
from wasmrt.runtime.context import ToolContext

_DESCRIPTION = (
    "Ask the user to approve several calls at once: {steps: [{tool, effects, times, params}]}. Each parameter has a "
    "fixed value; a bound ({max: 500}, {matches: '*.example.com'}, {below: 'bills/'}, {text: 200}); or an earlier step "
    "as its source ({from: 'read_file'}, with member for one member of its results, and choice: true if any of several "
    "values may be used). Calls that fit the plan need no further approval."
)


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
