"""Tools that call tools: by alias, under the callee's own grant, within the caller's deadline and budgets."""

from __future__ import annotations

from collections.abc import Callable

from wasmrt.core.errors import CapabilityDeniedError
from wasmrt.core.limits import MAX_INVOKE_DEPTH, MAX_PATH_BYTES, MAX_TOOL_INVOCATIONS
from wasmrt.core.model import Decision, Reason, ToolOutput
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.call._state import Call

Runner = Callable[[str, str, Call], ToolOutput | None]
"""Runs the tool of a name with JSON params, for the call that invokes it; None where no such tool is prepared."""


class Invoker:
    """Resolves an alias of the caller's grant and runs the tool behind it on the same thread."""

    def __init__(self, run: Runner, rates: RateLimiter) -> None:
        self._run = run
        self._rates = rates

    def invoke(self, call: Call, alias: str, params: str) -> str:
        """Run the tool behind `alias` and return its scanned JSON text.

        Raises:
            CapabilityDeniedError: the alias stands for nothing, or a budget, the depth cap or a cycle forbids it.
            ToolError: the other tool failed, or the grant's rate of invocations is spent.
        """
        capability = call.grant.tool_invoke
        real = None if capability is None else capability.resolve(alias)
        if capability is None or real is None:
            raise _denied(call.grant.explain_tool(alias))
        if real in call.tool_chain:
            rule, hint = "the tool is already in the chain of callers", "no setting allows it: have it call another"
            raise _refused(call, alias, Reason.INVOKE_CYCLE, rule, hint)
        if call.may_invoke is not None and (refused := call.may_invoke(real)) is not None:
            raise _denied(refused._replace(capability="tool_invoke", subject=alias[:MAX_PATH_BYTES]))
        if len(call.tool_chain) > MAX_INVOKE_DEPTH:
            rule = f"tools may call each other {MAX_INVOKE_DEPTH} deep"
            raise _refused(call, alias, Reason.INVOKE_DEPTH, rule, "no setting raises it: have fewer tools in between")
        if not call.charge_tool_invocation():
            rule = f"a call may invoke {MAX_TOOL_INVOCATIONS} tools"
            raise _refused(call, alias, Reason.INVOKE_BUDGET, rule, "no setting raises it: do more with each")
        self._rates.check_and_record(call.user, call.tool, capability.rate_limit, what="invoke")
        output = self._run(real, params, call)
        if output is None:
            hint = "install the tool that the grant names for it; in Python, prepare it in this runtime"
            raise _refused(call, alias, Reason.NOT_FOUND, "the tool behind this alias is not ready", hint)
        return output.raw or "null"


def _refused(call: Call, alias: str, reason: Reason, rule: str, hint: str) -> CapabilityDeniedError:
    return _denied(Decision(False, reason, rule, hint, "tool_invoke", alias[:MAX_PATH_BYTES]))


def _denied(decision: Decision) -> CapabilityDeniedError:
    return CapabilityDeniedError(f"the tool may not be invoked: {decision.rule}", decision=decision)
