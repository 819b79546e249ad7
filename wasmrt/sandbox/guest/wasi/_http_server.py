"""Implement the incoming request of `wasi:http@0.2`: one request, which the host creates from params, and its response.

The guest passes the response to `response-outparam.set` and may write its body until it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.wasi import _http_fields
from wasmrt.sandbox.guest.wasi._http_bodies import Body, GivenBody, IncomingBody
from wasmrt.sandbox.guest.wasi._http_fields import Fields
from wasmrt.sandbox.guest.wasi._io import Handles

AUTHORITY = "localhost"
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")


class IncomingRequest:
    """A request to a guest."""

    def __init__(self, method: str, path: str, fields: Fields, body: bytes) -> None:
        self.method = Case(method.lower())
        self.path = path
        self.fields = fields
        self.body: GivenBody | None = GivenBody(body)


class OutgoingResponse:
    """A response that a guest creates."""

    def __init__(self, fields: Fields) -> None:
        self.status = 200
        self.fields = fields
        self.body: Body | None = None


class ResponseOut:
    """The response that the guest has passed to the host, or the reason why there is none."""

    def __init__(self) -> None:
        self.response: OutgoingResponse | None = None
        self.error = "the tool set no response"


class Exchange(NamedTuple):
    """The guest's handles of a request and of its response, and the `result` that the guest sets."""

    request: int
    out: int
    result: ResponseOut


def start_exchange(ctx: GuestCall, request: IncomingRequest) -> Exchange:
    """Create the handles of a request and of its response."""
    out = ResponseOut()
    return Exchange(ctx.part(Handles).add(request), ctx.part(Handles).add(out), out)


def _request_value(read: Callable[[IncomingRequest], Any]) -> Callable[..., Any]:
    return lambda ctx, rep: read(ctx.part(Handles).get(rep, IncomingRequest))


def _make_headers_method(kind: type[IncomingRequest] | type[OutgoingResponse]) -> Callable[..., int]:
    return lambda ctx, rep: _http_fields.share(ctx, ctx.part(Handles).get(rep, kind).fields)


def _consume(ctx: GuestCall, rep: int) -> Ok | Err:
    request = ctx.part(Handles).get(rep, IncomingRequest)
    if request.body is None:
        return Err()
    body, request.body = request.body, None
    return Ok(ctx.part(Handles).add(IncomingBody(body)))


def _new_response(ctx: GuestCall, fields: int) -> int:
    return ctx.part(Handles).add(OutgoingResponse(_http_fields.take(ctx, fields)))


def _status(ctx: GuestCall, rep: int) -> int:
    return ctx.part(Handles).get(rep, OutgoingResponse).status


def _set_status(ctx: GuestCall, rep: int, status: int) -> Ok | Err:
    if not 100 <= status <= 999:
        return Err()
    ctx.part(Handles).get(rep, OutgoingResponse).status = status
    return Ok()


def _get_response_body(ctx: GuestCall, rep: int) -> Ok | Err:
    response = ctx.part(Handles).get(rep, OutgoingResponse)
    if response.body is not None:
        return Err()
    response.body = Body(ctx.limits.output_bytes, _http_fields.declared_length(response.fields), is_response=True)
    return Ok(ctx.part(Handles).add(response.body))


def _set(ctx: GuestCall, rep: int, answer: Ok | Err) -> None:
    handles = ctx.part(Handles)
    out = handles.get(rep, ResponseOut)
    handles.drop(rep)
    if isinstance(answer, Ok):
        out.response = handles.get(answer.value, OutgoingResponse)
        handles.drop(answer.value)
    else:
        out.error = f"the tool answered with the error {answer.value.name}"


MEMBERS: dict[str, Callable[..., Any]] = {
    "[method]incoming-request.method": _request_value(lambda request: request.method),
    "[method]incoming-request.path-with-query": _request_value(lambda request: request.path),
    "[method]incoming-request.scheme": _request_value(lambda request: Case("HTTP")),
    "[method]incoming-request.authority": _request_value(lambda request: AUTHORITY),
    "[method]incoming-request.headers": _make_headers_method(IncomingRequest),
    "[method]incoming-request.consume": _consume,
    "[constructor]outgoing-response": _new_response,
    "[method]outgoing-response.status-code": _status,
    "[method]outgoing-response.set-status-code": _set_status,
    "[method]outgoing-response.headers": _make_headers_method(OutgoingResponse),
    "[method]outgoing-response.body": _get_response_body,
    "[static]response-outparam.set": _set,
}
