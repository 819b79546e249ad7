"""The sender of a request: protocol version, capabilities, progress reports and telemetry."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass, field
from typing import Any

from wasmrt.core.telemetry import STATUS_CODE, TOOL_ERROR, Telemetry
from wasmrt.interop.mcp.server.protocol._wire import (
    INVALID_PARAMS,
    MAX_ID_CHARS,
    UNSUPPORTED_VERSION,
    Request,
    RpcError,
    notification_message,
)

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = PREFIX + "protocolVersion"
CLIENT_KEY = PREFIX + "clientInfo"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
SERVER_KEY = PREFIX + "serverInfo"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"

MODERN = ("2026-07-28",)
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
SUPPORTED = MODERN + LEGACY
_MODERN_METHODS = ("server/discover", "subscriptions/listen")
_MAX_NAME_CHARS = 64
UNNAMED = "an unnamed client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client of one request, as described by the request or by the session's `initialize`."""

    modern: bool
    version: str
    client: str = UNNAMED
    """The client's name and version as it reports them: for display, never for a decision."""
    forms: bool = False
    """True if it declares that it shows forms to its user (elicitation)."""
    urls: bool = False
    """True if it declares that it has its user open addresses (elicitation by URL)."""
    user: str = "local"
    connection: str = ""
    """An ID of the client's connection or session; empty if the transport has neither."""


@dataclass(slots=True)
class Session:
    """A session with a client of the older revisions; it begins with `initialize`."""

    version: str = ""
    client: str = UNNAMED
    forms: bool = False
    urls: bool = False
    listens: bool = False
    """True after `notifications/initialized`: before, the server must not send requests or notifications."""
    ended: bool = False
    """True after the client has disconnected."""

    @property
    def is_open(self) -> bool:
        """True after `initialize`."""
        return bool(self.version)

    def begin(self, params: dict[str, Any]) -> str:
        """Store the parameters of `initialize`, and return the negotiated revision.

        Raises:
            RpcError: a field has a wrong type.
        """
        asked, capabilities = params.get("protocolVersion"), params.get("capabilities", {})
        if not isinstance(asked, str) or not isinstance(capabilities, dict):
            raise RpcError(INVALID_PARAMS, "initialize needs a string protocolVersion and an object capabilities")
        self.version = asked if asked in LEGACY else LEGACY[0]
        self.client = _describe_client(params.get("clientInfo"))
        # Form elicitation was added in 2025-06-18, URL elicitation in 2025-11-25.
        self.forms = self.version >= "2025-06-18" and _declares(capabilities, "form")
        self.urls = self.version >= "2025-11-25" and _declares(capabilities, "url")
        self.listens = False
        return self.version


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection: the user of its calls, and its session in the older revisions."""

    user: str = "local"
    session: Session = field(default_factory=Session)
    can_receive_notifications: bool = True
    """True if the server can send messages outside of a request."""
    transport: str = "pipe"
    """`pipe` or `tcp`, for telemetry."""
    connection: str = field(default_factory=lambda: os.urandom(6).hex())
    """An ID of the connection or session; empty if the transport has neither."""


def begins_session(request: Request) -> bool:
    """Return whether a request starts a session of the older revisions."""
    return request.method == "initialize" and "protocolVersion" in request.params


def is_marked_modern(request: Request) -> bool:
    """Return whether a request is modern by its metadata or method.

    An `initialize` that names a version starts a legacy session, whatever metadata it has.
    """
    if begins_session(request):
        return False
    return bool(request.meta.keys() & {VERSION_KEY, CAPABILITIES_KEY}) or request.method in _MODERN_METHODS


def make_caller(request: Request, peer: Peer) -> Caller:
    """Return the sender of a request, by the rules of the request's protocol revision.

    Raises:
        RpcError: the metadata that modern requests require is missing or invalid (-32602), or names an unknown
            revision (-32022).
    """
    meta = request.meta
    if not is_marked_modern(request):
        if request.method == "initialize":
            return Caller(modern=False, version=LEGACY[0], user=peer.user)
        session = peer.session
        if not session.is_open and request.method != "ping":
            message = f"_meta has no {VERSION_KEY} ({MODERN[0]}), and no session was started with initialize"
            raise RpcError(INVALID_PARAMS, message, {"supported": list(SUPPORTED)})
        spoken = session.version or LEGACY[0]
        return Caller(
            modern=False, version=spoken, client=session.client, forms=session.forms, urls=session.urls,
            user=peer.user, connection=peer.connection,
        )  # fmt: skip
    version, capabilities = meta.get(VERSION_KEY), meta.get(CAPABILITIES_KEY)
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"_meta needs a string {VERSION_KEY}")
    if version not in MODERN:
        data = {"supported": list(SUPPORTED), "requested": version[:_MAX_NAME_CHARS]}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"_meta needs an object {CAPABILITIES_KEY}")
    client = _describe_client(meta.get(CLIENT_KEY))
    forms, urls = _declares(capabilities, "form"), _declares(capabilities, "url")
    return Caller(
        modern=True, version=version, client=client, forms=forms, urls=urls, user=peer.user, connection=peer.connection
    )


def _declares(capabilities: dict[str, Any], mode: str) -> bool:
    """Return whether a client supports an elicitation mode, `form` or `url`; `elicitation: {}` means only forms."""
    declared = capabilities.get("elicitation")
    return isinstance(declared, dict) and isinstance((declared or {"form": {}}).get(mode), dict)


def _describe_client(info: Any) -> str:
    """Return a client's name and version, truncated and as a single line, since the client chose the text."""
    if not isinstance(info, dict):
        return UNNAMED
    parts = [info.get("name"), info.get("version")]
    said = " ".join(part for part in parts if isinstance(part, str))
    return "".join(char for char in said if char.isprintable())[:_MAX_NAME_CHARS].strip() or UNNAMED


