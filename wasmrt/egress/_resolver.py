"""Names to addresses, within a time limit. The answers are checked elsewhere."""

from __future__ import annotations

import socket
import threading
from typing import Protocol

from wasmrt.errors import WasmrtError
from wasmrt.limits import MAX_DNS_ANSWERS, MAX_DNS_LOOKUPS


class ResolveError(WasmrtError):
    """The name has no answer, or none came in time."""

    code = "no-address"


class Resolver(Protocol):
    """Looks a name up. Called from many threads."""

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        """Return every address of `host`, or raise `ResolveError`."""


class SystemResolver:
    """The resolver of the operating system.

    `getaddrinfo` cannot be interrupted and may take half a minute. It runs on a thread of its own, at most 64 at a
    time, so that a call ends at its deadline whatever a name server does.
    """

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(MAX_DNS_LOOKUPS)

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        """Return every address of `host`.

        Raises:
            ResolveError: the name is not known, has too many addresses, or there was no answer in time.
        """
        if not self._slots.acquire(timeout=timeout_seconds):
            raise ResolveError("too many names are being looked up")
        lookup = _Lookup(host, port, self._slots)
        try:
            threading.Thread(target=lookup.run, name="wasmrt-resolve", daemon=True).start()
        except RuntimeError:
            self._slots.release()
            raise ResolveError("no thread is left to look a name up") from None
        if not lookup.done.wait(timeout_seconds):
            raise ResolveError("the name server did not answer in time")
        if lookup.failed:
            raise ResolveError("the host's name is not known")
        return lookup.answers


class _Lookup:
    def __init__(self, host: str, port: int, slots: threading.BoundedSemaphore) -> None:
        self.done = threading.Event()
        self.failed = False
        self.answers: tuple[str, ...] = ()
        self._host, self._port, self._slots = host, port, slots

    def run(self) -> None:
        """Look the name up, and give the slot back."""
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            # SECURITY: every answer is kept to be checked, or, where there are too many, none. A scope id (`%eth0`)
            # stays in the text and is refused there.
            addresses = dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found)
            self.failed = len(addresses) > MAX_DNS_ANSWERS
            self.answers = tuple(addresses)
        except (OSError, UnicodeError):
            self.failed = True
        finally:
            self._slots.release()
            self.done.set()
