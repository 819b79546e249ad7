"""Bodies of `wasi:http@0.2`. Bodies that guests write are limited; other bodies are received as guests read them."""

from __future__ import annotations

from collections import Counter

from wasmrt.core.errors import BudgetExceededError
from wasmrt.core.limits import MAX_HELD_HTTP_BYTES, MAX_OPEN_ANSWERS
from wasmrt.core.model import Reason
from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import Refuse
from wasmrt.sandbox.guest.services import HttpResponse
from wasmrt.sandbox.guest.wasi._io import (
    CLOSED,
    BytesStream,
    Handles,
    InputStream,
    IoError,
    OutputStream,
    Pollable,
    make_stream_error,
)

_HTTP_BYTES = "bytes of HTTP"
DENIED = Case("HTTP-request-denied")
NO_URL = Case("HTTP-request-URI-invalid")
_OF_CODE = {
    str(Reason.ADDRESS_NOT_ALLOWED): Case("destination-IP-prohibited"),
    str(Reason.NO_ADDRESS): Case("DNS-error", {"rcode": None, "info-code": None}),
    str(Reason.INVALID_URL): NO_URL,
    str(Reason.REQUEST_BUDGET): Case("connection-limit-reached"),
    str(Reason.RATE_LIMITED): Case("connection-limit-reached"),
    "connect": Case("destination-unavailable"),
    "connection": Case("connection-terminated"),
    "tls": Case("TLS-protocol-error"),
    "tls-certificate": Case("TLS-certificate-error"),
    "protocol": Case("HTTP-protocol-error"),
    "invalid-request": Case("HTTP-protocol-error"),
    "content-coding": Case("HTTP-response-content-coding"),
}


def error_code(failure: HostFailure) -> Case:
    """Return the closest error code of wasi:http; `internal-error` with a message if there is none."""
    code = failure.code
    if code == "timeout":
        return Case("HTTP-response-timeout" if failure.request_sent else "connection-timeout")
    if code == str(Reason.REQUEST_TOO_LARGE):
        return Case("HTTP-request-body-size", failure.limit_bytes)
    if code == str(Reason.RESPONSE_TOO_LARGE):
        return Case("HTTP-response-body-size", failure.limit_bytes)
    known = _OF_CODE.get(code)
    if known is not None:
        return known
    if failure.kind in ("network-denied", "auth-required") and failure.denied:
        return DENIED
    return Case("internal-error", f"{code}: {failure.message}")


def charge(ctx: GuestCall, size: int) -> None:
    """Count bytes of headers and bodies that the call sends and receives.

    Raises:
        BudgetExceededError: the call sent and received too much.
    """
    used: Counter[str] = ctx.part(Counter)
    used[_HTTP_BYTES] += size
    if used[_HTTP_BYTES] > MAX_HELD_HTTP_BYTES:
        raise BudgetExceededError(
            f"the guest sent and received more than {MAX_HELD_HTTP_BYTES:,} bytes of headers and bodies",
            limit=MAX_HELD_HTTP_BYTES, used=used[_HTTP_BYTES], setting="limits.MAX_HELD_HTTP_BYTES",
            hint="have the tool request less data",
        )  # fmt: skip


class Body:
    """A body that the guest writes: at most `limit` bytes, or exactly `declared` bytes if `declared` is set."""

    def __init__(self, limit: int, declared: int | None = None, *, is_response: bool = False) -> None:
        self.content = bytearray()
        self.limit = limit if declared is None else min(limit, declared)
        self.declared = declared
        self.is_response = is_response
        self.finished = False
        self.closed = False
        self.has_stream = False

    def make_size_error(self, size: int) -> Case:
        """Return the error code for a body of the wrong size."""
        return Case(f"HTTP-{'response' if self.is_response else 'request'}-body-size", size)


class BodyStream(OutputStream):
    def __init__(self, body: Body) -> None:
        self._body = body

    def write(self, ctx: GuestCall, data: bytes) -> Ok | Err:
        body = self._body
        if body.closed:
            return CLOSED
        if len(body.content) + len(data) > body.limit:
            return _refuse_oversized_body(ctx, body)
        charge(ctx, len(data))
        body.content += data
        return Ok()


