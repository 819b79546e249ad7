"""Sends one request to one judged host, and reads the answer under its bounds. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

import h11

from wasmrt.limits import MAX_CONNECT_ATTEMPTS, MAX_HEADER_BYTES, MAX_HEADERS
from wasmrt.net._connection import Connection, DeadConnectionError
from wasmrt.net._decode import CodingError, decoders_for
from wasmrt.net._exchange import Exchange
from wasmrt.net._headers import header_bytes
from wasmrt.net._model import FailureKind, NetworkConfig
from wasmrt.net._pools import Pool, Route
from wasmrt.net._socket import UnreachableError
from wasmrt.net._wire import RawResponse, WireRequest

# RFC 9110 9.2.2: what may be sent again when a connection that had been idle turns out to be dead.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


class Client:
    """Connections to judged addresses, shared by all calls.

    It stands on h11 itself rather than on a client library, because each of these would have to be got round:
    httpx parses and re-encodes a URL that was judged as it is; httpcore's debug log holds response headers, its
    timeouts bound one read and not the exchange, and its pool takes bytes that follow an answer for the next one.
    """

    def __init__(self, config: NetworkConfig) -> None:
        self._pool = Pool(
            ca_file=config.ca_file,
            max_connections=config.max_connections,
            connect_timeout_seconds=config.connect_timeout_seconds,
        )

    def close(self) -> None:
        self._pool.close()

    def send(
        self, request: WireRequest, addresses: Sequence[str], exchange: Exchange, max_response_bytes: int
    ) -> RawResponse:
        """Send `request` to one of `addresses`, which were all judged, and return the answer.

        Raises:
            HttpFailure: it could not be sent, or the answer broke a bound or the protocol.
        """
        routes = [Route(request.scheme, request.host, request.port, address) for address in addresses]
        if len(routes) > 1:
            routes.sort(key=lambda route: not self._pool.has_idle(route))  # stable: an open connection first
        for route in routes[:MAX_CONNECT_ATTEMPTS]:
            try:
                return self._send_on(route, request, exchange, max_response_bytes)
            except UnreachableError:
                continue
        raise exchange.failure(FailureKind.OPERATION_FAILED, "connect", "the host could not be reached")

    def _send_on(self, route: Route, request: WireRequest, exchange: Exchange, max_response_bytes: int) -> RawResponse:
        while True:
            connection, reused = self._pool.take(route, exchange)
            healthy = False
            try:
                response = _converse(connection, request, exchange, max_response_bytes)
                healthy = True
                return response
            except DeadConnectionError:
                if not reused or request.method not in _IDEMPOTENT:
                    raise exchange.broken() from None
                # Each round uses up an idle connection; with none left one is dialled, and that round is the last.
            finally:
                self._pool.give_back(route, connection, healthy=healthy)


def _converse(connection: Connection, request: WireRequest, exchange: Exchange, max_response_bytes: int) -> RawResponse:
    head = connection.ask(request, exchange)
    headers = head.headers.raw_items()
    size = header_bytes(headers)
    if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES or size > max_response_bytes:
        raise exchange.too_large()
    codings = [value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding"]
    try:
        body = _read_body(connection, head, codings, max_response_bytes - size, exchange)
    except CodingError as error:
        raise exchange.failure(FailureKind.OPERATION_FAILED, "content-coding", str(error)) from None
    return RawResponse(head.status_code, headers, body)


def _read_body(connection: Connection, head: h11.Response, codings: list[str], room: int, exchange: Exchange) -> bytes:
    decoders = decoders_for(codings)
    pieces: list[bytes | bytearray] = []
    for chunk in connection.body(head, exchange):
        piece: bytes | bytearray = chunk
        for decoder in decoders:
            piece = decoder.feed(bytes(piece), room)
            if len(piece) > room:
                # SECURITY: also between two codings, so that a bomb inside a bomb stays small.
                raise exchange.too_large()
        room -= len(piece)
        if room < 0:
            raise exchange.too_large()
        pieces.append(piece)
    for decoder in decoders:
        decoder.finish()
    return b"".join(pieces)
