"""`wasi:http@0.2`, outgoing: requests through the same guarded door as the tool worlds' own HTTP imports.

A request is sent when its future is asked for the response and its body is finished; until then nothing happens.
Incoming requests do not exist: no tool is a server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wasmrt.engine import Case, Err, HostInterface, Ok
from wasmrt.errors import TrapError
from wasmrt.wasi import _http_fields
from wasmrt.wasi._handles import Handles, drop_handle
from wasmrt.wasi._http_bodies import (
    Body,
    IncomingBody,
    Trailers,
    body_stream,
    drop_body,
    finish_body,
    finish_incoming,
    hold,
    incoming_stream,
    trailers,
)
from wasmrt.wasi._http_fields import Fields
from wasmrt.wasi._refusals import record
from wasmrt.wasi._streams import IoError, Pollable, subscribe
from wasmrt.wasi._unreachable import unreachable

if TYPE_CHECKING:
    from wasmrt.context import CallContext
    from wasmrt.net import HttpFailure

_NEVER_NS = 2**64
_DENIED = Case("HTTP-request-denied")
_OF_KIND = {
    "network-denied": _DENIED,
    "auth-required": _DENIED,
    "output-too-large": Case("HTTP-response-body-size"),
    "executor": Case("connection-limit-reached"),
}
_BREAKS_A_URL = frozenset("/\\?#@ ")


class Request:
    """An outgoing request while the guest puts it together."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.method = Case("get")
        self.scheme: Case | None = None
        self.authority: str | None = None
        self.path: str | None = None
        self.body: Body | None = None

    @property
    def verb(self) -> str:
        return str(self.method.value) if self.method.name == "other" else self.method.name.upper()

    @property
    def url(self) -> str | None:
        """None where the parts do not make one."""
        scheme = "https" if self.scheme is None else str(self.scheme.value or self.scheme.name).lower()
        path = self.path or "/"
        if not self.authority or not path.startswith("/"):
            return None
        return f"{scheme}://{self.authority}{path}"


class Options:
    def __init__(self) -> None:
        self.timeouts: dict[str, int | None] = {}

    @property
    def seconds(self) -> float | None:
        known = [value for value in self.timeouts.values() if value is not None]
        return max(known) / 1e9 if known else None


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
        return 0 if body is None or body.closed else _NEVER_NS


def _handle(ctx: CallContext, rep: int, options: int | None) -> Ok | Err:
    handles = ctx.part(Handles)
    request = handles.get(rep, Request)
    handles.drop(rep)
    seconds = None
    if options is not None:
        seconds = handles.get(options, Options).seconds
        handles.drop(options)
    url = request.url
    if url is None:
        return Err(Case("HTTP-request-URI-invalid"))
    if ctx.grant.http is None or ctx.services.http is None:
        record(ctx, ctx.grant.explain_http(request.verb, url))
        return Err(_DENIED)
    return Ok(handles.add(Future(request, url, seconds)))


def _get_response(ctx: CallContext, rep: int) -> Ok | Err | None:
    future = ctx.part(Handles).get(rep, Future)
    if future.due():
        return None
    if future.taken:
        return Err()
    future.taken = True
    return Ok(_send(ctx, future))


def _send(ctx: CallContext, future: Future) -> Ok | Err:
    from wasmrt.net import HttpFailure, HttpRequest

    body = future.request.body
    if body is not None and not body.finished:
        return Err(Case("connection-terminated"))
    content = None if body is None or not body.content else bytes(body.content)
    door = ctx.services.http
    assert door is not None  # no future is given out without one
    try:
        response = door.fetch(
            ctx,
            HttpRequest(future.request.verb, future.url, future.request.fields.as_text(), content, future.seconds),
        )
    except HttpFailure as failure:
        ctx.check()  # a deadline that passed on the wire ends the call
        return Err(_error_code(failure))
    hold(ctx, len(response.body))
    fields = Fields([(name, value.encode("latin-1", "replace")) for name, value in response.headers])
    return Ok(ctx.part(Handles).add(Response(response.status, fields, response.body)))


def _error_code(failure: HttpFailure) -> Case:
    if failure.code == "invalid-url":
        return Case("HTTP-request-URI-invalid")
    return _OF_KIND.get(str(failure.kind)) or Case("internal-error", f"{failure.code}: {failure.message}")


def _new_request(ctx: CallContext, fields: int) -> int:
    return ctx.part(Handles).add(Request(_http_fields.take(ctx, fields)))


def _request_body(ctx: CallContext, rep: int) -> Ok | Err:
    request = ctx.part(Handles).get(rep, Request)
    if request.body is not None:
        return Err()
    request.body = Body.of(ctx)
    return Ok(ctx.part(Handles).add(request.body))


def _getter(kind: type, attribute: str) -> Callable[..., Any]:
    return lambda ctx, rep: getattr(ctx.part(Handles).get(rep, kind), attribute)


