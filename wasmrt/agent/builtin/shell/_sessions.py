"""Sessions: the directory and the variables of each conversation, kept between its commands and bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass, field

from wasmrt.agent.builtin.shell._start import WORKSPACE, Start
from wasmrt.core.limits import MAX_SHELL_SESSIONS, SHELL_SESSION_AGE_SECONDS, SHELL_SESSION_IDLE_SECONDS


@dataclass(eq=False)
class Session:
    """One of them. `busy` is held while one of its commands runs: they run one after the other."""

    start: Start = WORKSPACE
    busy: threading.Lock = field(default_factory=threading.Lock)
    since: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)


class Sessions:
    """The sessions of one shell. Used from many threads. No process belongs to one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Hashable, Session] = {}

    def of(self, key: Hashable) -> Session:
        """Return the session of a key; a new one where there is none, or it is too old or was idle for too long."""
        now = time.monotonic()
        with self._lock:
            for each in [each for each, session in self._found.items() if _is_over(session, now)]:
                del self._found[each]
            session = self._found.pop(key, None) or Session()
            session.used = now
            while len(self._found) >= MAX_SHELL_SESSIONS:
                del self._found[next(iter(self._found))]  # the one that was used least lately
            self._found[key] = session
            return session

    def close(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._found.clear()


def _is_over(session: Session, now: float) -> bool:
    return now - session.used > SHELL_SESSION_IDLE_SECONDS or now - session.since > SHELL_SESSION_AGE_SECONDS
