"""Implement the outgoing requests of `wasi:http@0.2`.

`handle` returns a future and sends nothing. The complete request is sent when the guest has finished the body and asks
the future for the response. The guest then waits until the head of the response arrives or the call's deadline passes.
The response's body is received while the guest reads it. Redirects are returned like any other response.

SECURITY: a request's body is never sent piece by piece. Nothing is sent before the complete body was scanned, not even
the head, which contains the credentials: a secret in the body's last bytes must stop the complete request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import HttpCheck, HttpOpen
from wasmrt.sandbox.guest.services import HttpResponse
from wasmrt.sandbox.guest.wasi import _http_fields
from wasmrt.sandbox.guest.wasi._http_bodies import DENIED, NO_URL, Body, OpenResponses, Receiving, error_code
from wasmrt.sandbox.guest.wasi._http_fields import Fields, is_token
from wasmrt.sandbox.guest.wasi._io import NEVER_NS, Handles, Pollable

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}\Z")  # RFC 3986 3.1


class Request:
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
        """The request's URL, or None if the authority is missing or the path does not start with a slash."""
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
        """The timeout of the complete exchange: the sum of all timeouts that are set.

        Without a first-byte timeout, it is None, because the other timeouts do not limit the time until a response.
        """
        if self.timeouts.get("first-byte-timeout") is None:
            return None
        return sum(value for value in self.timeouts.values() if value is not None) / 1e9


def new_request(ctx: GuestCall, fields: int) -> int:
    return ctx.part(Handles).add(Request(_http_fields.take(ctx, fields)))


def new_options(ctx: GuestCall) -> int:
    return ctx.part(Handles).add(Options())


def request_body(ctx: GuestCall, rep: int) -> Ok | Err:
    request = ctx.part(Handles).get(rep, Request)
    if request.body is not None:
        return Err()
    request.body = Body(ctx.services.max_request_bytes, _http_fields.declared_length(request.fields))
    return Ok(ctx.part(Handles).add(request.body))


def getter(attribute: str) -> Callable[..., Any]:
    return lambda ctx, rep: getattr(ctx.part(Handles).get(rep, Request), attribute)


def setter(attribute: str, accepts: Callable[[Any], bool]) -> Callable[..., Ok | Err]:
    def assign(ctx: GuestCall, rep: int, value: Any) -> Ok | Err:
        request = ctx.part(Handles).get(rep, Request)
        if value is not None and not accepts(value):
            return Err()
        setattr(request, attribute, value)
        return Ok()

    return assign


def is_method(method: Case) -> bool:
    return method.name != "other" or is_token(method.value)


def is_scheme(scheme: Case) -> bool:
    return scheme.name != "other" or _SCHEME.match(scheme.value) is not None


def is_authority(text: str) -> bool:
    """Return whether a text contains only characters of a host and a port. The URL parser checks the text later."""
    return _is_plain(text) and not any(character in "/\\?#@ " for character in text)


def is_path(text: str) -> bool:
    return _is_plain(text) and not any(character in " #\\" for character in text)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def timeout(name: str) -> dict[str, Callable[..., Any]]:
    def assign(ctx: GuestCall, rep: int, nanoseconds: int | None) -> Ok:
        ctx.part(Handles).get(rep, Options).timeouts[name] = nanoseconds
        return Ok()

    return {
        f"[method]request-options.{name}": lambda ctx, rep: ctx.part(Handles).get(rep, Options).timeouts.get(name),
        f"[method]request-options.set-{name}": assign,
    }


class Response:
    def __init__(self, status: int, fields: Fields, body: Receiving) -> None:
        self.status = status
        self.fields = fields
        self.body: Receiving | None = body


class Future(Pollable):
    """A future response. It counts as ready as soon as the request can be sent."""

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
    received = Fields([(name, value.encode("latin-1", "replace")) for name, value in response.headers])
    return Ok(ctx.part(Handles).add(Response(response.status, received, receiving)))
