"""A tool's surroundings in a test: a network of recorded responses, and secrets that are made up.

The network stands where the sockets would: allowlist, addresses, headers, credentials, scanning and bounds come
before it, as in a real call.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from wasmrt.authoring.project._cases import RecordedExchange
from wasmrt.core.errors import SecretNotFoundError
from wasmrt.egress.gateway import ExchangeBudget, HttpFailure, WholeBody, WireRequest, WireResponse
from wasmrt.egress.secrets import Entry, EntryStore, Secret
from wasmrt.sandbox.component.worlds import FailureKind

_PUBLIC_ADDRESS = "93.184.215.14"


class AnyHost:
    """A resolver that has one public address for every name; nothing is ever dialled."""

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        return (_PUBLIC_ADDRESS,)


class RecordedNetwork:
    """A transport that answers each recorded request once. For one call at a time."""

    def __init__(self, exchanges: Iterable[RecordedExchange]) -> None:
        self._waiting = list(exchanges)
        self.problems: list[str] = []
        """Requests that nothing was recorded for, in sentences."""

    @property
    def unasked(self) -> tuple[str, ...]:
        """The recorded requests that never came."""
        return tuple(f"{exchange.method} {_shown(exchange)}" for exchange in self._waiting)

    def send(self, request: WireRequest, addresses: Sequence[str], budget: ExchangeBudget) -> WireResponse:
        for recorded in self._waiting:
            if _difference(recorded, request) is None:
                self._waiting.remove(recorded)
                return _answer(recorded, budget)
        shown = f"{request.method} {request.scheme}://{request.host}{request.target.partition('?')[0]}"
        near = [recorded for recorded in self._waiting if recorded.url.host == request.host]
        why = f"; the recorded one differs in {_difference(near[0], request)}" if near else ""
        self.problems.append(f"no exchange is recorded for {shown}{why}")
        raise HttpFailure(FailureKind.OPERATION_FAILED, "no-exchange", f"no exchange is recorded for {shown}")

    def close(self) -> None:
        """Do nothing: no connection is open."""


class MadeUpSecrets(EntryStore):
    """A store that holds the given names, for every user, with values that are made up."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self._held = {name.lower() for name in names}

    def _read(self, user: str, name: str) -> Entry | None:
        if name not in self._held:
            return None
        return Entry(Secret(f"made-up-value-of-{name}"), time.time())

    def _write(self, user: str, name: str, entry: Entry) -> None:
        raise SecretNotFoundError("the secrets of a test case cannot be changed")

    def _delete(self, user: str, name: str) -> bool:
        return False

    def _names(self, user: str) -> Iterable[str]:
        return self._held


def _answer(recorded: RecordedExchange, budget: ExchangeBudget) -> WireResponse:
    if len(recorded.answer) > budget.max_response_bytes:
        raise budget.too_large()
    budget.charge_received(len(recorded.answer))
    headers = tuple((name.encode("latin-1", "replace"), value.encode()) for name, value in recorded.answer_headers)
    return WireResponse(recorded.status, headers, WholeBody(recorded.answer))


def _difference(recorded: RecordedExchange, request: WireRequest) -> str | None:
    """Name the first part in which a request is another than the recorded one."""
    if recorded.method != request.method:
        return f"its method, {recorded.method}"
    url = recorded.url
    if (url.scheme, url.host, url.port) != (request.scheme, request.host, request.port):
        return f"its origin, {url.origin}"
    if url.target != request.target:
        return "its path or query"
    sent = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in request.headers]
    for name, value in recorded.headers:
        if (name.lower(), value) not in sent:
            return f"its header {name}"
    if recorded.body is not None and not _same_body(recorded.body, request.body or b""):
        return "its body"
    return None


def _same_body(recorded: Any, sent: bytes) -> bool:
    if isinstance(recorded, str):
        return recorded.encode() == sent
    try:
        return bool(json.loads(sent) == recorded)
    except (ValueError, RecursionError):
        return False


def _shown(exchange: RecordedExchange) -> str:
    return f"{exchange.url.origin}{exchange.url.target}"
