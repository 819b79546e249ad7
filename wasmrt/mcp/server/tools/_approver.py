"""Approvals of calls that come over MCP: a form where the client shows one, and always the way past the client.

Nothing here waits for long, and nothing depends on a client's doing what it declares: each request is parked in the
store of approvals, where a person answers it (`wasmrt approvals approve ID`), and the same call, made again, takes the
answer. What a client says of its user is the client's word; the receipt says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from wasmrt.approvals import ApprovalAnswer, ApprovalRequest, ApprovalScope, Parked, ParkedRequests, request_lines
from wasmrt.errors import ApprovalError
from wasmrt.mcp.server.protocol import Caller
from wasmrt.mcp.server.tools._state import State, new_nonce
from wasmrt.policy import ApproverKind

FORM_SECONDS = 50.0
"""For an answer to a form in the older revisions: clients give a whole call about a minute."""
QUEUE_SECONDS = 10.0
"""For an answer in the store to a call that is made again while its request waits."""
MAX_FORMS = 5
"""Questions to a client about one request."""
FORM_KEY = "approval"
_STATE_SECONDS = 600.0
_ONCE, _SESSION, _DENY = "allow once", "allow for this session", "deny"

Elicit = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Sends a form to a client of the older revisions; None where it answered with an error, or went."""


@dataclass(slots=True, kw_only=True)
class ServedCall:
    """One call while it runs: how its client can be asked, and what came of it."""

    caller: Caller
    elicit: Elicit | None = None
    state: State | None = None
    """The state that the client gave back, already checked."""
    said: Any = None
    """The client's answer to the form, in its own words."""
    waiting: Parked | None = None
    """The request that waits for a person, where the call ended without an answer."""
    form: dict[str, Any] | None = None
    """The form to show, for a client of the modern revision."""


current_call: ContextVar[ServedCall | None] = ContextVar("current_call", default=None)


