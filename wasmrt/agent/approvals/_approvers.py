"""Approvers that need no terminal: the one that denies, and the one that asks a function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest
from wasmrt.agent.approvals._thread import in_own_thread

Given = ApprovalAnswer | bool


class DenyApprover:
    """Denies everything: where nobody can be asked, nobody approves."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Deny the request."""
        return ApprovalAnswer(approved=False, note="nobody is here to be asked")


class CallbackApprover:
    """Asks a function, which returns an answer, or True or False for this one call.

    A plain function runs in a thread of its own; a coroutine function is cancelled when the request is withdrawn.

    Example:
        >>> from wasmrt import ApprovalAnswer, CallbackApprover
        >>> approver = CallbackApprover(lambda request: ApprovalAnswer(approved=request.tool == "search", by="ann"))
    """

    def __init__(self, function: Callable[[ApprovalRequest], Given | Awaitable[Given]]) -> None:
        self._function = function

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return what the function answers."""
        if inspect.iscoroutinefunction(self._function):
            answer = await self._function(request)
        else:
            answer = await in_own_thread(self._function, request)
            if inspect.isawaitable(answer):
                answer = await answer
        return answer if isinstance(answer, ApprovalAnswer) else ApprovalAnswer(approved=answer)
