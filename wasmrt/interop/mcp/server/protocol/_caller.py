"""The two eras of the protocol, and who calls: decided for each message by itself, and never for a connection.

A request with the metadata of 2026-07-28 is modern; every other belongs to the session that `initialize` began.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wasmrt.interop.mcp.server.protocol._wire import INVALID_PARAMS, UNSUPPORTED_VERSION, Request, RpcError

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
        """Take what `initialize` says, and return the revision that is spoken from now on.

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
    """Tell whether a request is one that begins a session of the older revisions."""
    return request.method == "initialize" and "protocolVersion" in request.params


def is_marked_modern(request: Request) -> bool:
    """Tell whether a request shows by itself that it is modern: by its metadata, or by its method.

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
    """Tell whether a client has a mode of elicitation, `form` or `url`: `elicitation: {}` means forms alone."""
    declared = capabilities.get("elicitation")
    return isinstance(declared, dict) and isinstance((declared or {"form": {}}).get(mode), dict)


def _client(info: Any) -> str:
    """Return a client's name and version, cut and on one line: it chose the text."""
    if not isinstance(info, dict):
        return ""
    parts = [info.get("name"), info.get("version")]
    said = " ".join(part for part in parts if isinstance(part, str))
    return "".join(char for char in said if char.isprintable())[:_MAX_NAME_CHARS].strip()