class ServedApprover:
    """Asks the client's form where the configuration takes a client's word, and whoever looks into the store."""

    def __init__(self, parked: ParkedRequests, kind: ApproverKind) -> None:
        self._parked = parked
        self._clients_answer = kind is ApproverKind.AUTO

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer to a request, or after a short while that nobody has answered yet.

        Raises:
            ApprovalError: the request cannot be kept.
        """
        call = current_call.get()
        if call is None:
            return ApprovalAnswer(approved=False, note="the call did not come over MCP")
        parked = await self._parked.park(request)
        if parked.again:
            try:
                if (found := await self._parked.answer(parked)) is not None:
                    return found
            except ApprovalError:  # it was ended meanwhile, by an update of the tool, say
                parked = await self._parked.park(request)
        try:
            answer = await self._asked(call, parked)
        except asyncio.CancelledError:
            await self._parked.withdraw(parked)
            raise
        if answer is None:
            call.waiting = parked
            return ApprovalAnswer(approved=False, note="nobody has answered yet")
        return answer

    async def _asked(self, call: ServedCall, parked: Parked) -> ApprovalAnswer | None:
        if call.state is not None and (call.state.request, call.state.nonce) == (parked.id, parked.nonce):
            parked.nonce = ""  # one answer to one question
            return await self._said(call, parked, call.said)
        if parked.nonce and call.state is None:  # its client was asked before, and made the call again instead
            parked.declined = True
        if self._clients_answer and call.caller.forms and not parked.declined:
            if call.caller.modern:
                self._show_form(call, parked)
                return None
            if call.elicit is not None:
                return await self._elicited(call, call.elicit, parked)
        return await self._parked.answer(parked, seconds=QUEUE_SECONDS if parked.again else 0.0)

    def _show_form(self, call: ServedCall, parked: Parked) -> None:
        """Have the client ask, unless it has come back without an answer too often."""
        parked.asked += 1
        if parked.asked <= MAX_FORMS:
            parked.nonce = new_nonce()
            call.form = form_of(parked.request)

    async def _elicited(self, call: ServedCall, elicit: Elicit, parked: Parked) -> ApprovalAnswer | None:
        """Ask the client and look into the store, whoever answers first; the other is asked no longer."""
        form = asyncio.ensure_future(elicit(form_of(parked.request)))
        store = asyncio.ensure_future(self._parked.answer(parked, seconds=FORM_SECONDS))
        try:
            await asyncio.wait({form, store}, timeout=FORM_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if store.done() and (found := store.result()) is not None:
                return found
            if not form.done():
                parked.declined = True  # the next call does not wait for that client again
                return None
            await _ended(store)
            if store.done() and not store.cancelled() and (found := store.result()) is not None:
                return found
            return await self._said(call, parked, form.result())
        finally:
            await _ended(form)
            await _ended(store)

    async def _said(self, call: ServedCall, parked: Parked, said: Any) -> ApprovalAnswer | None:
        """Return what a client's answer to a form means: an approval, a denial, or that nobody has answered yet.

        A form that was closed or declined is no denial: clients decline by themselves where they cannot show one.
        """
        action = said.get("action") if isinstance(said, dict) else None
        content = said.get("content") if isinstance(said, dict) else None
        chosen = content.get("answer") if isinstance(content, dict) else None
        if action in ("decline", "cancel") or (action != "accept" and not call.caller.modern):
            parked.declined = True
            return None
        by = call.caller.client or "an unnamed client"
        scope = ApprovalScope.SESSION if chosen == _SESSION else ApprovalScope.ONCE
        if action == "accept" and isinstance(chosen, str) and chosen in form_answers(parked.request):
            given = ApprovalAnswer(approved=chosen != _DENY, scope=scope, by=by, way="client")
            return await self._parked.settle(parked, given)
        if call.caller.modern:  # it left out what was asked for, so it is asked again
            self._show_form(call, parked)
        return None


def form_of(request: ApprovalRequest) -> dict[str, Any]:
    """Return the params of an elicitation that shows a request, and asks for one of a few answers."""
    lines, cut = request_lines(request)
    more = [f"wasmrt approvals show {request.id} shows all of it"] if cut else []
    answers = {"type": "string", "title": "Answer", "enum": form_answers(request)}
    return {
        "mode": "form",
        "message": "\n".join([*lines, *more]),
        "requestedSchema": {"type": "object", "properties": {"answer": answers}, "required": ["answer"]},
    }


def form_answers(request: ApprovalRequest) -> list[str]:
    """Return the answers that a form offers."""
    return [_ONCE, *([_SESSION] if request.may_be_remembered and request.trace else []), _DENY]


def waiting_text(parked: Parked) -> str:
    """Return, for a model, that a call waits for a person, and the way on from there."""
    request, minutes = parked.request, max(1, round(parked.seconds_left / 60))
    return (
        f"This call has not run: {request.tool} needs a person's approval, and nobody has given it yet. "
        f"It waits as {request.id} for {minutes} more minute{'s' * (minutes != 1)}. Tell the user to run "
        f"`wasmrt approvals approve {request.id}`{_for_user(request.user)} (or `deny`), and afterwards make the same "
        "call again with the same arguments. Do not approve it yourself."
    )


def access_text(requests: tuple[str, ...], user: str) -> str:
    """Return, for a model, that a call was refused what its tool was not granted, and that a person was asked."""
    first = requests[0]
    return (
        "Not yet: the tool needs something that it was not granted, and a person was asked for it. It waits as "
        f"{' and '.join(requests)}. Tell the user to look at it with `wasmrt approvals show {first}` and to answer "
        f"with `wasmrt approvals approve {first}`{_for_user(user)} (or `deny`), go on with other work, and afterwards "
        "make the same call again with the same arguments. Do not answer it yourself."
    )


def _for_user(user: str) -> str:
    return "" if user == "local" else f" with `--user {user}`"


async def _ended(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})


def state_of(parked: Parked, *, tool: str, params: str) -> State:
    """Return the state that a client gives back with its answer to the form."""
    expires_ms = min(parked.request.expires_ms, round((time.time() + _STATE_SECONDS) * 1000))
    return State(parked.id, parked.nonce, tool, params, parked.request.user, expires_ms)