def _refuse_oversized_body(ctx: GuestCall, body: Body) -> Err:
    if body.limit != body.declared and body.is_response:
        ctx.charge_text(body.limit + 1)  # the response is over the output limit, which ends the call
    elif body.limit != body.declared:
        # Recorded, because language runtimes trap on stream errors, and the trap does not contain the reason.
        ctx.services.handle(Refuse(Reason.REQUEST_TOO_LARGE, "a body", body.limit))
    return make_stream_error(
        ctx, IoError(f"the body may have {body.limit} bytes", http_code=body.make_size_error(body.limit))
    )


class Receiving(InputStream):
    """The body of a response, received as the guest reads it. A read waits for the next piece.

    Its pollable is always ready, because data is received only during reads.
    """

    def __init__(self, response: HttpResponse) -> None:
        self._response: HttpResponse | None = response
        self._ready = b""

    def read(self, ctx: GuestCall, count: int) -> bytes | Err:
        if count and not self._ready and self._response is not None:
            try:
                self._receive(ctx, self._response)
            except HostFailure as failure:
                self.close()
                return make_stream_error(ctx, IoError(failure.message, http_code=error_code(failure)))
        if not self._ready and self._response is None:
            return CLOSED
        piece, self._ready = self._ready[:count], self._ready[count:]
        return piece

    def fill(self, ctx: GuestCall) -> None:
        """Receive the whole body now. Raises `HostFailure` if that fails."""
        pieces = []
        while self._response is not None:
            self._receive(ctx, self._response)
            pieces.append(self._ready)
        self._ready = b"".join(pieces)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    @property
    def is_open(self) -> bool:
        return self._response is not None

    def _receive(self, ctx: GuestCall, response: HttpResponse) -> None:
        self._ready = response.read()
        charge(ctx, len(self._ready))
        if not self._ready:
            self.close()


class OpenResponses:
    """The responses of one call that the guest reads in pieces. The host closes them when the call ends."""

    def __init__(self) -> None:
        self._open: list[Receiving] = []

    def add(self, ctx: GuestCall, response: Receiving) -> None:
        """Add a response. If the guest now has too many unfinished responses, receive the whole body of this one.

        Raises:
            HostFailure: receiving the body failed.
        """
        self._open = [known for known in self._open if known.is_open]
        self._open.append(response)
        if len(self._open) > MAX_OPEN_ANSWERS:
            # Each open response occupies a connection to its host, for which other calls may be waiting.
            response.fill(ctx)


class GivenBody(BytesStream):
    """The body of a request to the guest."""

    def close(self) -> None:
        self._content = b""


class IncomingBody:
    def __init__(self, receiving: Receiving | GivenBody) -> None:
        self.receiving = receiving
        self.has_stream = False


class Trailers(Pollable):
    """The trailers of a response: always empty, and ready immediately."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        super().__init__()
        self.taken = False


def body_stream(ctx: GuestCall, rep: int) -> Ok | Err:
    body = ctx.part(Handles).get(rep, Body)
    if body.has_stream:
        return Err()
    body.has_stream = True
    return Ok(ctx.part(Handles).add(BodyStream(body)))


def finish_body(ctx: GuestCall, rep: int, trailers: int | None) -> Ok | Err:
    handles = ctx.part(Handles)
    body = handles.get(rep, Body)
    handles.drop(rep)
    body.closed = True
    if trailers is not None:
        handles.drop(trailers)
        return Err(Case("internal-error", "trailers are not sent"))
    if body.declared is not None and len(body.content) != body.declared:
        return Err(body.make_size_error(len(body.content)))
    body.finished = True
    return Ok()


def drop_body(ctx: GuestCall, rep: int) -> None:
    """Drop a body. If it is not finished, its request is never sent."""
    ctx.part(Handles).get(rep, Body).closed = True
    ctx.part(Handles).drop(rep)


def incoming_stream(ctx: GuestCall, rep: int) -> Ok | Err:
    body = ctx.part(Handles).get(rep, IncomingBody)
    if body.has_stream:
        return Err()
    body.has_stream = True
    return Ok(ctx.part(Handles).add(body.receiving))


def finish_incoming(ctx: GuestCall, rep: int) -> int:
    drop_incoming(ctx, rep)
    return ctx.part(Handles).add(Trailers())


def drop_incoming(ctx: GuestCall, rep: int) -> None:
    """Drop a response body, including data that the guest has not read."""
    ctx.part(Handles).get(rep, IncomingBody).receiving.close()
    ctx.part(Handles).drop(rep)


def trailers(ctx: GuestCall, rep: int) -> Ok | Err:
    known = ctx.part(Handles).get(rep, Trailers)
    if known.taken:
        return Err()
    known.taken = True
    return Ok(Ok(None))
