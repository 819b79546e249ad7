"""The server, independent of the transport: it answers each request by the rules of its protocol revision."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from wasmrt.core.telemetry import Telemetry
from wasmrt.interop.mcp.server.protocol._caller import (
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    SUPPORTED,
    Caller,
    Peer,
    call_with_telemetry,
    make_caller,
)
from wasmrt.interop.mcp.server.protocol._refusals import OF_CODE, Refusals, RefusedMessages
from wasmrt.interop.mcp.server.protocol._wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    Notification,
    RecordedError,
    Request,
    RpcError,
    notification_message,
)

INSTRUCTIONS = (
    "Tools that run in a sandbox under their operator's policy. A call that requires approval may end with an "
    "error that names a request: tell the user, and make the same call again once it is approved."
)
MAX_SUBSCRIPTIONS = 16
"""Maximum number of subscriptions of a user."""
_MAX_NAME_CHARS = 128


class Channel(Protocol):
    """The channel to the client of one request."""

    @property
    def peer(self) -> Peer:
        """The other end of the connection."""

    def send(self, message: dict[str, Any]) -> None:
        """Send a message that belongs to the request. Does nothing if the request has ended."""

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message of an older client's session, also after the request has ended if the transport can."""

    async def elicit(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """Ask the user of a client of the older revisions; None if that is unsupported or fails."""


class Toolbox(Protocol):
    """The tools that a server offers."""

    def page(self, cursor: object, version: str) -> dict[str, Any]:
        """Return the tools behind a cursor, and the cursor of the next page, if any.

        Raises:
            RpcError: the cursor is invalid.
        """

    async def call(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        """Return the result of a call; cancelling ends the tool.

        Raises:
            RpcError: the tool is not offered, or the call is malformed.
        """

    async def disconnected(self, peer: Peer) -> None:
        """Withdraw the pending requests of a client that has disconnected."""

    def refused(self, messages: RefusedMessages) -> None:
        """Write a receipt of messages that were refused.

        Raises:
            WasmrtError: the receipt cannot be written.
        """


Method = Callable[[Request, Caller, Channel], Awaitable[dict[str, Any]]]


class Server:
    """Answers any number of clients, of revisions with and without sessions, in one event loop.

    Requests that need no tools are answered at once; others wait for `open`.

    Args:
        name: The server's name.
        version: The server's version.
    """

    def __init__(self, *, name: str = "wasmrt", version: str = "") -> None:
        self._info = {"name": name, "title": "wasmrt", "version": version}
        self._tools: asyncio.Future[Toolbox] = asyncio.get_running_loop().create_future()
        self._listeners: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()
        self._subscribed: Counter[str] = Counter()
        self._closing = self._draining = False
        self._telemetry: Telemetry | None = None
        self.refusals = Refusals()
        """The refused messages of all clients."""
        self._methods: dict[str, tuple[str, Method]] = {
            "server/discover": ("modern", self._discover),
            "subscriptions/listen": ("modern", self._listen),
            "initialize": ("legacy", self._initialize),
            "ping": ("legacy", self._ping),
            "tools/list": ("both", self._list_tools),
            "tools/call": ("both", self._call_tool),
        }

    def open(self, tools: Toolbox, telemetry: Telemetry | None = None) -> None:
        """Serve these tools from now on, with telemetry if given."""
        if not self._tools.done():
            self._tools.set_result(tools)
            self._telemetry = telemetry
            self.refusals.open(tools.refused)

    @property
    def is_ready(self) -> bool:
        """True if the tools are available, and the server is not going to close."""
        return self._tools.done() and self._tools.exception() is None and not (self._closing or self._draining)

    async def opened(self) -> None:
        """Wait until tools are available, or loading them has failed."""
        await asyncio.wait({self._tools})

    def fail(self) -> None:
        """Answer requests that wait for tools with an error: loading the tools has failed."""
        if not self._tools.done():
            self._tools.set_exception(RpcError(INTERNAL_ERROR, "the tools of this server cannot be used"))
            self._tools.exception()  # the result may be unused

    def tools_changed(self) -> None:
        """Notify all listeners that the list of tools has changed."""
        for changed in list(self._listeners.values()):
            changed()

    def drain(self) -> None:
        """Report that the server is not ready, so that balancers send new requests to other servers."""
        self._draining = True

    def close(self) -> None:
        """End all subscriptions, and write the receipts of refused messages."""
        self._closing = True
        self.tools_changed()
        self.refusals.flush()

    async def disconnected(self, peer: Peer) -> None:
        """Withdraw the pending requests of a client that has disconnected, also those of calls that still run."""
        peer.session.ended = True
        if self._tools.done() and self._tools.exception() is None:
            await self._tools.result().disconnected(peer)

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of the list, until the returned function is called."""
        number = next(self._numbers)
        self._listeners[number] = changed

        def end() -> None:
            self._listeners.pop(number, None)

        return end

    async def answer(self, request: Request, channel: Channel) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            RpcError: the request cannot be answered; it is counted as refused.
        """
        try:
            return await self._attempt(request, channel)
        except RpcError as error:
            self.refused(error, channel.peer.user)
            raise

    def refused(self, error: RpcError, user: str) -> None:
        """Count a message that was refused with an error, unless its receipt is already written."""
        refusal = OF_CODE.get(error.code)
        if refusal is not None and not isinstance(error, RecordedError):
            self.refusals.note(refusal, user)

    async def _attempt(self, request: Request, channel: Channel) -> dict[str, Any]:
        if request.method == "tools/call" and not self._tools.done():
            make_caller(request, channel.peer)  # malformed requests are answered at once
            await self._wait_for_tools()
        if self._telemetry is None or request.method == "subscriptions/listen":  # subscriptions last arbitrarily long
            return await self._answer(request, channel)
        return await call_with_telemetry(
            self._telemetry, request, channel.peer, self._answer(request, channel), self._methods
        )

    async def _answer(self, request: Request, channel: Channel) -> dict[str, Any]:
        caller = make_caller(request, channel.peer)
        era, method = self._methods.get(request.method, ("", None))
        if method is None or era not in ("both", "modern" if caller.modern else "legacy"):
            raise RpcError(METHOD_NOT_FOUND, f"unknown method {request.method[:_MAX_NAME_CHARS]!r}")
        result = await method(request, caller, channel)
        if not caller.modern:
            return result
        result.setdefault("resultType", "complete")
        result.setdefault("_meta", {})[SERVER_KEY] = self._info
        return result

    def note(self, notification: Notification, peer: Peer) -> None:
        """Handle a notification other than a cancellation; ignore unknown ones."""
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
            "capabilities": {"tools": {"listChanged": channel.peer.can_receive_notifications}},
            "serverInfo": self._info,
            "instructions": INSTRUCTIONS,
        }

    async def _ping(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        return {}

    async def _list_tools(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        page = (await self._wait_for_tools()).page(request.params.get("cursor"), caller.version)
        return page | {"ttlMs": 0, "cacheScope": "private"} if caller.modern else page

    async def _call_tool(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        return await (await self._wait_for_tools()).call(request, caller, channel)

    async def _wait_for_tools(self) -> Toolbox:
        # Shielded: cancelling one request must not cancel the loading that others wait for.
        return self._tools.result() if self._tools.done() else await asyncio.shield(self._tools)

    async def _listen(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        """Send notifications of changes until the client ends the request; omit unsupported kinds."""
        wanted = request.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(INVALID_PARAMS, "subscriptions/listen needs an object notifications")
        user = channel.peer.user
        if self._subscribed[user] >= MAX_SUBSCRIPTIONS:
            raise RpcError(INVALID_PARAMS, f"{MAX_SUBSCRIPTIONS} subscriptions are already open")
        meta = {SUBSCRIPTION_KEY: request.id}
        honored = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        changes = asyncio.Event()
        end = self.listen(changes.set)
        self._subscribed[user] += 1
        try:
            channel.send(_with_meta("notifications/subscriptions/acknowledged", {"notifications": honored}, meta))
            while not self._closing:
                await changes.wait()
                changes.clear()
                if honored and not self._closing:
                    channel.send(_with_meta("notifications/tools/list_changed", {}, meta))
            return {"_meta": dict(meta)}
        finally:
            end()
            self._subscribed[user] -= 1


def _with_meta(method: str, params: dict[str, Any], meta: dict[str, Id]) -> dict[str, Any]:
    return notification_message(method, params | {"_meta": meta})
