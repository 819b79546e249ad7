"""Sends one request to one judged host, and reads the answer under its bounds. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import h11

from wasmrt.egress._connection import Connection, DeadConnectionError, content_length
from wasmrt.egress._decode import CodingError, Decoder, decoders_for
from wasmrt.egress._exchange import Exchange
from wasmrt.egress._headers import header_bytes
from wasmrt.egress._model import FailureKind, HttpFailure, NetworkConfig
from wasmrt.egress._pools import Pool, Route
from wasmrt.egress._socket import UnreachableError
from wasmrt.egress._wire import RawResponse, WireRequest
from wasmrt.limits import MAX_CONNECT_ATTEMPTS, MAX_HEADER_BYTES, MAX_HEADERS

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
        """Send `request` to one of `addresses`, which were all judged, and return the answer once its head is here.

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
        said = f"{exchange.origin} could not be reached: nothing answered"
        hint = "check that it runs and that this machine is online"
        raise exchange.failure(FailureKind.OPERATION_FAILED, "connect", said, hint)

    def _send_on(self, route: Route, request: WireRequest, exchange: Exchange, max_response_bytes: int) -> RawResponse:
        while True:
            connection, reused = self._pool.take(route, exchange)
            try:
                head = connection.ask(request, exchange)
                body = IncomingBody(self._pool, route, connection, head, exchange, max_response_bytes)
                if request.method != "HEAD":
                    body.check_length()
                return RawResponse(head.status_code, head.headers.raw_items(), body)
            except BaseException as error:
                self._pool.give_back(route, connection, healthy=False)
                if not isinstance(error, DeadConnectionError):
                    raise
            if not reused or request.method not in _IDEMPOTENT:
                raise exchange.broken()
            # Each round uses up an idle connection; with none left one is dialled, and that round is the last.


class IncomingBody:
    """The body of an answer, read from its connection, which goes back to the pool at the end.

    Raises:
        HttpFailure: the headers are too many, or name a coding that was not asked for.
    """

    def __init__(
        self,
        pool: Pool,
        route: Route,
        connection: Connection,
        head: h11.Response,
        exchange: Exchange,
        max_response_bytes: int,
    ) -> None:
        headers = head.headers.raw_items()
        size = header_bytes(headers)
        if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES or size > max_response_bytes:
            raise exchange.too_large()
        self._decoders = _decoders(headers, exchange)
        self._pool = pool
        self._route = route
        self._connection: Connection | None = connection
        self._head = head
        self._exchange = exchange
        self._room = max_response_bytes - size

    def __iter__(self) -> Iterator[bytes | bytearray]:
        """Yield pieces as they come.

        Raises:
            HttpFailure: it ended too early, is over the cap, or is not what its coding says.
        """
        try:
            if self._connection is not None:
                for chunk in self._connection.body(self._head, self._exchange):
                    if piece := self._decoded(chunk):
                        yield piece
                self._finish()
                self._give_back(healthy=True)
        finally:
            self.close()

    def check_length(self) -> None:
        """Refuse at once what says itself that it is too long."""
        if not self._decoders and content_length(self._head) > self._room:
            raise self._exchange.too_large()

    def close(self) -> None:
        """Let go of the connection. It carries another answer only where nothing of this one is still to come."""
        self._give_back(healthy=self._connection is not None and self._connection.skip_rest())

    def _give_back(self, *, healthy: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(self._route, connection, healthy=healthy)

    def _decoded(self, chunk: bytes | bytearray) -> bytes | bytearray:
        piece = chunk
        for decoder in self._decoders:
            try:
                piece = decoder.feed(bytes(piece), self._room)
            except CodingError as error:
                raise _not_decoded(error, self._exchange) from None
            if len(piece) > self._room:
                # SECURITY: also between two codings, so that a bomb inside a bomb stays small.
                raise self._exchange.too_large()
        self._room -= len(piece)
        if self._room < 0:
            raise self._exchange.too_large()
        return piece

    def _finish(self) -> None:
        for decoder in self._decoders:
            try:
                decoder.finish()
            except CodingError as error:
                raise _not_decoded(error, self._exchange) from None


def _decoders(headers: Sequence[tuple[bytes, bytes]], exchange: Exchange) -> list[Decoder]:
    codings = [value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding"]
    try:
        return decoders_for(codings)
    except CodingError as error:
        raise _not_decoded(error, exchange) from None


def _not_decoded(error: CodingError, exchange: Exchange) -> HttpFailure:
    return exchange.failure(FailureKind.OPERATION_FAILED, "content-coding", str(error))
