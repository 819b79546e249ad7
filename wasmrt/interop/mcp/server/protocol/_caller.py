"""The sender of a request: protocol version, capabilities, progress reports and telemetry."""

from __future__ import annotations

import asyncio
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client of one request, as the request itself or the session's `initialize` says."""

    modern: bool
    version: str
    client: str = ""
    """Its name and version, in its own words: for people, never for a decision."""
    forms: bool = False
    """True where it says that it shows forms to a person (elicitation)."""
    urls: bool = False
    """True where it says that it has a person open addresses (elicitation by URL)."""
    user: str = "local"


@dataclass(slots=True)
class Session:
    """The session of a client of the older revisions, which begins with `initialize`."""

    version: str = ""
    client: str = ""
    forms: bool = False
    urls: bool = False
    listens: bool = False
    """True from `notifications/initialized` on: only then may the server speak unasked."""

    @property
    def is_open(self) -> bool:
        """True after `initialize`."""
        return bool(self.version)

    def begin(self, params: dict[str, Any]) -> str:
        """Store the parameters of `initialize`, and return the negotiated revision.

        Raises:
            RpcError: a field has another type than it must.
        """
        asked, capabilities = params.get("protocolVersion"), params.get("capabilities", {})
        if not isinstance(asked, str) or not isinstance(capabilities, dict):
            raise RpcError(INVALID_PARAMS, "initialize needs protocolVersion, a text, and capabilities, an object")
        self.version = asked if asked in LEGACY else LEGACY[0]
        self.client = _client(params.get("clientInfo"))
        # Forms came with 2025-06-18, addresses with 2025-11-25.
        self.forms = self.version >= "2025-06-18" and _declares(capabilities, "form")
        self.urls = self.version >= "2025-11-25" and _declares(capabilities, "url")
        self.listens = False
        return self.version


@dataclass(frozen=True, slots=True)
class Peer:
    """The far end of a connection: whose calls come over it, and its session in the older revisions."""

    user: str = "local"
    session: Session = field(default_factory=Session)
    hears_unasked: bool = True
    """True where the server can speak to it outside of any request."""
    transport: str = "pipe"
    """`pipe` or `tcp`, for telemetry."""


def begins_session(request: Request) -> bool:
    """Return whether a request starts a session of the older revisions."""
    return request.method == "initialize" and "protocolVersion" in request.params


def is_marked_modern(request: Request) -> bool:
    """Return whether a request is modern by its metadata or method.

    An `initialize` that asks for a version begins a session, whatever else it holds.
    """
    if begins_session(request):
        return False
    return bool(request.meta.keys() & {VERSION_KEY, CAPABILITIES_KEY}) or request.method in _MODERN_METHODS


def caller_of(request: Request, peer: Peer) -> Caller:
    """Return who makes a request, in the era that the request itself shows.

    Raises:
        RpcError: the metadata that every modern request carries is missing or broken (-32602), or of a revision that is
            not known (-32022).
    """
    meta = request.meta
    if not is_marked_modern(request):
        if request.method == "initialize":
            return Caller(modern=False, version=LEGACY[0], user=peer.user)
        session = peer.session
        if not session.is_open and request.method != "ping":
            message = f"_meta has no {VERSION_KEY} ({MODERN[0]}), and no session was begun with initialize"
            raise RpcError(INVALID_PARAMS, message, {"supported": list(SUPPORTED)})
        spoken = session.version or LEGACY[0]
        return Caller(
            modern=False, version=spoken, client=session.client, forms=session.forms, urls=session.urls, user=peer.user
        )
    version, capabilities = meta.get(VERSION_KEY), meta.get(CAPABILITIES_KEY)
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"_meta needs {VERSION_KEY}, a text")
    if version not in MODERN:
        data = {"supported": list(SUPPORTED), "requested": version[:_MAX_NAME_CHARS]}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"_meta needs {CAPABILITIES_KEY}, an object")
    client = _client(meta.get(CLIENT_KEY))
    forms, urls = _declares(capabilities, "form"), _declares(capabilities, "url")
    return Caller(modern=True, version=version, client=client, forms=forms, urls=urls, user=peer.user)


def _declares(capabilities: dict[str, Any], mode: str) -> bool:
    """Return whether a client supports a mode of elicitation, `form` or `url`: `elicitation: {}` means forms alone."""
    declared = capabilities.get("elicitation")
    return isinstance(declared, dict) and isinstance((declared or {"form": {}}).get(mode), dict)


def _client(info: Any) -> str:
    """Return a client's name and version, cut and on one line: it chose the text."""
    if not isinstance(info, dict):
        return ""
    parts = [info.get("name"), info.get("version")]
    said = " ".join(part for part in parts if isinstance(part, str))
    return "".join(char for char in said if char.isprintable())[:_MAX_NAME_CHARS].strip()


MAX_REPORTS = 1000
"""Of one call; what a tool reports beyond them is not sent."""
_MAX_MESSAGE_CHARS = 500


class ProgressReport:
    """Sends what a tool reports, from whatever thread it does so, to the event loop that this was made in."""

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
        """Send the progress, unless it does not grow."""
        try:
            self._loop.call_soon_threadsafe(self._report, done, total, message)
        except RuntimeError:  # the loop is closed
            self._left = 0

    def end(self) -> None:
        """Send nothing more: the call has ended."""
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
"""In place of a method that is not known: it is the client's own text."""


async def told(
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
