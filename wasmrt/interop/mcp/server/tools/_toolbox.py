"""List and call the tools of one registry view."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from wasmrt.agent.approvals import ParkedRequests, params_digest
from wasmrt.agent.registry import ToolRegistry, ToolView, clean_text, end_trace, record_event, refuse_call
from wasmrt.core.errors import ApprovalError, InvalidParametersError, WasmrtError
from wasmrt.core.model import Decision, Reason
from wasmrt.interop.mcp.server.protocol import (
    INVALID_PARAMS,
    Caller,
    Channel,
    Peer,
    ProgressReport,
    RecordedError,
    RefusedMessages,
    Request,
    RpcError,
)
from wasmrt.interop.mcp.server.tools._approver import (
    FORM_KEY,
    ServedCall,
    access_text,
    current_call,
    make_state,
    waiting_text,
)
from wasmrt.interop.mcp.server.tools._offer import Offer, Offered, call_result, error_result
from wasmrt.interop.mcp.server.tools._state import Sealer, State
from wasmrt.runtime.audit import EMPTY_RECEIPT

MAX_RUNNING = 32
"""Maximum number of concurrent calls of one user; further calls wait."""
REFUSED = "refused-message"
"""The tool name in receipts of refused messages."""
_MAX_NAME_CHARS = 128
_TRACE_OF_HOSTS = "mcp-hosts"
"""The trace that all hosts with the same store use for clients without a connection or session."""
_NOT_OFFERED = "no tool with this name is offered"
_EXPLAIN = "tools/list names the offered tools; wasmrt policy explain NAME shows why a tool is not offered"
_ANEW = "call the tool again without requestState and inputResponses"
_AS_THE_PROTOCOL = "no setting allows it: the client must follow the protocol"


class ServedTools:
    """Offers the tools of a view; every call goes through the view's pipeline.

    Args:
        view: The tools to offer.
        parked: The pending requests of the clients' calls, if calls can wait for approval.
        state_key: The key of `requestState`, 32 bytes that hosts share; by default a key of this process.
    """

    def __init__(self, view: ToolView, parked: ParkedRequests | None = None, state_key: bytes | None = None) -> None:
        self._view = view
        self._parked = parked
        shared = parked is not None and parked.is_shared
        self._shared_trace = _TRACE_OF_HOSTS if shared else f"mcp-{os.urandom(6).hex()}"
        """The trace of clients without a connection or session."""
        self._sealer = Sealer(state_key)
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(MAX_RUNNING))
        self.offer = Offer(view)

    def refresh(self) -> bool:
        """Read the offered tools again; return whether they changed."""
        offer = Offer(self._view)
        changed, self.offer = offer != self.offer, offer
        return changed

    def page(self, cursor: object, version: str) -> dict[str, Any]:
        """Return the tools after a cursor, and the cursor of the next page, if any.

        Raises:
            RpcError: the cursor is invalid.
        """
        return self.offer.page(cursor, version)

    async def call(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        """Return the result of a call; cancelling ends the tool.

        Raises:
            RpcError: the tool is not offered, the call is malformed, or its requestState is for another call.
        """
        name, arguments = request.params.get("name"), request.params.get("arguments", {})
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "tools/call needs a tool name")
        if not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "arguments must be an object")
        offered = self.offer.find(name)
        if offered is None:
            self._record_refused_call(name, arguments, caller, _NOT_OFFERED, Reason.UNKNOWN_TOOL, _EXPLAIN)
            raise RecordedError(INVALID_PARAMS, f"Unknown tool: {name[:_MAX_NAME_CHARS]}")
        call = ServedCall(caller=caller)
        if not caller.modern:
            call.elicit, call.tell = channel.elicit, channel.tell
        call.state, call.said = self._open_request_state(request, offered, arguments, caller)
        async with self._slots[caller.user]:
            return await self._call(request, offered, arguments, call, channel)

    async def _call(
        self, request: Request, offered: Offered, arguments: dict[str, Any], call: ServedCall, channel: Channel
    ) -> dict[str, Any]:
        progress = ProgressReport.of(request, channel.send)
        token = current_call.set(call)
        try:
            answer = await self._view.aanswer(
                {"id": str(request.id), "name": offered.tool, "arguments": arguments},
                user=call.caller.user, trace=self._trace_of(call.caller.connection), client=call.caller.client,
                on_progress=None if progress is None else progress.report,
            )  # fmt: skip
        finally:
            current_call.reset(token)
            if progress is not None:
                progress.end()
            if channel.peer.session.ended:  # the client disconnected during the call
                await self.disconnected(channel.peer)
        if call.waiting is None and answer.error is not None and answer.access:
            return error_result(access_text(answer.access, call.caller.user))
        if call.waiting is None:
            result = call_result(offered, answer, call.caller, partial(clean_text, self._view))
            if answer.access:
                more = {"type": "text", "text": f"(incomplete: {access_text(answer.access, call.caller.user)})"}
                result["content"] = [*result["content"], more]
            return result
        if call.question is None:
            return error_result(waiting_text(call.waiting))
        state = make_state(call.waiting, tool=offered.tool, params=params_digest(arguments))
        return {
            "resultType": "input_required",
            "inputRequests": {FORM_KEY: {"method": "elicitation/create", "params": call.question}},
            "requestState": self._sealer.seal(state),
        }

    def _open_request_state(
        self, request: Request, offered: Offered, arguments: dict[str, Any], caller: Caller
    ) -> tuple[State | None, Any]:
        """Return the state that a client sent back, after checking its signature and bindings.

        Raises:
            RpcError: a check failed; the call is recorded and does not run.
        """
        given, responses = request.params.get("requestState"), request.params.get("inputResponses")
        if not caller.modern or given is None:
            return None, None
        try:
            if responses is not None and not isinstance(responses, dict):
                raise RpcError(INVALID_PARAMS, "inputResponses must be an object")
            digest = params_digest(arguments)
            state = self._sealer.open(given, tool=offered.tool, params=digest, user=caller.user)
        except RpcError as error:
            self._record_refused_call(offered.tool, arguments, caller, error.message, Reason.APPROVAL_DENIED, _ANEW)
            raise RecordedError(error.code, error.message) from None
        except InvalidParametersError as error:
            raise RpcError(INVALID_PARAMS, error.message) from error
        return state, (responses or {}).get(FORM_KEY, {})

    async def disconnected(self, peer: Peer) -> None:
        """Withdraw the pending requests of a client that has disconnected, and end the access for its session."""
        if not peer.connection:
            return
        trace = self._trace_of(peer.connection)
        with suppress(ApprovalError):  # the requests expire
            if self._parked is not None:
                await self._parked.withdraw_trace(trace)
            await asyncio.to_thread(end_trace, self._view, trace, user=peer.user)

    def _trace_of(self, connection: str) -> str:
        """Return the trace of a client's calls, for receipts, flow rules, and answers for the session."""
        return f"mcp-{connection}" if connection else self._shared_trace

    def refused(self, messages: RefusedMessages) -> None:
        """Write a receipt of messages that were refused before a tool was looked up.

        Raises:
            WasmrtError: the receipt cannot be written.
        """
        count, code = messages.number, str(messages.refusal)
        rule = f"{count:,} message{'s' * (count != 1)} refused: {code}"
        record_event(
            self._view,
            EMPTY_RECEIPT._replace(
                started_ms=messages.first_ms, ended_ms=messages.last_ms, trace_id=self._shared_trace,
                call_id=f"mcp-{os.urandom(8).hex()}", tool=REFUSED, kind="mcp-message", user=messages.user,
                chain=(REFUSED,), outcome=code, decisions_dropped=count - 1,
                decisions=(Decision(False, Reason.MESSAGE_REFUSED, rule, _AS_THE_PROTOCOL, "mcp.message", code),),
            )
        )  # fmt: skip

    def _record_refused_call(
        self, name: str, arguments: dict[str, Any], caller: Caller, rule: str, reason: Reason, hint: str
    ) -> None:
        decision = Decision(False, reason, rule, hint, "mcp.call", name[:_MAX_NAME_CHARS])
        trace = self._trace_of(caller.connection)
        refuse_call(self._view, name, arguments, decision, user=caller.user, trace=trace, client=caller.client)


POLL_SECONDS = 0.5


async def watch(
    tools: ServedTools, registry: ToolRegistry, changed: Callable[[], None], report: Callable[[str], None]
) -> None:
    """Refresh the server's offer when the catalog changes, and call `changed` after each change, until cancelled."""
    installed = registry.installed
    if installed is None:
        return
    seen: tuple[object, ...] = ()  # detect changes since the registry was loaded
    failed = ""
    while True:
        known = dict(registry.problems)
        try:
            trace = await asyncio.to_thread(installed.trace)  # a shared catalog is on another host
            if trace != seen:
                await asyncio.to_thread(installed.refresh)
        except WasmrtError as error:
            if error.message != failed:
                report(f"cannot reload the installed tools: {error.message}")
            failed = error.message
        else:
            failed = ""
            if trace != seen:
                seen = trace
                for name, problem in registry.problems.items():
                    if known.get(name) is not problem:
                        report(f"{name} cannot be used: {problem.message}")
                if tools.refresh():
                    changed()
        await asyncio.sleep(POLL_SECONDS)
