"""Sends one request to one judged host, and reads the answer under its bounds. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

import httpcore

from wasmrt.limits import MAX_CONNECT_ATTEMPTS, MAX_HEADER_BYTES, MAX_HEADERS
from wasmrt.net._decode import CodingError, decoders_for
from wasmrt.net._exchange import Exchange
from wasmrt.net._headers import header_bytes
from wasmrt.net._model import FailureKind, HttpFailure, NetworkConfig
from wasmrt.net._pools import Pools, Route
from wasmrt.net._silence import unlogged
from wasmrt.net._wire import RawResponse, WireRequest

# RFC 9110 9.2.2: what may be sent again when a connection that had been idle turns out to be dead.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


class Client:
    """Connections to judged addresses, shared by all calls."""

    def __init__(self, config: NetworkConfig) -> None:
        self._pools = Pools(
            ca_file=config.ca_file,
            max_connections=config.max_connections,
            connect_timeout_seconds=config.connect_timeout_seconds,
        )

    def close(self) -> None:
        self._pools.close()

    def send(
        self, request: WireRequest, addresses: Sequence[str], exchange: Exchange, max_response_bytes: int
    ) -> RawResponse:
        """Send `request` to one of `addresses`, which were all judged, and return the answer.

        Raises:
            HttpFailure: it could not be sent, or the answer broke a bound or the protocol.
        """
        routes = [Route(request.scheme, request.host, request.port, address) for address in addresses]
        routes.sort(key=lambda route: not self._pools.has(route))  # stable: an open connection first
        for route in routes[:MAX_CONNECT_ATTEMPTS]:
            try:
                return self._send_on(route, request, exchange, max_response_bytes)
            except httpcore.ConnectError:
                continue
        raise exchange.failure(FailureKind.OPERATION_FAILED, "connect", "the host could not be reached")

    def _send_on(self, route: Route, request: WireRequest, exchange: Exchange, max_response_bytes: int) -> RawResponse:
        with self._pools.lease(route) as pool, unlogged():
            while True:
                before = exchange.received
                try:
                    return _converse(pool, request, exchange, max_response_bytes)
                except httpcore.ConnectError:
                    raise
                except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError):
                    stale = not exchange.dialled and exchange.received == before
                    if not stale or request.method not in _IDEMPOTENT:
                        raise _broken(exchange) from None
                    # Each round uses up an idle connection; with none left the next one is dialled.
                except httpcore.PoolTimeout:
                    exchange.wait_seconds()
                    raise exchange.failure(
                        FailureKind.EXECUTOR, "no-connection", "every connection to the host is in use"
                    ) from None
                except (httpcore.LocalProtocolError, httpcore.UnsupportedProtocol):
                    raise exchange.failure(
                        FailureKind.INPUT, "invalid-request", "the request is not valid HTTP"
                    ) from None


def _converse(
    pool: httpcore.ConnectionPool, request: WireRequest, exchange: Exchange, max_response_bytes: int
) -> RawResponse:
    exchange.dialled = False
    timeouts = {"connect": exchange, "read": exchange, "write": exchange, "pool": exchange.wait_seconds(3600.0)}
    # SECURITY: httpcore sends the target as it is. httpx would parse and re-encode it: a second reader of a URL
    # that was judged once, and might then mean something else.
    url = httpcore.URL(
        scheme=request.scheme.encode(),
        host=request.host.encode(),
        port=request.port,
        target=request.target.encode(),
    )
    response = pool.handle_request(
        httpcore.Request(
            request.method.encode(),
            url,
            headers=list(request.headers),
            content=request.body,
            extensions={"timeout": timeouts},
        )
    )
    try:
        return _read(response, exchange, max_response_bytes)
    finally:
        response.close()


def _read(response: httpcore.Response, exchange: Exchange, max_response_bytes: int) -> RawResponse:
    headers = response.headers
    if not 200 <= response.status <= 599:
        raise exchange.failure(
            FailureKind.OPERATION_FAILED, "protocol", "the server answered with a status that ends nothing"
        )
    room = max_response_bytes - header_bytes(headers)
    if len(headers) > MAX_HEADERS or header_bytes(headers) > MAX_HEADER_BYTES or room < 0:
        raise exchange.too_large()
    codings = [value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding"]
    try:
        return RawResponse(response.status, headers, _read_body(response, codings, room, exchange))
    except CodingError as error:
        raise exchange.failure(FailureKind.OPERATION_FAILED, "content-coding", str(error)) from None


def _read_body(response: httpcore.Response, codings: list[str], room: int, exchange: Exchange) -> bytes:
    decoders = decoders_for(codings)
    pieces: list[bytes] = []
    for chunk in response.iter_stream():
        piece = chunk
        for decoder in decoders:
            piece = decoder.feed(piece, room)
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


def _broken(exchange: Exchange) -> HttpFailure:
    return exchange.failure(
        FailureKind.OPERATION_FAILED, "connection", "the connection broke before the response was complete"
    )