MAX_REPORTS = 1000
"""Maximum number of progress messages of one call; further messages are dropped."""
_MAX_MESSAGE_CHARS = 500


class ProgressReport:
    """Sends a tool's progress from any thread to the event loop in which the report was created."""

    def __init__(self, token: str | int, send: Callable[[dict[str, Any]], None]) -> None:
        self._token = token
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._last: float | None = None
        self._left = MAX_REPORTS

    @classmethod
    def of(cls, request: Request, send: Callable[[dict[str, Any]], None]) -> ProgressReport | None:
        """Return the progress report that a request asks for, or None."""
        token = request.meta.get("progressToken")
        if isinstance(token, bool) or not isinstance(token, (str, int)) or len(str(token)) > MAX_ID_CHARS:
            return None
        return cls(token, send)

    def report(self, done: int, total: int | None, message: str | None) -> None:
        """Send the progress if it has increased."""
        try:
            self._loop.call_soon_threadsafe(self._report, done, total, message)
        except RuntimeError:  # the loop is closed
            self._left = 0

    def end(self) -> None:
        """Send no more progress."""
        self._left = 0

    def _report(self, done: float, total: float | None, message: str | None) -> None:
        if self._left <= 0 or (self._last is not None and done <= self._last):
            return
        self._left -= 1
        self._last = done
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = "".join(char for char in message if char.isprintable())[:_MAX_MESSAGE_CHARS]
        self._send(notification_message("notifications/progress", params))


OTHER = "_OTHER"
"""Used in telemetry for unknown methods, since the client chose the name."""


async def call_with_telemetry(
    telemetry: Telemetry, request: Request, peer: Peer, answer: Awaitable[dict[str, Any]], known: Container[str]
) -> dict[str, Any]:
    """Wait for the answer to a request, and record it in telemetry.

    Raises:
        RpcError: the request cannot be answered.
    """
    method = request.method if request.method in known else OTHER
    said = request.meta.get(VERSION_KEY)
    version = said if isinstance(said, str) and said in SUPPORTED else peer.session.version
    operation = telemetry.begin_request(method=method, version=version, transport=peer.transport, meta=request.meta)
    try:
        with operation.current():
            result = await answer
    except RpcError as error:
        operation.note({STATUS_CODE: str(error.code)})
        operation.end(str(error.code))
        raise
    except BaseException as error:
        operation.end("cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__.lower())
        raise
    operation.end(TOOL_ERROR if result.get("isError") is True else None)
    return result
