"""Access to the server: allowed origins, bearer tokens, and browser sessions."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.web._message import Request, Response, plain

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of one server (RFC 6454), in lower case and without default ports: `http://127.0.0.1:8931`."""

    all: tuple[str, ...]
    """All origins; users see the first one."""

    @classmethod
    def of(cls, host: str, port: int, more: Iterable[str] = ()) -> Origins:
        """Return the origins of the server's address, and the configured additional ones.

        Raises:
            ConfigurationError: a configured value is not an origin.
        """
        address = ipaddress.ip_address(host)
        hosts = [] if address.is_unspecified else [f"[{address}]" if address.version == 6 else str(address)]
        hosts += ["localhost"] if address.is_loopback or address.is_unspecified else []
        return cls((*map(origin, more), *(_format_origin("http", name, port) for name in hosts)))

    def refusal(self, request: Request) -> Response | None:
        """Return a refusal if the request is for another host name or from another origin's page, else None.

        SECURITY: any page in a user's browser can send requests here. DNS rebinding is detected by the Host header
        (421), other origins, `null` included, by the Origin header (403). Programs send no Origin.
        """
        host = request.header("host")
        if host is None:
            return plain(400)
        if host.lower() not in {origin.partition("://")[2] for origin in self.all}:
            return plain(421, "This server does not serve that host name.")
        if request.has("origin") and (request.header("origin") or "").lower() not in self.all:
            return plain(403, "Requests from other origins are refused.")
        return None


def origin(text: str) -> str:
    """Return an origin in its canonical form.

    Raises:
        ConfigurationError: the text is not an origin.
    """
    try:
        parts = urlsplit(text)
        if parts.scheme in _DEFAULT_PORTS and parts.hostname and text.isascii() and text.isprintable():
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            found = _format_origin(parts.scheme, host, parts.port or _DEFAULT_PORTS[parts.scheme])
            if text.lower().rstrip("/") in (found, f"{parts.scheme}://{host}:{parts.port}"):
                return found
    except ValueError:
        pass
    raise ConfigurationError(f"{text!r:.80} is not an origin", hint="write https://HOST or http://HOST:PORT")


def _format_origin(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://{host}" if port == _DEFAULT_PORTS[scheme] else f"{scheme}://{host}:{port}"


_MAX_TOKEN_CHARS = 4096
_DIGEST = re.compile("[0-9a-f]{64}")
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)


def new_token(prefix: str = "") -> str:
    """Return a new token of 256 random bits, in characters allowed in URLs and headers."""
    return prefix + secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class TokenDigest:
    """The SHA-256 digest of a token. Sufficient for random tokens (`new_token`), not for passwords.

    Raises:
        ValueError: `hex` is not a SHA-256 digest.
    """

    hex: str

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.hex):
            raise ValueError("a token digest must have 64 hexadecimal digits")

    @classmethod
    def of(cls, token: str) -> TokenDigest:
        """Return the digest of a token."""
        return cls(hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest())

    def matches(self, token: str | None) -> bool:
        """Return whether this is the digest of the token. The comparison takes constant time."""
        if token is None or len(token) > _MAX_TOKEN_CHARS:
            return False
        return self.equals(TokenDigest.of(token))

    def equals(self, other: TokenDigest) -> bool:
        """Return whether the digests are equal. The comparison takes constant time."""
        return hmac.compare_digest(other.hex, self.hex)


def bearer_token(request: Request) -> str | None:
    """Return the token of a request's `Authorization: Bearer` header, or None. Tokens in URLs are ignored."""
    found = _BEARER.fullmatch(request.header("authorization") or "")
    return None if found is None else found[1]


_COOKIE = "wasmrt-session"
_MAX_SESSIONS = 64
_MAX_LINKS = 16
LINK_SECONDS = 15 * 60.0
SESSION_SECONDS = 12 * 3600.0


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """The session of one user in one browser.

    SECURITY: browsers send a cookie to every server of its host name, whatever the port, and on a shared machine
    those may belong to other users. An unguessable path keeps the cookie from them.
    """

    path: str
    """The path prefix of its pages; begins and ends with `/`."""
    ends: float
    form_token: str = field(default_factory=new_token)
    """The token in a hidden field of every form, against CSRF."""

    def allows(self, form: dict[str, str] | None) -> bool:
        """Return whether a form contains this session's token. SECURITY: forms without it are rejected."""
        given = "" if form is None else form.get("form_token", "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.form_token.encode())


class Sessions:
    """The sessions of one server, in memory, for one event loop.

    Args:
        base: The path prefix of the sessions; begins and ends with `/`.
        clock: Monotonic seconds.
    """

    def __init__(self, base: str = "/", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._base = base
        self._clock = clock
        self._links: dict[TokenDigest, tuple[float, bool]] = {}
        self._sessions: dict[str, tuple[TokenDigest, Session]] = {}

    def new_link(self, *, secure: bool = False) -> str:
        """Return a token that starts one session within 15 minutes. At most the 16 newest tokens are valid.

        Args:
            secure: The address uses https, so the session's cookie is sent only over https.
        """
        token = new_token()
        while len(self._links) >= _MAX_LINKS:
            del self._links[next(iter(self._links))]
        self._links[TokenDigest.of(token)] = self._clock() + LINK_SECONDS, secure
        return token

    def begin(self, token: str) -> tuple[Session, str] | None:
        """Use up a link's token; return a new session and its `Set-Cookie`, or None if the token is invalid."""
        found = next((digest for digest in self._links if digest.matches(token)), None)
        if found is None:
            return None
        ends, secure = self._links.pop(found)
        if ends <= self._clock():
            return None
        self._forget_ended()
        while len(self._sessions) >= _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name, secret = secrets.token_urlsafe(16), new_token()
        session = Session(f"{self._base}{name}/", self._clock() + SESSION_SECONDS)
        self._sessions[session.path] = TokenDigest.of(secret), session
        rest = f"Path={session.path}; Max-Age={SESSION_SECONDS:.0f}; HttpOnly; SameSite=Strict"
        return session, f"{_COOKIE}={secret}; {rest}{'; Secure' if secure else ''}"

    def find(self, request: Request) -> Session | None:
        """Return the session whose path and cookie both match the request, or None."""
        name = request.path.removeprefix(self._base).partition("/")[0]
        found = self._sessions.get(f"{self._base}{name}/")
        if found is None or not found[0].matches(_get_cookie(request)) or found[1].ends <= self._clock():
            return None
        return found[1]

    def end(self, session: Session) -> str:
        """End a session; return the `Set-Cookie` that removes it from the browser."""
        self._sessions.pop(session.path, None)
        return f"{_COOKIE}=; Path={session.path}; Max-Age=0; HttpOnly; SameSite=Strict"

    def _forget_ended(self) -> None:
        now = self._clock()
        for path in [path for path, (_, session) in self._sessions.items() if session.ends <= now]:
            del self._sessions[path]


def _get_cookie(request: Request) -> str | None:
    """Return the value of the session cookie if it was sent exactly once (RFC 6265, 4.2.1), else None."""
    pairs = (pair.strip().partition("=") for pair in (request.header("cookie") or "").split(";"))
    values = [value for name, _, value in pairs if name == _COOKIE]
    return values[0] if len(values) == 1 else None
