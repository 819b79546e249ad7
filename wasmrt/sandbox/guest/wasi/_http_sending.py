"""`wasi:http/outgoing-handler@0.2`: from a request to its response, through the host.

`handle` promises a response and sends nothing. The request leaves, whole, when the guest asks its future for the
response after it has finished the body; that call then blocks until the head of the response is here, within the
call's deadline. The response's body is read as the guest reads it. A redirect is a response like any other.

SECURITY: a request's body is never streamed out. Credentials leave with the head, and the head leaves only after all
that the guest wrote was scanned: what is found in a body's last byte must not find the first ones gone.
"""

from __future__ import annotations

from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.requests import HostFailure, HttpCheck, HttpOpen
from wasmrt.sandbox.guest.services import HttpResponse
from wasmrt.sandbox.guest.wasi._handles import Handles
from wasmrt.sandbox.guest.wasi._http_bodies import DENIED, NO_URL, OpenResponses, Receiving, error_code
from wasmrt.sandbox.guest.wasi._http_fields import Fields
from wasmrt.sandbox.guest.wasi._http_request import Options, Request
from wasmrt.sandbox.guest.wasi._streams import NEVER_NS, Pollable


class Response:
    def __init__(self, status: int, fields: Fields, body: Receiving) -> None:
        self.status = status
        self.fields = fields
        self.body: Receiving | None = body


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


def handle(ctx: GuestCall, rep: int, options: int | None) -> Ok | Err:
    handles = ctx.part(Handles)
    request = handles.get(rep, Request)
    handles.drop(rep)
    seconds = None
    if options is not None:
        seconds = handles.get(options, Options).seconds
        handles.drop(options)
    url = request.url
    if url is None:
        return Err(NO_URL)
    if ctx.services.handle(HttpCheck(request.verb, url)) is not None:
        return Err(DENIED)
    return Ok(handles.add(Future(request, url, seconds)))


def get_response(ctx: GuestCall, rep: int) -> Ok | Err | None:
    future = ctx.part(Handles).get(rep, Future)
    if future.due():
        return None
    if future.taken:
        return Err()
    future.taken = True
    return Ok(_send(ctx, future))


def _send(ctx: GuestCall, future: Future) -> Ok | Err:
    body, fields = future.request.body, future.request.fields
    if body is not None and not body.finished:
        return Err(Case("connection-terminated"))
    content = None if body is None or not body.content else bytes(body.content)
    request = HttpOpen(future.request.verb, future.url, fields.as_text(), content, future.seconds)
    try:
        response = HttpResponse(ctx.services, request)
        receiving = Receiving(response)
        ctx.part(OpenResponses).add(ctx, receiving)
    except HostFailure as failure:
        return Err(error_code(failure))
    shown = Fields([(name, value.encode("latin-1", "replace")) for name, value in response.headers])
    return Ok(ctx.part(Handles).add(Response(response.status, shown, receiving)))
