"""Other tools by alias: the guest never learns what stands behind one."""

from __future__ import annotations

from wasmrt.component import Err, Ok
from wasmrt.context import CallContext
from wasmrt.errors import CapabilityDeniedError, ToolError
from wasmrt.guest.worlds._failure import HostFailure, denied, from_error
from wasmrt.model import Decision, Reason


def agent_invoke(context: CallContext, alias: str, params: str) -> Ok | Err:
    """near:agent's `tool-invoke`."""
    try:
        return Ok(_invoke(context, alias, params))
    except HostFailure as failure:
        return Err(failure.text)


def invoke(context: CallContext, alias: str, params: str) -> Ok | Err:
    """wasmrt:tool's `tools.invoke`."""
    try:
        return Ok(_invoke(context, alias, params))
    except HostFailure as failure:
        return Err(failure.as_failure())


def _invoke(context: CallContext, alias: str, params: str) -> str:
    decision = context.grant.explain_tool(alias)
    if not decision.allowed:
        raise denied(context, decision)
    if context.services.tools is None:
        raise denied(
            context,
            Decision(
                False, Reason.NOT_GRANTED, "this runtime lets no tool call another",
                "prepare the other tool in the same runtime", capability="tool_invoke", subject=alias[:64],
            ),
        )  # fmt: skip
    try:
        return context.services.tools.invoke(context, alias, params)
    except (CapabilityDeniedError, ToolError) as error:
        context.check()  # the caller's own deadline or cancellation is not a failure of the other tool
        raise from_error(context, error) from error
