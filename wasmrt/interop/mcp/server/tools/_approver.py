"""Approvals of calls over MCP: through the client if it shows forms or pages, and always outside the client.

Calls wait only briefly, and do not depend on the client behaving as it declares: each request is stored in the approval
store, where a user answers it (`wasmrt approvals approve ID`), and repeating the call then uses the answer. If the
client reports its user's answer, the receipt records that it came through the client. If a client opens a page, the
user answers on that page, in the user's own session.
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
"""Seconds to wait for a form's response in the older revisions: clients limit a whole call to about a minute."""
QUEUE_SECONDS = 10.0
"""Seconds to wait for an answer in the store if a call is repeated while its request is pending."""
MAX_FORMS = 5
"""Maximum number of questions to a client about one request."""
FORM_KEY = "approval"
_STATE_SECONDS = 600.0
_ON_PAGE = "page-"
"""Prefix of the nonces of questions that are answered on a page; the state sent through the client is signed."""
_ONCE, _SESSION, _DENY = "allow once", "allow for this session", "deny"

Elicit = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Asks a client of the older revisions; returns None if it answered with an error or disconnected."""
PagesOf = Callable[[str], str | None]
"""Maps a user to the address of the pages where that user answers, ending in `/`, or None if no pages are served."""


@dataclass(slots=True, kw_only=True)
class ServedCall:
    """A running call: how to ask its client, and the outcome."""

    caller: Caller
    elicit: Elicit | None = None
    state: State | None = None
    """The verified state that the client sent back."""
    said: Any = None
    """The client's unverified response to the form."""
    waiting: Parked | None = None
    """The pending request, if the call ended without an answer."""
    question: dict[str, Any] | None = None
    """The form or page to show, for clients of the modern revision."""
    tell: Callable[[dict[str, Any]], None] | None = None
    """Sends a notification to clients of the older revisions."""


current_call: ContextVar[ServedCall | None] = ContextVar("current_call", default=None)


