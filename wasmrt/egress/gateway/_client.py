"""Send requests to checked addresses, and read and decode response bodies within the response limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import h11

from wasmrt.core.limits import MAX_CONNECT_ATTEMPTS, MAX_HEADER_BYTES, MAX_HEADERS
from wasmrt.egress.gateway._codings import CodingError, Decoder, make_decoders
from wasmrt.egress.gateway._connection import Connection, DeadConnectionError, UnreachableError, content_length
from wasmrt.egress.gateway._exchange import ExchangeBudget, WireRequest, WireResponse
from wasmrt.egress.gateway._headers import header_bytes
from wasmrt.egress.gateway._model import HttpFailure
from wasmrt.egress.gateway._network import NetworkConfig
from wasmrt.egress.gateway._pools import Pool, Route
from wasmrt.sandbox.component.worlds import FailureKind


class StreamedBody:
    """A response body that is read from a connection. At the end of the body, the connection returns to the pool.

    Raises:
        HttpFailure: the headers are too large, or the body has a coding that was not requested.
    """

    def __init__(
        self,
        pool: Pool,
        route: Route,
        connection: Connection,
        head: h11.Response,
        budget: ExchangeBudget,
        *,
        identity: bool,
    ) -> None:
        headers = head.headers.raw_items()
        if len(headers) > MAX_HEADERS or header_bytes(headers) > MAX_HEADER_BYTES:
            raise budget.fail_too_large()
        self._decoders = _make_decoders(headers, budget)
        if identity and self._decoders:
            raise _coding_failure(CodingError("the body has a content coding, but none was requested"), budget)
        self._pool = pool
        self._route = route
        self._connection: Connection | None = connection
        self._head = head
        self._budget = budget
        self._room = budget.max_response_bytes

    def __iter__(self) -> Iterator[bytes | bytearray]:
        """Yield the decoded pieces as they arrive.

        Raises:
            HttpFailure: the body is incomplete, too large, or not valid for its coding.
        """
        try:
            if self._connection is not None:
                for chunk in self._connection.body(self._head, self._budget):
                    if piece := self._decode(chunk):
                        yield piece
                self._finish()
                self._return_connection(healthy=True)
        finally:
            self.close()

    def check_length(self) -> None:
        """Raise `HttpFailure` if the Content-Length exceeds the limit, before anything is read."""
        if not self._decoders and content_length(self._head) > self._room:
            raise self._budget.fail_too_large()

    def close(self) -> None:
        """Release the connection. The connection is reused only if this response was read completely."""
        self._return_connection(healthy=self._connection is not None and self._connection.skip_rest())

    def _return_connection(self, *, healthy: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.return_connection(self._route, connection, healthy=healthy)

    def _decode(self, chunk: bytes | bytearray) -> bytes | bytearray:
        piece = chunk
        for decoder in self._decoders:
            try:
                piece = decoder.feed(bytes(piece), self._room)
            except CodingError as error:
                raise _coding_failure(error, self._budget) from None
            if len(piece) > self._room:
                # SECURITY: checked after every coding, so that a nested compression bomb stays small.
                raise self._budget.fail_too_large()
        self._room -= len(piece)
        if self._room < 0:
            raise self._budget.fail_too_large()
        return piece

    def _finish(self) -> None:
        for decoder in self._decoders:
            try:
                decoder.finish()
            except CodingError as error:
                raise _coding_failure(error, self._budget) from None


def _make_decoders(headers: Sequence[tuple[bytes, bytes]], budget: ExchangeBudget) -> list[Decoder]:
    codings = [value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding"]
    try:
        return make_decoders(codings, budget.wait_seconds)
    except CodingError as error:
        raise _coding_failure(error, budget) from None


def _coding_failure(error: CodingError, budget: ExchangeBudget) -> HttpFailure:
    return budget.failure(FailureKind.OPERATION_FAILED, "content-coding", str(error))


# RFC 9110 9.2.2: a request with one of these methods can be sent again if an idle connection turns out to be closed.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


class Client:
    """Connections to checked addresses, shared by all calls. Uses h11 directly, not an HTTP client library (ADR 4)."""

    def __init__(self, config: NetworkConfig) -> None:
        self._pool = Pool(
            ca_file=config.ca_file,
            max_connections=config.max_connections,
            connect_timeout_seconds=config.connect_timeout_seconds,
        )

    def close(self) -> None:
        """Close all idle connections now, and each other connection once its response has been read."""
        self._pool.close()

    def send(self, request: WireRequest, addresses: Sequence[str], budget: ExchangeBudget) -> WireResponse:
        """Send `request` to one of the checked `addresses`; return the response once its headers have arrived.

        Raises:
            HttpFailure: the request could not be sent, or the response exceeded a limit or is not valid HTTP.
        """
        routes = [Route(request.scheme, request.host, request.port, address) for address in addresses]
        if len(routes) > 1:
            routes.sort(key=lambda route: not self._pool.has_idle(route))  # a stable sort: idle connections first
        for route in routes[:MAX_CONNECT_ATTEMPTS]:
            try:
                return self._send_on(route, request, budget)
            except UnreachableError:
                continue
        message = f"{budget.origin} could not be reached: no address accepted a connection"
        hint = "check that the server runs and that this machine is online"
        raise budget.failure(FailureKind.OPERATION_FAILED, "connect", message, hint)

    def _send_on(self, route: Route, request: WireRequest, budget: ExchangeBudget) -> WireResponse:
        while True:
            connection, reused = self._pool.take(route, budget)
            try:
                head = connection.send(request, budget)
                body = StreamedBody(self._pool, route, connection, head, budget, identity=request.identity)
                if request.method != "HEAD":
                    body.check_length()
                return WireResponse(head.status_code, head.headers.raw_items(), body)
            except BaseException as error:
                self._pool.return_connection(route, connection, healthy=False)
                if not isinstance(error, DeadConnectionError):
                    raise
            if not reused or request.method not in _IDEMPOTENT:
                raise budget.make_connection_failure()
            # Each round uses up an idle connection. When none is left, a new connection is opened in the last round.
