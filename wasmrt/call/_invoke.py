"""Tools that call tools: by alias, under the callee's own grant, within the caller's deadline and budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wasmrt.call._call import Asked
from wasmrt.context import CallContext
from wasmrt.errors import CapabilityDeniedError
from wasmrt.limits import MAX_INVOKE_DEPTH, MAX_TOOL_INVOCATIONS
from wasmrt.model import Decision, Reason, ToolOutput

if TYPE_CHECKING:
    from wasmrt.rates import RateLimiter

    Runner = Callable[[str, Asked], ToolOutput | None]


class Invoker:
    """Resolves an alias of the caller's grant and runs the tool behind it on the same thread.

    `run` takes the real name and the request; None says that no such tool is prepared.
    """

    def __init__(self, run: Runner, rates: Callable[[], RateLimiter]) -> None:
        self._run = run
        self._rates = rates

    def invoke(self, context: CallContext, alias: str, params: str) -> str:
        """Run the tool behind `alias` and return its scanned JSON text.

        Raises:
            CapabilityDeniedError: the alias stands for nothing, or a budget, the depth cap or a cycle forbids it.
            ToolError: the other tool failed, or the grant's rate of invocations is spent.
        """
        capability = context.grant.tool_invoke
        real = capability.resolve(alias) if capability is not None else None
        if real is None:
            raise _refused(context, alias, Reason.ALIAS_NOT_ALLOWED, "no tool is granted under this alias", None)
        if real in context.tool_chain:
            raise _refused(context, alias, Reason.INVOKE_CYCLE, "the tool is already in the chain of callers", None)
        if len(context.tool_chain) > MAX_INVOKE_DEPTH:
            rule = f"tools may call each other {MAX_INVOKE_DEPTH} deep"
            raise _refused(context, alias, Reason.INVOKE_DEPTH, rule, None)
        if not context.charge_tool_invocation():
            rule = f"a call may invoke {MAX_TOOL_INVOCATIONS} tools"
            raise _refused(context, alias, Reason.INVOKE_BUDGET, rule, "have the tool do more with each invocation")
        assert capability is not None
        self._rates().check_and_record(context.user, context.tool, capability.rate_limit, what="invoke")
        output = self._run(real, Asked(params, user=context.user, parent=context))
        if output is None:
            hint = "install the tool that the grant names for it; in Python, prepare it in this runtime"
            raise _refused(context, alias, Reason.NOT_FOUND, "the tool behind this alias is not ready", hint)
        return output.raw or "null"


def _refused(context: CallContext, alias: str, reason: Reason, rule: str, hint: str | None) -> CapabilityDeniedError:
    decision = Decision(False, reason, rule, hint, "tool_invoke", alias[:64])
    return CapabilityDeniedError(f"tool {alias[:64]!r} may not be invoked: {rule}", decision=decision)
