"""Sessions of the older revisions over HTTP: for clients that show forms, whose answers have to find their call."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from wasmrt.interop.mcp.server.protocol import Peer, Questions

IDLE_SECONDS = 30 * 60.0
MAX_SESSIONS = 64
"""Of one user; the one that was idle for longest goes."""


@dataclass(slots=True)
class HttpSession:
    """One session, of one user."""

    peer: Peer
    questions: Questions = field(default_factory=Questions)
    used: float = field(default_factory=time.monotonic)


class Sessions:
    """The sessions of one server, by their ids, which nobody guesses."""

    def __init__(self) -> None:
        self._known: dict[str, HttpSession] = {}

    def open(self, peer: Peer) -> str:
        """Return the id of a new session."""
        self._forget_idle()
        own = [key for key, session in self._known.items() if session.peer.user == peer.user]
        if len(own) >= MAX_SESSIONS:
            self.end(min(own, key=lambda key: self._known[key].used))
        identity = secrets.token_urlsafe(32)
        self._known[identity] = HttpSession(peer)
        return identity

    def find(self, identity: str | None, user: str) -> HttpSession | None:
        """Return a session of this user; None for one that ended, never was, or is another user's."""
        session = self._known.get(identity or "")
        if session is None or session.peer.user != user or time.monotonic() - session.used > IDLE_SECONDS:
            return None
        session.used = time.monotonic()
        return session

    def end(self, identity: str) -> None:
        """End a session; whoever waits for a form of it waits no longer."""
        session = self._known.pop(identity, None)
        if session is not None:
            session.questions.end()

    def _forget_idle(self) -> None:
        now = time.monotonic()
        for key in [key for key, each in self._known.items() if now - each.used > IDLE_SECONDS]:
            self.end(key)
