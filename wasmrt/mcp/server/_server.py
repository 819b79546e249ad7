"""The server, whatever carries its messages: each request is answered from what it says itself, in its own era."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from wasmrt.approvals import params_digest
from wasmrt.errors import InvalidParametersError
from wasmrt.mcp.server._approver import FORM_KEY, ServedCall, current_call, state_of, waiting_text
from wasmrt.mcp.server._caller import SERVER_KEY, SUBSCRIPTION_KEY, SUPPORTED, Caller, Peer, caller_of
from wasmrt.mcp.server._content import call_result, error_result
from wasmrt.mcp.server._offer import Offer, Offered
from wasmrt.mcp.server._progress import ProgressReport
from wasmrt.mcp.server._state import Sealer, State
from wasmrt.mcp.server._wire import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    Notification,
    Request,
    RpcError,
    notification_message,
)
from wasmrt.model import Decision, Reason
from wasmrt.tools import ToolView

INSTRUCTIONS = (
    "Tools that run in a sandbox under their operator's policy. A call that needs a person's approval may end with an "
    "error that names a request: tell the user, and make the same call again once it is approved."
)
_MAX_NAME_CHARS = 128
MAX_SUBSCRIPTIONS = 16
"""Of one peer."""


class Channel(Protocol):
    """The way back to the client of one request."""

    peer: Peer

    def send(self, message: dict[str, Any]) -> None:
        """Send a message that belongs to the request; nothing after the request has ended."""

    async def elicit(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """Have a client of the older revisions show a form; None where it cannot be had, or fails."""


@dataclass(slots=True)
class _Listener:
    """A stream that wants to hear of changes."""

    peer: Peer
    changed: Callable[[], None]


class Server:
    """Offers the tools of a view to clients of both eras, any number of them at once.

    Args:
        view: Its tools are offered, and every call goes through its pipeline.
        name: The server's name.
        version: Its version.
        trace: The conversation that calls belong to, for receipts and for what is remembered for a session.
    """

    def __init__(self, view: ToolView, *, name: str = "wasmrt", version: str = "", trace: str = "") -> None:
        self._view = view
        self._info = {"name": name, "title": "wasmrt", "version": version}
        self._trace = trace
        self._sealer = Sealer()
        self._listeners: list[_Listener] = []
        self._closing = False
        self.offer = Offer(view)
        self._methods: dict[str, tuple[str, Callable[[Request, Caller, Channel], Awaitable[dict[str, Any]]]]] = {
            "server/discover": ("modern", self._discover),
            "subscriptions/listen": ("modern", self._listen),
            "initialize": ("legacy", self._initialize),
            "ping": ("legacy", self._ping),
            "tools/list": ("both", self._list_tools),
            "tools/call": ("both", self._call_tool),
        }

    def refresh(self) -> bool:
        """Look again at what is to be offered, and tell those who listen; return whether it changed."""
        offer = Offer(self._view)
        if offer == self.offer:
            return False
        self.offer = offer
        for listener in list(self._listeners):
            listener.changed()
        return True

    def listen(self, peer: Peer, changed: Callable[[], None]) -> Callable[[], None]:
        """Have `changed` called after each change of the list; the function that is returned ends it."""
        listener = _Listener(peer, changed)
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def close(self) -> None:
        """End every subscription, each with a result."""
        self._closing = True
        for listener in list(self._listeners):
            listener.changed()

    async def answer(self, request: Request, channel: Channel) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            RpcError: the request cannot be answered.
        """
        caller = caller_of(request, channel.peer)
        era, method = self._methods.get(request.method, ("", None))
        if method is None or era not in ("both", "modern" if caller.modern else "legacy"):
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {request.method[:_MAX_NAME_CHARS]!r}")
        result = await method(request, caller, channel)
        if not caller.modern:
            return result
        result.setdefault("resultType", "complete")
        result.setdefault("_meta", {})[SERVER_KEY] = self._info
        return result

    def note(self, notification: Notification, peer: Peer) -> None:
        """Take a notification that ends no request; one that is not known says nothing to this server."""
        if notification.method == "notifications/initialized" and peer.session.is_open:
            peer.session.listens = True

    # -- methods ---------------------------------------------------------------------------------------------------

    async def _discover(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        return {
            "supportedVersions": list(SUPPORTED),
            "capabilities": {"tools": {"listChanged": True}},
            "instructions": INSTRUCTIONS,
            "ttlMs": 0,
            "cacheScope": "private",
        }

    async def _initialize(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        version = channel.peer.session.begin(request.params)
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": self._info,
            "instructions": INSTRUCTIONS,
        }

    async def _ping(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        return {}

    async def _list_tools(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        page = self.offer.page(request.params.get("cursor"), caller.version)
        return page | {"ttlMs": 0, "cacheScope": "private"} if caller.modern else page

    async def _listen(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        """Tell of changes until the client ends the request; what is asked for and not served is left out."""
        wanted = request.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(INVALID_PARAMS, "subscriptions/listen needs notifications, an object")
        if sum(listener.peer is channel.peer for listener in self._listeners) >= MAX_SUBSCRIPTIONS:
            raise RpcError(INVALID_PARAMS, f"{MAX_SUBSCRIPTIONS} subscriptions are open already")
        meta = {SUBSCRIPTION_KEY: request.id}
        honored = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        changes = asyncio.Event()
        end = self.listen(channel.peer, changes.set)
        try:
            channel.send(_stamped("notifications/subscriptions/acknowledged", {"notifications": honored}, meta))
            while not self._closing:
                await changes.wait()
                changes.clear()
                if honored and not self._closing:
                    channel.send(_stamped("notifications/tools/list_changed", {}, meta))
            return {"_meta": dict(meta)}
        finally:
            end()

    async def _call_tool(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        name, arguments = request.params.get("name"), request.params.get("arguments", {})
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "tools/call needs the name of a tool")
        if not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "the arguments of a tool are an object")
        offered = self.offer.find(name)
        if offered is None:
            self._refuse(name, arguments, caller, "no tool of this name is offered", Reason.UNKNOWN_TOOL)
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name[:_MAX_NAME_CHARS]}")
        call = ServedCall(caller=caller, elicit=None if caller.modern else channel.elicit)
        call.state, call.said = self._given_back(request, offered, arguments, caller)
        progress = ProgressReport.of(request, channel.send)
        token = current_call.set(call)
        try:
            answer = await self._view.aanswer(
                {"id": str(request.id), "name": offered.tool, "arguments": arguments},
                user=caller.user, trace=self._trace, on_progress=None if progress is None else progress.report,
            )  # fmt: skip
        finally:
            current_call.reset(token)
            if progress is not None:
                progress.end()
        if call.waiting is None:
            return call_result(offered, answer, caller, self._view.clean)
        if call.form is None:
            return error_result(waiting_text(call.waiting))
        state = state_of(call.waiting, tool=offered.tool, params=params_digest(arguments))
        return {
            "resultType": "input_required",
            "inputRequests": {FORM_KEY: {"method": "elicitation/create", "params": call.form}},
            "requestState": self._sealer.seal(state),
        }

    def _given_back(
        self, request: Request, offered: Offered, arguments: dict[str, Any], caller: Caller
    ) -> tuple[State | None, Any]:
        """Return the state that a client gave back with its answer, once the seal and all that it is bound to hold.

        Raises:
            RpcError: they do not; the call leaves a receipt, and does not run.
        """
        given, responses = request.params.get("requestState"), request.params.get("inputResponses")
        if not caller.modern or given is None:
            return None, None
        try:
            if responses is not None and not isinstance(responses, dict):
                raise RpcError(INVALID_PARAMS, "inputResponses are an object")
            digest = params_digest(arguments)
            state = self._sealer.open(given, tool=offered.tool, params=digest, user=caller.user)
        except RpcError as error:
            self._refuse(offered.tool, arguments, caller, error.message, Reason.APPROVAL_DENIED)
            raise
        except InvalidParametersError as error:
            raise RpcError(INVALID_PARAMS, error.message) from error
        return state, (responses or {}).get(FORM_KEY, {})

    def _refuse(self, name: str, arguments: dict[str, Any], caller: Caller, rule: str, reason: Reason) -> None:
        decision = Decision(False, reason, rule, None, "mcp.call", name[:_MAX_NAME_CHARS])
        self._view.refuse(name, arguments, decision, user=caller.user, trace=self._trace)


def _stamped(method: str, params: dict[str, Any], meta: dict[str, Id]) -> dict[str, Any]:
    return notification_message(method, params | {"_meta": meta})
