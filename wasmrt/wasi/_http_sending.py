"""`wasi:http/outgoing-handler@0.2`: from a request to its response, through the guarded door.

`handle` promises a response and sends nothing. The request leaves, whole, when the guest asks its future for the
response after it has finished the body; that call then blocks until the response is here, within the call's deadline.
A redirect is a response like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt.engine import Case, Err, Ok
from wasmrt.model import Decision, Reason
from wasmrt.wasi._handles import Handles
from wasmrt.wasi._http_bodies import hold
from wasmrt.wasi._http_fields import Fields
from wasmrt.wasi._http_request import Options, Request
from wasmrt.wasi._refusals import record
from wasmrt.wasi._streams import NEVER_NS, Pollable

if TYPE_CHECKING:
    from wasmrt.capabilities import HttpCapability
    from wasmrt.context import CallContext
    from wasmrt.net import HttpFailure

_DENIED = Case("HTTP-request-denied")
_NO_URL = Case("HTTP-request-URI-invalid")
_OF_CODE = {
    str(Reason.ADDRESS_NOT_ALLOWED): Case("destination-IP-prohibited"),
    str(Reason.NO_ADDRESS): Case("DNS-error", {"rcode": None, "info-code": None}),
    str(Reason.INVALID_URL): _NO_URL,
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


class Response:
    def __init__(self, status: int, fields: Fields, body: bytes) -> None:
        self.status = status
        self.fields = fields
        self.body: bytes | None = body


class Future(Pollable):
    """A response to come: ready as soon as the request can be sent."""

    __slots__ = ("request", "seconds", "taken", "url")

    def __init__(self, request: Request, url: str, seconds: float | None) -> None:
        super().__init__()
        self.request = request
        self.url = url
        self.seconds = seconds
        self.taken = False

    def due(self) -> int:
        body = self.request.body
        return 0 if body is None or body.closed else NEVER_NS


def handle(ctx: CallContext, rep: int, options: int | None) -> Ok | Err:
    handles = ctx.part(Handles)
    request = handles.get(rep, Request)
    handles.drop(rep)
    seconds = None
    if options is not None:
        seconds = handles.get(options, Options).seconds
        handles.drop(options)
    url = request.url
    if url is None:
        return Err(_NO_URL)
    refused = _refusal(ctx, request.verb, url)
    if refused is not None:
        record(ctx, refused)
        return Err(_DENIED)
    return Ok(handles.add(Future(request, url, seconds)))


def get_response(ctx: CallContext, rep: int) -> Ok | Err | None:
    future = ctx.part(Handles).get(rep, Future)
    if future.due():
        return None
    if future.taken:
        return Err()
    future.taken = True
    return Ok(_send(ctx, future))


def _refusal(ctx: CallContext, verb: str, url: str) -> Decision | None:
    """What is known before anything is sent: nothing was granted, or there is no network to grant."""
    if ctx.grant.http is None:
        return ctx.grant.explain_http(verb, url)
    if ctx.services.http is None:
        rule = "this runtime has no network"
        return Decision(False, Reason.NOT_GRANTED, rule, "give WasmRuntimeConfig a network", "http", verb)
    return None


def _send(ctx: CallContext, future: Future) -> Ok | Err:
    from wasmrt.net import HttpFailure, HttpRequest

    body, fields = future.request.body, future.request.fields
    if body is not None and not body.finished:
        return Err(Case("connection-terminated"))
    content = None if body is None or not body.content else bytes(body.content)
    door, http = ctx.services.http, ctx.grant.http
    assert door is not None and http is not None  # no future is given out without them
    try:
        response = door.fetch(
            ctx, HttpRequest(future.request.verb, future.url, fields.as_text(), content, future.seconds)
        )
    except HttpFailure as failure:
        ctx.check()  # a deadline that passed on the wire ends the call
        return Err(_error_code(failure, http))
    hold(ctx, len(response.body))
    shown = Fields([(name, value.encode("latin-1", "replace")) for name, value in response.headers])
    return Ok(ctx.part(Handles).add(Response(response.status, shown, response.body)))


def _error_code(failure: HttpFailure, http: HttpCapability) -> Case:
    """The closest word of the package's own; a text where there is none."""
    code = failure.code
    if code == "timeout":
        return Case("HTTP-response-timeout" if failure.request_sent else "connection-timeout")
    if code == str(Reason.REQUEST_TOO_LARGE):
        return Case("HTTP-request-body-size", http.max_request_bytes)
    if code == str(Reason.RESPONSE_TOO_LARGE):
        return Case("HTTP-response-body-size", http.max_response_bytes)
    known = _OF_CODE.get(code)
    if known is not None:
        return known
    if str(failure.kind) in ("network-denied", "auth-required") and failure.decision is not None:
        return _DENIED
    hint = f"; {failure.hint}" if failure.hint else ""
    return Case("internal-error", f"{code}: {failure.message}{hint}")
