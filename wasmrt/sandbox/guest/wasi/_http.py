"""Implement `wasi:http@0.2`: outgoing requests, sent through the same gateway as those of the tool worlds.

The interface `types` is complete, because language runtimes import all its functions. An incoming request comes only
from the params of a call (`worlds/_handler.py`); no guest listens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.sandbox.component import Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.wasi import _http_fields, _http_server
from wasmrt.sandbox.guest.wasi._http_bodies import (
    IncomingBody,
    Trailers,
    body_stream,
    drop_body,
    drop_incoming,
    finish_body,
    finish_incoming,
    incoming_stream,
    trailers,
)
from wasmrt.sandbox.guest.wasi._http_request import (
    Future,
    Request,
    Response,
    get_response,
    getter,
    handle,
    is_authority,
    is_method,
    is_path,
    is_scheme,
    new_options,
    new_request,
    request_body,
    setter,
    timeout,
)
from wasmrt.sandbox.guest.wasi._io import Handles, IoError, Pollable, drop_handle, subscribe


def _make_headers_method(kind: type) -> Callable[..., int]:
    return lambda ctx, rep: _http_fields.share(ctx, ctx.part(Handles).get(rep, kind).fields)


def _get_status(ctx: GuestCall, rep: int) -> int:
    return ctx.part(Handles).get(rep, Response).status


def _consume(ctx: GuestCall, rep: int) -> Ok | Err:
    response = ctx.part(Handles).get(rep, Response)
    if response.body is None:
        return Err()
    receiving, response.body = response.body, None
    return Ok(ctx.part(Handles).add(IncomingBody(receiving)))


def _drop_response(ctx: GuestCall, rep: int) -> None:
    unread = ctx.part(Handles).get(rep, Response).body
    if unread is not None:
        unread.close()
    ctx.part(Handles).drop(rep)


def _subscribe(kind: type[Pollable]) -> Callable[..., int]:
    return lambda ctx, rep: subscribe(ctx, ctx.part(Handles).get(rep, kind))


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
    "[constructor]outgoing-request": new_request,
    "[method]outgoing-request.body": request_body,
    "[method]outgoing-request.method": getter("method"),
    "[method]outgoing-request.set-method": setter("method", is_method),
    "[method]outgoing-request.path-with-query": getter("path"),
    "[method]outgoing-request.set-path-with-query": setter("path", is_path),
    "[method]outgoing-request.scheme": getter("scheme"),
    "[method]outgoing-request.set-scheme": setter("scheme", is_scheme),
    "[method]outgoing-request.authority": getter("authority"),
    "[method]outgoing-request.set-authority": setter("authority", is_authority),
    "[method]outgoing-request.headers": _make_headers_method(Request),
    "[constructor]request-options": new_options,
    **timeout("connect-timeout"),
    **timeout("first-byte-timeout"),
    **timeout("between-bytes-timeout"),
    "[method]outgoing-body.write": body_stream,
    "[static]outgoing-body.finish": finish_body,
    "[method]future-incoming-response.subscribe": _subscribe(Future),
    "[method]future-incoming-response.get": get_response,
    "[method]incoming-response.status": _get_status,
    "[method]incoming-response.headers": _make_headers_method(Response),
    "[method]incoming-response.consume": _consume,
    "[method]incoming-body.stream": incoming_stream,
    "[static]incoming-body.finish": finish_incoming,
    "[method]future-trailers.subscribe": _subscribe(Trailers),
    "[method]future-trailers.get": trailers,
    **_http_server.MEMBERS,
}

_DROPS = {"outgoing-body": drop_body, "incoming-body": drop_incoming, "incoming-response": _drop_response}

INTERFACES = (
    HostInterface("wasi:http/types@0.2.0", _TYPES, {name: _DROPS.get(name, drop_handle) for name in _RESOURCES}),
    HostInterface("wasi:http/outgoing-handler@0.2.0", {"handle": handle}),
)