def _setter(attribute: str) -> Callable[..., Ok | Err]:
    def assign(ctx: CallContext, rep: int, value: Any) -> Ok | Err:
        text = value.value if isinstance(value, Case) else value
        breaks = _BREAKS_A_URL if attribute != "path" else frozenset(" #\\")
        if isinstance(text, str) and (not text.isascii() or not text.isprintable() or breaks & set(text)):
            return Err()
        setattr(ctx.part(Handles).get(rep, Request), attribute, value)
        return Ok()

    return assign


def _shown(kind: type) -> Callable[..., int]:
    return lambda ctx, rep: _http_fields.shown(ctx, ctx.part(Handles).get(rep, kind).fields)


def _timeout(name: str) -> dict[str, Callable[..., Any]]:
    def assign(ctx: CallContext, rep: int, nanoseconds: int | None) -> Ok:
        ctx.part(Handles).get(rep, Options).timeouts[name] = nanoseconds
        return Ok()

    return {
        f"[method]request-options.{name}": lambda ctx, rep: ctx.part(Handles).get(rep, Options).timeouts.get(name),
        f"[method]request-options.set-{name}": assign,
    }


def _consume(ctx: CallContext, rep: int) -> Ok | Err:
    response = ctx.part(Handles).get(rep, Response)
    if response.body is None:
        return Err()
    content, response.body = response.body, None
    return Ok(ctx.part(Handles).add(IncomingBody(content)))


def _subscribe(kind: type[Pollable]) -> Callable[..., int]:
    return lambda ctx, rep: subscribe(ctx, ctx.part(Handles).get(rep, kind))


def _no_server(_ctx: CallContext, _fields: int) -> int:
    raise TrapError("the guest made a response, and no tool answers HTTP requests")


_RESOURCES = (
    *("fields", "incoming-request", "incoming-body", "outgoing-request", "outgoing-body", "request-options"),
    *("response-outparam", "outgoing-response", "incoming-response", "future-trailers", "future-incoming-response"),
)

_TYPES: dict[str, Callable[..., Any]] = {
    "http-error-code": lambda ctx, rep: ctx.part(Handles).get(rep, IoError).http_code,
    "[constructor]fields": _http_fields.new,
    "[static]fields.from-list": _http_fields.from_list,
    "[method]fields.get": _http_fields.get,
    "[method]fields.has": _http_fields.has,
    "[method]fields.set": _http_fields.put,
    "[method]fields.delete": _http_fields.delete,
    "[method]fields.append": _http_fields.append,
    "[method]fields.entries": _http_fields.entries,
    "[method]fields.clone": _http_fields.clone,
    "[constructor]outgoing-request": _new_request,
    "[method]outgoing-request.body": _request_body,
    "[method]outgoing-request.method": _getter(Request, "method"),
    "[method]outgoing-request.set-method": _setter("method"),
    "[method]outgoing-request.path-with-query": _getter(Request, "path"),
    "[method]outgoing-request.set-path-with-query": _setter("path"),
    "[method]outgoing-request.scheme": _getter(Request, "scheme"),
    "[method]outgoing-request.set-scheme": _setter("scheme"),
    "[method]outgoing-request.authority": _getter(Request, "authority"),
    "[method]outgoing-request.set-authority": _setter("authority"),
    "[method]outgoing-request.headers": _shown(Request),
    "[constructor]request-options": lambda ctx: ctx.part(Handles).add(Options()),
    **_timeout("connect-timeout"),
    **_timeout("first-byte-timeout"),
    **_timeout("between-bytes-timeout"),
    "[method]outgoing-body.write": body_stream,
    "[static]outgoing-body.finish": finish_body,
    "[method]future-incoming-response.subscribe": _subscribe(Future),
    "[method]future-incoming-response.get": _get_response,
    "[method]incoming-response.status": _getter(Response, "status"),
    "[method]incoming-response.headers": _shown(Response),
    "[method]incoming-response.consume": _consume,
    "[method]incoming-body.stream": incoming_stream,
    "[static]incoming-body.finish": finish_incoming,
    "[method]future-trailers.subscribe": _subscribe(Trailers),
    "[method]future-trailers.get": trailers,
    "[constructor]outgoing-response": _no_server,
    **unreachable("outgoing-response", "status-code set-status-code headers body"),
    **unreachable("incoming-request", "method path-with-query scheme authority headers consume"),
    "[static]response-outparam.set": unreachable("response-outparam", "set")["[method]response-outparam.set"],
}

INTERFACES = (
    HostInterface(
        "wasi:http/types@0.2.0",
        _TYPES,
        {name: drop_body if name == "outgoing-body" else drop_handle for name in _RESOURCES},
    ),
    HostInterface("wasi:http/outgoing-handler@0.2.0", {"handle": _handle}),
)
