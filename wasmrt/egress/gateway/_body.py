"""The body of a response as it comes off a connection: its content codings undone, its size capped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import h11

from wasmrt.core.limits import MAX_HEADER_BYTES, MAX_HEADERS
from wasmrt.egress.gateway._budget import ExchangeBudget
from wasmrt.egress.gateway._connection import Connection, content_length
from wasmrt.egress.gateway._decode import CodingError, GzipDecoder, decoders_for
from wasmrt.egress.gateway._failure import HttpFailure
from wasmrt.egress.gateway._headers import header_bytes
from wasmrt.egress.gateway._pools import Pool, Route
from wasmrt.sandbox.component.worlds import FailureKind


class StreamedBody:
    """A body read from its connection, which goes back to the pool at the end.

    Raises:
        HttpFailure: the headers are too many, or name a coding that was not asked for.
    """

    def __init__(
        self, pool: Pool, route: Route, connection: Connection, head: h11.Response, budget: ExchangeBudget
    ) -> None:
        headers = head.headers.raw_items()
        size = header_bytes(headers)
        if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES or size > budget.max_response_bytes:
            raise budget.too_large()
        self._decoders = _decoders(headers, budget)
        self._pool = pool
        self._route = route
        self._connection: Connection | None = connection
        self._head = head
        self._budget = budget
        self._room = budget.max_response_bytes - size

    def __iter__(self) -> Iterator[bytes | bytearray]:
        """Yield pieces as they come.

        Raises:
            HttpFailure: it ended too early, is over the cap, or is not in the coding it names.
        """
        try:
            if self._connection is not None:
                for chunk in self._connection.body(self._head, self._budget):
                    if piece := self._decoded(chunk):
                        yield piece
                self._finish()
                self._give_back(healthy=True)
        finally:
            self.close()

    def check_length(self) -> None:
        """Refuse at once a body whose Content-Length is over the cap."""
        if not self._decoders and content_length(self._head) > self._room:
            raise self._budget.too_large()

    def close(self) -> None:
        """Release the connection. It carries another response only where nothing of this one is still to come."""
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
                raise _not_decoded(error, self._budget) from None
            if len(piece) > self._room:
                # SECURITY: also between two codings, so that a bomb inside a bomb stays small.
                raise self._budget.too_large()
        self._room -= len(piece)
        if self._room < 0:
            raise self._budget.too_large()
        return piece

    def _finish(self) -> None:
        for decoder in self._decoders:
            try:
                decoder.finish()
            except CodingError as error:
                raise _not_decoded(error, self._budget) from None


def _decoders(headers: Sequence[tuple[bytes, bytes]], budget: ExchangeBudget) -> list[GzipDecoder]:
    codings = [value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding"]
    try:
        return decoders_for(codings, budget.wait_seconds)
    except CodingError as error:
        raise _not_decoded(error, budget) from None


def _not_decoded(error: CodingError, budget: ExchangeBudget) -> HttpFailure:
    return budget.failure(FailureKind.OPERATION_FAILED, "content-coding", str(error))
