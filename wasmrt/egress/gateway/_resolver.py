"""Resolve host names within a time limit, and check every address before connecting."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

from wasmrt.capabilities import check_addresses, check_host
from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import MAX_DNS_ANSWERS, MAX_DNS_LOOKUPS
from wasmrt.core.model import Decision, Reason
from wasmrt.core.url import Network, ParsedUrl


class Shares:
    """Slots that are shared between users. Not thread-safe: the owner locks.

    A user can take a slot as long as the user's slots do not outnumber the free slots. So a user with as many slots as
    possible leaves half of them to others, and two such users leave a quarter.
    """

    __slots__ = ("_held", "_of", "_total")

    def __init__(self, total: int) -> None:
        self._total = total
        self._held = 0
        self._of: dict[Hashable, int] = {}

    @property
    def empty(self) -> bool:
        """True if no user holds a slot."""
        return not self._held

    def take(self, user: Hashable) -> bool:
        """Take a slot for a user; False if none is available."""
        mine, free = self._of.get(user, 0), self._total - self._held
        if free < 1 or mine > free:
            return False
        self._held += 1
        self._of[user] = mine + 1
        return True

    def give_back(self, user: Hashable) -> None:
        """Release a slot of a user."""
        self._held -= 1
        self._of[user] -= 1
        if not self._of[user]:
            del self._of[user]


class ResolveError(WasmrtError):
    """The name has no address, or the lookup timed out."""

    code = "no-address"


class Resolver(Protocol):
    """Resolves host names. Called from many threads."""

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        """Return every address of `host`, or raise `ResolveError`."""


@runtime_checkable
class ResolverForUsers(Protocol):
    """A resolver that shares its capacity between users."""

    def for_user(self, user: str) -> Resolver:
        """Return the resolver of one user."""


class SystemResolver:
    """The resolver of the operating system.

    `getaddrinfo` cannot be interrupted and may take half a minute. It therefore runs on a separate thread, at most 64
    at a time and shared between users, so that a call ends at its deadline whatever a name server does.
    """

    def __init__(self) -> None:
        self._slots = LookupSlots()

    def for_user(self, user: str) -> Resolver:
        """Return the resolver of one user, whose lookups have a separate share."""
        return _UserResolver(self._slots, user)

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        """Return every address of `host`.

        Raises:
            ResolveError: the name is unknown or has too many addresses, or the lookup timed out.
        """
        return self.for_user("").resolve(host, port, timeout_seconds=timeout_seconds)


class LookupSlots:
    """The running lookups. Used from many threads."""

    def __init__(self) -> None:
        self._shares = Shares(MAX_DNS_LOOKUPS)
        self._changed = threading.Condition()

    @property
    def all_free(self) -> bool:
        """True if no lookup is running."""
        with self._changed:
            return self._shares.empty

    def take(self, user: str, timeout_seconds: float) -> bool:
        """Wait for a slot and take it; return False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self._shares.take(user), timeout_seconds)

    def give_back(self, user: str) -> None:
        """Release a slot."""
        with self._changed:
            self._shares.give_back(user)
            self._changed.notify_all()


class _UserResolver:
    def __init__(self, slots: LookupSlots, user: str) -> None:
        self._slots = slots
        self._user = user

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        ends_at = time.monotonic() + timeout_seconds
        if not self._slots.take(self._user, timeout_seconds):
            raise ResolveError("too many name lookups are running")
        lookup = _Lookup(host, port, self._slots, self._user)
        try:
            threading.Thread(target=lookup.run, name="wasmrt-resolve", daemon=True).start()
        except RuntimeError:
            self._slots.give_back(self._user)
            raise ResolveError("no thread is available for a name lookup") from None
        if not lookup.done.wait(max(0.0, ends_at - time.monotonic())):
            raise ResolveError("the name server did not respond in time")
        if lookup.failed:
            raise ResolveError("the host name is unknown")
        return lookup.answers


class _Lookup:
    def __init__(self, host: str, port: int, slots: LookupSlots, user: str) -> None:
        self.done = threading.Event()
        self.failed = False
        self.answers: tuple[str, ...] = ()
        self._host, self._port, self._slots, self._user = host, port, slots, user

    def run(self) -> None:
        """Resolve the name and release the slot."""
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            # SECURITY: all addresses are returned for checking, or none if there are too many. A scope id (`%eth0`)
            # stays in the text, and the check refuses it.
            addresses = dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found)
            self.failed = len(addresses) > MAX_DNS_ANSWERS
            self.answers = tuple(addresses)
        except (OSError, UnicodeError):
            self.failed = True
        finally:
            self._slots.give_back(self._user)
            self.done.set()


def checked_addresses(
    url: ParsedUrl, networks: Sequence[Network], resolver: Resolver, ends_at: float
) -> tuple[tuple[str, ...], Decision]:
    """Resolve once and check every address; return no address if the decision is a denial.

    SECURITY: connections are made to the returned addresses; the name is not resolved a second time.
    """
    if (refused := check_host(url, networks)) is not None:
        return (), refused
    if url.address is not None:
        # `check_host` has checked it.
        return (str(url.address),), Decision(True, Reason.ALLOWED, "a literal address", None, "http", url.origin)
    try:
        left = max(0.0, ends_at - time.monotonic())
        addresses = resolver.resolve(url.host, url.port, timeout_seconds=left)
    except ResolveError as error:
        hint = "check the host name, and that this machine is online and can resolve names"
        return (), Decision(False, Reason.NO_ADDRESS, error.message, hint, "http", url.origin)
    decision = check_addresses(addresses, networks, url.origin)
    return (addresses if decision.allowed else ()), decision
