"""Fakes around the egress gateway: secrets stores in memory and of Vault, a resolver, and a call."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from wasmrt.authoring.testing._server import ReceivedRequest, ScriptedServer, ServerConnection, http_response
from wasmrt.capabilities import Capabilities
from wasmrt.core.lifetime import EndEvent
from wasmrt.core.limits import MAX_HTTP_REQUESTS
from wasmrt.core.model import Decision
from wasmrt.egress.gateway import ResolveError, SecretsView
from wasmrt.egress.leaks import Direction, LeakDetector, LeakScanner, WatchedSecrets
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
        scanner = self.scanner.partial
        decision = decision.redacted(lambda text: scanner.redact(text, direction=Direction.OUTWARD))
        self.decisions.append(decision)
        return decision


@dataclass(slots=True)
class FakeVault:
    """A server with the documented HTTP API of Vault for reading secrets. Use it as a context manager.

    Args:
        secrets: The fields of each secret, by the path in the engine, such as `{"wasmrt/token": {"value": "..."}}`.
        token: The only token that may read.
        tls: The server's certificate.
        mount: The path of the engine.
        sealed: If True, every request gets status 503.

    Example:
        >>> from wasmrt.testing import FakeVault
        >>> FakeVault({"wasmrt/token": {"value": "not-a-real-token"}}, token="t", tls=None).mount
        'secret'
    """

    secrets: Mapping[str, Mapping[str, Any]]
    token: str
    tls: ssl.SSLContext | None
    mount: str = "secret"
    sealed: bool = False
    _server: ScriptedServer = field(init=False)

    def __post_init__(self) -> None:
        self._server = ScriptedServer(self._respond, tls=self.tls)

    @property
    def address(self) -> str:
        """The URL of the server, with the name `localhost`."""
        return f"https://localhost:{self._server.port}"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The received requests."""
        return self._server.requests

    def __enter__(self) -> FakeVault:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    def _respond(self, request: ReceivedRequest, _: ServerConnection) -> bytes:
        if self.sealed:
            return _make_response(503, {"errors": ["Vault is sealed"]})
        if request.header("X-Vault-Token") != self.token:
            return _make_response(403, {"errors": ["permission denied"]})
        found = self.secrets.get(request.target.removeprefix(f"/v1/{self.mount}/data/"))
        if found is None:
            return _make_response(404, {"errors": []})
        metadata = {"created_time": "2026-01-01T00:00:00Z", "deletion_time": "", "destroyed": False, "version": 1}
        return _make_response(200, {"data": {"data": dict(found), "metadata": metadata}})


def _make_response(status: int, value: object) -> bytes:
    body = json.dumps(value).encode()
    return http_response(body, status=status, headers=(("Content-Type", "application/json"),))