class ServedApprover:
    """Asks the client's user, and accepts answers from the approval store.

    Args:
        parked: The pending requests.
        kind: `AUTO` accepts answers through the client's form; other kinds only ask the client to open a page.
        pages_of: Finds the pages on which a user answers.
    """

    def __init__(self, parked: ParkedRequests, kind: ApproverKind, pages_of: PagesOf = lambda _: None) -> None:
        self._parked = parked
        self._clients_answer = kind is ApproverKind.AUTO
        self._find_pages = pages_of
        self._watching: set[asyncio.Task[None]] = set()

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer to a request, or, after a short wait, that it is still pending.

        Raises:
            ApprovalError: the request cannot be stored.
        """
        call = current_call.get()
        if call is None:
            return ApprovalAnswer(approved=False, note="the call was not made over MCP")
        parked = await self._parked.park(request, call.caller.connection)
        if parked.again:
            try:
                if (found := await self._parked.answer(parked)) is not None:
                    return found
            except ApprovalError:  # the request has ended, for example because the tool was updated
                parked = await self._parked.park(request, call.caller.connection)
        try:
            answer = await self._ask(call, parked)
        except asyncio.CancelledError:
            await self._parked.withdraw(parked)
            raise
        if answer is None:
            call.waiting = parked
            return ApprovalAnswer(approved=False, note="the request is still pending")
        return answer

    async def _ask(self, call: ServedCall, parked: Parked) -> ApprovalAnswer | None:
        if call.state is not None and call.state.request == parked.id and parked.expects(call.state.nonce):
            parked.nonce, parked.elsewhere = "", False  # each question accepts one answer
            return await self._read_response(call, parked, call.said)
        if parked.nonce and call.state is None:  # the client was asked, and repeated the call instead of answering
            parked.declined = True
        question = None if parked.declined else self._question(call.caller, parked.request)
        if question is not None and call.caller.modern:
            self._show(call, parked, question)
            return None
        if question is not None and call.elicit is not None:
            if question["mode"] == "url":
                return await self._ask_to_open(call, call.elicit, parked, question)
            return await self._elicit(call, call.elicit, parked, question)
        return await self._parked.answer(parked, seconds=QUEUE_SECONDS if parked.again else 0.0)

    def _question(self, caller: Caller, request: ApprovalRequest) -> dict[str, Any] | None:
        """Return the form for the client's user if the client is trusted to answer, otherwise the request's page."""
        if self._clients_answer and caller.forms:
            return make_form_elicitation(request)
        pages = self._find_pages(caller.user) if caller.urls else None
        return None if pages is None else make_page_elicitation(request, pages)

    def _show(self, call: ServedCall, parked: Parked, question: dict[str, Any] | None) -> None:
        """Ask through the client, unless it was asked too often without an answer."""
        parked.asked += 1
        if parked.asked <= MAX_FORMS and question is not None:
            parked.nonce = (_ON_PAGE if question["mode"] == "url" else "") + new_nonce()
            call.question = question

    async def _ask_to_open(
        self, call: ServedCall, elicit: Elicit, parked: Parked, question: dict[str, Any]
    ) -> ApprovalAnswer | None:
        """Ask the client to open the page, wait for the answer there, and notify the client."""
        name = new_nonce()
        asking = asyncio.ensure_future(elicit(question | {"elicitationId": name}))
        store = asyncio.ensure_future(self._parked.answer(parked, seconds=FORM_SECONDS))
        try:
            await asyncio.wait({asking, store}, return_when=asyncio.FIRST_COMPLETED)
            if not store.done() and _get_action(asking.result()) == "accept":
                await asyncio.wait({store})  # limited by its own timeout
            parked.declined = True  # do not wait for this client again
            if store.done() and (found := store.result()) is not None:
                _tell_complete(call, name)
                return found
            if asking.done() and _get_action(asking.result()) == "accept":
                self._tell_later(call, parked, name)
            return None
        finally:
            await _cancel(asking)
            await _cancel(store)

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

    async def _elicit(
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
                parked.declined = True  # do not wait for this client again
                return None
            await _cancel(store)
            if store.done() and not store.cancelled() and (found := store.result()) is not None:
                return found
            return await self._read_response(call, parked, form.result())
        finally:
            await _cancel(form)
            await _cancel(store)

    async def _read_response(self, call: ServedCall, parked: Parked, said: Any) -> ApprovalAnswer | None:
        """Return the meaning of a client's response to a form: approval, denial, or still pending.

        A closed or declined form is not a denial: clients decline automatically if they cannot show forms.
        """
        action = _get_action(said)
        # SECURITY: a client that opened a page only confirms that; any other content is not an answer.
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
        scope = ApprovalScope.SESSION if chosen == _SESSION else ApprovalScope.ONCE
        if action == "accept" and isinstance(chosen, str) and chosen in form_answers(parked.request):
            given = ApprovalAnswer(approved=chosen != _DENY, scope=scope, by=call.caller.client, way="client")
            return await self._parked.settle(parked, given)
        if call.caller.modern:  # the response lacks the requested field, so ask again
            self._show(call, parked, self._question(call.caller, parked.request))
        return None


def make_page_elicitation(request: ApprovalRequest, pages: str) -> dict[str, Any]:
    """Return the params of an elicitation that opens the page of a request.

    SECURITY: the address passes through the client. It names the request, but grants no access: the page opens only
    in the user's own session (2026-07-28, client/elicitation: no pre-authenticated addresses).
    """
    said = f"{request.tool} needs your approval ({request.id}). This page shows the call; answer it there."
    return {"mode": "url", "message": said, "url": f"{pages}ask/{request.id}"}


def make_form_elicitation(request: ApprovalRequest) -> dict[str, Any]:
    """Return the params of an elicitation that shows a request and offers a few answers."""
    lines, cut = request_lines(request)
    more = []
    if cut:
        more = [
            "",
            "The request is longer than this form, which therefore only offers to deny it. To see all of it and to",
            f"approve it, run: wasmrt approvals show {request.id}; then: wasmrt approvals approve {request.id}",
        ]
    answers = {"type": "string", "title": "Answer", "enum": form_answers(request)}
    return {
        "mode": "form",
        "message": "\n".join([*lines, *more]),
        "requestedSchema": {"type": "object", "properties": {"answer": answers}, "required": ["answer"]},
    }


def form_answers(request: ApprovalRequest) -> list[str]:
    """Return the answers that a form offers.

    SECURITY: a request that the form does not show completely cannot be approved there, as in the terminal.
    """
    if request_lines(request)[1]:
        return [_DENY]
    return [_ONCE, *([_SESSION] if request.may_be_remembered and request.trace else []), _DENY]


def waiting_text(parked: Parked) -> str:
    """Return the text that reports a pending approval to a model, with the next steps."""
    request, minutes = parked.request, max(1, round(parked.seconds_left / 60))
    return (
        f"This call has not run: {request.tool} requires a user's approval, which is still pending. "
        f"The request {request.id} is valid for {minutes} more minute{'s' * (minutes != 1)}. Tell the user to run "
        f"`wasmrt approvals approve {request.id}`{_for_user(request.user)} (or `deny`), and afterwards make the same "
        "call again with the same arguments. Do not approve it yourself."
    )


def access_text(requests: tuple[str, ...], user: str) -> str:
    """Return the text that reports a pending access request to a model, with the next steps."""
    first = requests[0]
    return (
        "Access is pending: the tool needs access that it was not granted, and the user has received a request for it: "
        f"{' and '.join(requests)}. Tell the user to review it with `wasmrt approvals show {first}` and to answer it "
        f"with `wasmrt approvals approve {first}`{_for_user(user)} (or `deny`), go on with other work, and afterwards "
        "make the same call again with the same arguments. Do not answer it yourself."
    )


def _for_user(user: str) -> str:
    return "" if user == "local" else f" with `--user {user}`"


def _get_action(said: Any) -> Any:
    return said.get("action") if isinstance(said, dict) else None


def _tell_complete(call: ServedCall, name: str) -> None:
    if call.tell is not None:
        call.tell(notification_message("notifications/elicitation/complete", {"elicitationId": name}))


async def _cancel(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})


def make_state(parked: Parked, *, tool: str, params: str) -> State:
    """Return the state that a client sends back with its answer to the form."""
    expires_ms = min(parked.request.expires_ms, round((time.time() + _STATE_SECONDS) * 1000))
    return State(parked.id, parked.nonce, tool, params, parked.request.user, expires_ms)
