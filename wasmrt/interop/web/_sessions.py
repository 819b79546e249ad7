"""Sessions of people in a browser: begun by a link that works once, kept in a cookie, with a token for their forms."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from wasmrt.interop.web._message import Request
from wasmrt.interop.web._tokens import TokenDigest, new_token

_COOKIE = "wasmrt-session"
_MAX_SESSIONS = 64
_MAX_LINKS = 16
LINK_SECONDS = 15 * 60.0
SESSION_SECONDS = 12 * 3600.0


@dataclass(frozen=True, slots=True, repr=False)
class Session:
    """One person's session in one browser.

    SECURITY: cookies are shared by all servers of a host name, whatever their port, and on one machine these may be
    other users'. A path that nobody can guess keeps ours from being sent to them.
    """

    path: str
    """All of its pages are below it; begins and ends with `/`."""
    ends: float
    form_token: str = field(default_factory=new_token)
    """For a hidden field of every form (CSRF)."""

    def allows(self, form: dict[str, str] | None) -> bool:
        """Return whether a form came from a page of this session. SECURITY: no form is acted on without it."""
        given = "" if form is None else form.get("form_token", "")
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.form_token.encode())


class Sessions:
    """The sessions of one server, in memory: they end with it. For one event loop.

    Args:
        base: The path below which they are; begins and ends with `/`.
        clock: Seconds that do not go back.
    """

    def __init__(self, base: str = "/", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._base = base
        self._clock = clock
        self._links: dict[TokenDigest, tuple[float, bool]] = {}
        self._sessions: dict[str, tuple[TokenDigest, Session]] = {}

    def new_link(self, *, secure: bool = False) -> str:
        """Return a token for the address that begins a session: good once, and for 15 minutes. The newest 16 hold.

        Args:
            secure: The address is one of https: the session's cookie is sent by nothing else.
        """
        token = new_token()
        while len(self._links) >= _MAX_LINKS:
            del self._links[next(iter(self._links))]
        self._links[TokenDigest.of(token)] = self._clock() + LINK_SECONDS, secure
        return token

    def begin(self, token: str) -> tuple[Session, str] | None:
        """Use up a link's token; return a new session and the `Set-Cookie` for it, or None where it does not hold."""
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
        """Return the session of a request: its path and its cookie have to belong together."""
        name = request.path.removeprefix(self._base).partition("/")[0]
        found = self._sessions.get(f"{self._base}{name}/")
        if found is None or not found[0].matches(_cookie(request)) or found[1].ends <= self._clock():
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


def _cookie(request: Request) -> str | None:
    """Return the value of our cookie, where it was sent once (RFC 6265, 4.2.1)."""
    pairs = (pair.strip().partition("=") for pair in (request.header("cookie") or "").split(";"))
    values = [value for name, _, value in pairs if name == _COOKIE]
    return values[0] if len(values) == 1 else None
