"""Fakes around the egress gateway: an in-memory secrets store, a resolver, and a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wasmrt.capabilities import Capabilities
from wasmrt.core.lifetime import EndEvent
from wasmrt.core.limits import MAX_HTTP_REQUESTS
from wasmrt.core.model import Decision
from wasmrt.egress.gateway import ResolveError, SecretsView
from wasmrt.egress.leaks import LeakDetector, LeakScanner, WatchedSecrets
from wasmrt.egress.secrets import DEFAULT_USER, Entry, EntryStore, UserSecrets


class MemorySecrets(EntryStore):
    """A `SecretsStore` in memory; `now` returns the time in Unix seconds."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(now=now)
        self._entries: dict[tuple[str, str], Entry] = {}

    def _read(self, user: str, name: str) -> Entry | None:
        return self._entries.get((user, name))

    def _write(self, user: str, name: str, entry: Entry) -> None:
        self._entries[user, name] = entry

    def _delete(self, user: str, name: str) -> bool:
        return self._entries.pop((user, name), None) is not None

    def _names(self, user: str) -> Iterable[str]:
        return [name for owner, name in self._entries if owner == user]


_DETECTOR = LeakDetector()


class FakeResolver:
    """A resolver with a table of addresses by host.

    If the addresses of a host are a list of lists, each lookup returns the next list, and the last list is repeated.
    """

    def __init__(self, answers: Mapping[str, Sequence[str] | Sequence[Sequence[str]]]) -> None:
        self._answers = dict(answers)
        self.asked: list[str] = []
        """The hosts that were looked up, in order."""

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        """Return the next addresses of `host`, or raise `ResolveError`."""
        if host not in self._answers:
            raise ResolveError("the host name is unknown")
        answers = self._answers[host]
        turn = self.asked.count(host)
        self.asked.append(host)
        if answers and not isinstance(answers[0], str):
            answers = answers[min(turn, len(answers) - 1)]
        return tuple(str(address) for address in answers)


@dataclass(slots=True)
class FakeCall:
    """A call for `EgressGateway` without a guest: it has a grant and a user's secrets, and records decisions."""

    grant: Capabilities
    tool: str = "tool"
    user: str = DEFAULT_USER
    secrets: SecretsView | None = field(default_factory=lambda: UserSecrets(MemorySecrets(), DEFAULT_USER))
    timeout_seconds: float = 30.0
    cancelled: EndEvent = field(default_factory=EndEvent)
    requests_left: int = MAX_HTTP_REQUESTS
    decisions: list[Decision] = field(default_factory=list)
    sent_bytes: int = 0
    received_bytes: int = 0
    deadline: float = 0.0
    scanner: LeakScanner = field(init=False)
    _watched: WatchedSecrets = field(default_factory=lambda: WatchedSecrets(_DETECTOR), repr=False)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.timeout_seconds
        self.scanner = self._watched.scanner

    def watch(self, name: str, value: str) -> None:
        self._watched.watch(name, value)
        self.scanner = self._watched.scanner

    def charge_http_request(self) -> bool:
        self.requests_left -= 1
        return self.requests_left >= 0

    def charge_http_bytes(self, *, sent: int, received: int) -> None:
        self.sent_bytes += sent
        self.received_bytes += received

    def decide(self, decision: Decision) -> Decision:
        self.decisions.append(decision)
        return decision
