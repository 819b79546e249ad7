"""Sends one request to one checked host, and returns the response within its budget. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from wasmrt.core.limits import MAX_CONNECT_ATTEMPTS
from wasmrt.egress.gateway._body import StreamedBody
from wasmrt.egress.gateway._budget import ExchangeBudget
from wasmrt.egress.gateway._config import NetworkConfig
from wasmrt.egress.gateway._connection import DeadConnectionError
from wasmrt.egress.gateway._pools import Pool, Route
from wasmrt.egress.gateway._socket import UnreachableError
from wasmrt.egress.gateway._wire import WireRequest, WireResponse
from wasmrt.sandbox.component.worlds import FailureKind

# RFC 9110 9.2.2: may be sent again when a connection that had been idle turns out to be dead.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


class Client:
    """Connections to checked addresses, shared by all calls; on h11 and not on a client library (ADR 4)."""

    def __init__(self, config: NetworkConfig) -> None:
        self._pool = Pool(
            ca_file=config.ca_file,
            max_connections=config.max_connections,
            connect_timeout_seconds=config.connect_timeout_seconds,
        )

    def close(self) -> None:
        """Close every idle connection now, and the others when their response is read."""
        self._pool.close()

    def send(self, request: WireRequest, addresses: Sequence[str], budget: ExchangeBudget) -> WireResponse:
        """Send `request` to one of `addresses`, all of them checked, and return the response once its head is here.

        Raises:
            HttpFailure: it could not be sent, or the response broke a bound or the protocol.
        """
        routes = [Route(request.scheme, request.host, request.port, address) for address in addresses]
        if len(routes) > 1:
            routes.sort(key=lambda route: not self._pool.has_idle(route))  # stable: an open connection first
        for route in routes[:MAX_CONNECT_ATTEMPTS]:
            try:
                return self._send_on(route, request, budget)
            except UnreachableError:
                continue
        message = f"{budget.origin} could not be reached: nothing answered"
        hint = "check that it runs and that this machine is online"
        raise budget.failure(FailureKind.OPERATION_FAILED, "connect", message, hint)

    def _send_on(self, route: Route, request: WireRequest, budget: ExchangeBudget) -> WireResponse:
        while True:
            connection, reused = self._pool.take(route, budget)
            try:
                head = connection.send(request, budget)
                body = StreamedBody(self._pool, route, connection, head, budget)
                if request.method != "HEAD":
                    body.check_length()
                return WireResponse(head.status_code, head.headers.raw_items(), body)
            except BaseException as error:
                self._pool.give_back(route, connection, healthy=False)
                if not isinstance(error, DeadConnectionError):
                    raise
            if not reused or request.method not in _IDEMPOTENT:
                raise budget.broken()
            # Each round uses up an idle connection; with none left one is dialled, and that round is the last.
