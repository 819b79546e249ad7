"""Approvals of calls over MCP: through the client if it shows forms or pages, and always outside the client.

Nothing here waits for long, and nothing depends on a client's doing what it declares: each request is parked in the
store of approvals, where a person answers it (`wasmrt approvals approve ID`), and the same call, made again, takes the
answer. What a client says of its user is the client's word; the receipt says so. A client that has a page opened says
nothing of an answer: that is given on the page, by the person whose session it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, ApprovalScope, Parked, ParkedRequests, request_lines
from wasmrt.agent.policy import ApproverKind
from wasmrt.core.errors import ApprovalError
from wasmrt.core.limits import APPROVAL_POLL_SECONDS
from wasmrt.interop.mcp.server.protocol import Caller, notification_message
from wasmrt.interop.mcp.server.tools._state import State, new_nonce

FORM_SECONDS = 50.0
"""For an answer to a form in the older revisions: clients give a whole call about a minute."""
QUEUE_SECONDS = 10.0
"""For an answer in the store to a call that is made again while its request waits."""
MAX_FORMS = 5
"""Questions to a client about one request."""
FORM_KEY = "approval"
_STATE_SECONDS = 600.0
_ON_PAGE = "page-"
"""Begins the name of a question that is answered on a page; the state that goes through the client is signed."""
_ONCE, _SESSION, _DENY = "allow once", "allow for this session", "deny"

Elicit = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Asks a client of the older revisions; None where it answered with an error, or went."""
PagesOf = Callable[[str], str | None]
"""From a user to the address of the pages on which that user answers, where they are served now; it ends in `/`."""


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
    question: dict[str, Any] | None = None
    """The form or page to show, for a client of the modern revision."""
    tell: Callable[[dict[str, Any]], None] | None = None
    """Sends a notification to a client of the older revisions."""


current_call: ContextVar[ServedCall | None] = ContextVar("current_call", default=None)


class ServedApprover:
    """Asks the client's user, and any user who answers from the store.

    Args:
        parked: The requests that wait.
        kind: `AUTO` takes a client's word, and so asks by its form; others ask by a page alone.
        pages_of: Finds the pages on which a user answers.
    """

    def __init__(self, parked: ParkedRequests, kind: ApproverKind, pages_of: PagesOf = lambda _: None) -> None:
        self._parked = parked
        self._clients_answer = kind is ApproverKind.AUTO
        self._pages_of = pages_of
        self._watching: set[asyncio.Task[None]] = set()

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer to a request, or after a short wait that it is still pending.

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
            except ApprovalError:  # it has ended since, for example by an update of the tool
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
        question = None if parked.declined else self._question(call.caller, parked.request)
        if question is not None and call.caller.modern:
            self._show(call, parked, question)
            return None
        if question is not None and call.elicit is not None:
            if question["mode"] == "url":
                return await self._opened(call, call.elicit, parked, question)
            return await self._elicited(call, call.elicit, parked, question)
        return await self._parked.answer(parked, seconds=QUEUE_SECONDS if parked.again else 0.0)

    def _question(self, caller: Caller, request: ApprovalRequest) -> dict[str, Any] | None:
        """Return the form for the client's user if the client is trusted to answer, otherwise the request's page."""
        if self._clients_answer and caller.forms:
            return form_of(request)
        pages = self._pages_of(caller.user) if caller.urls else None
        return None if pages is None else page_of(request, pages)

    def _show(self, call: ServedCall, parked: Parked, question: dict[str, Any] | None) -> None:
        """Ask through the client, unless it returned too often without an answer."""
        parked.asked += 1
        if parked.asked <= MAX_FORMS and question is not None:
            parked.nonce = (_ON_PAGE if question["mode"] == "url" else "") + new_nonce()
            call.question = question

    async def _opened(
        self, call: ServedCall, elicit: Elicit, parked: Parked, question: dict[str, Any]
    ) -> ApprovalAnswer | None:
        """Ask the client to open the page, wait for the answer there, and notify the client."""
        name = new_nonce()
        asking = asyncio.ensure_future(elicit(question | {"elicitationId": name}))
        store = asyncio.ensure_future(self._parked.answer(parked, seconds=FORM_SECONDS))
        try:
            await asyncio.wait({asking, store}, return_when=asyncio.FIRST_COMPLETED)
            if not store.done() and _action(asking.result()) == "accept":
                await asyncio.wait({store})  # no longer than its own seconds
            parked.declined = True  # the next call does not wait for that client again
            if store.done() and (found := store.result()) is not None:
                _tell_complete(call, name)
                return found
            if asking.done() and _action(asking.result()) == "accept":
                self._tell_later(call, parked, name)
            return None
        finally:
            await _ended(asking)
            await _ended(store)

    def _tell_later(self, call: ServedCall, parked: Parked, name: str) -> None:
        async def watch() -> None:
            with suppress(ApprovalError):
                while await self._parked.waits(parked):
                    await asyncio.sleep(APPROVAL_POLL_SECONDS)
                if parked.seconds_left > 0:
                    _tell_complete(call, name)

        task = asyncio.ensure_future(watch())
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _elicited(
        self, call: ServedCall, elicit: Elicit, parked: Parked, question: dict[str, Any]
    ) -> ApprovalAnswer | None:
        """Wait for the first answer, from the client or the store, and end the other wait."""
        form = asyncio.ensure_future(elicit(question))
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
        """Return the meaning of a client's response to a form: approval, denial, or still pending.

        A closed or declined form is not a denial: clients decline automatically if they cannot show forms.
        """
        action = _action(said)
        # SECURITY: a client that opened a page confirms only that: any other content is not an answer.
        if call.state is not None and call.state.nonce.startswith(_ON_PAGE) and action == "accept":
            found = await self._parked.answer(parked, seconds=FORM_SECONDS)
            if found is None:
                self._show(call, parked, self._question(call.caller, parked.request))
            return found
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
        if call.caller.modern:  # the response lacks the requested field, so ask again
            self._show(call, parked, self._question(call.caller, parked.request))
        return None


def page_of(request: ApprovalRequest, pages: str) -> dict[str, Any]:
    """Return the params of an elicitation that has the page of a request opened.

    SECURITY: the address goes through the client. It names the request and opens nothing: the page is shown in the
    person's own session alone (2026-07-28, client/elicitation: no address that is authenticated beforehand).
    """
    said = (
        f"{request.tool} needs your approval, as {request.id}. This page shows the call; only your answer there counts."
    )
    return {"mode": "url", "message": said, "url": f"{pages}ask/{request.id}"}


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


def _action(said: Any) -> Any:
    return said.get("action") if isinstance(said, dict) else None


def _tell_complete(call: ServedCall, name: str) -> None:
    if call.tell is not None:
        call.tell(notification_message("notifications/elicitation/complete", {"elicitationId": name}))


async def _ended(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})


def state_of(parked: Parked, *, tool: str, params: str) -> State:
    """Return the state that a client gives back with its answer to the form."""
    expires_ms = min(parked.request.expires_ms, round((time.time() + _STATE_SECONDS) * 1000))
    return State(parked.id, parked.nonce, tool, params, parked.request.user, expires_ms)
