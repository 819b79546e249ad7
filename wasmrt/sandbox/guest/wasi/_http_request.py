"""Outgoing requests of `wasi:http@0.2` while the guest puts them together, and their options."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.wasi import _http_fields
from wasmrt.sandbox.guest.wasi._handles import Handles
from wasmrt.sandbox.guest.wasi._http_bodies import Body
from wasmrt.sandbox.guest.wasi._http_fields import Fields, is_token

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
        """Seconds that the exchange may last: it has one timeout, so those that were set are added up.

        None where only others than the first byte's are set: a time to connect says nothing about an answer.
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
    request.body = Body(ctx.services.max_request_bytes, _declared(request.fields))
    return Ok(ctx.part(Handles).add(request.body))


def _declared(fields: Fields) -> int | None:
    """Read the content-length; the host refuses one that is not a number."""
    lengths = {value for value in fields.named("content-length") if value.isdigit() and len(value) < 20}
    return int(lengths.pop()) if len(lengths) == 1 else None


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
    """Accept text that can only be a host and a port; the URL's parser judges which."""
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
