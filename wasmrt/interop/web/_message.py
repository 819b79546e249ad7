"""Requests and responses, their headers, and the limits of both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, fields
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import parse_qsl

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import KIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class WebBounds:
    """Bounds of one server. Memory is at most about `connections` times `head_bytes` and `body_bytes`.

    Raises:
        ConfigurationError: a bound is not a positive number.
    """

    connections: int = 256
    """At once; one more is answered with 503."""
    connections_per_client: int = 192
    """Of one IPv4 address, or one /64 of IPv6 (RFC 4291, 2.5.4). Every program on the machine is one client."""
    head_bytes: int = 32 * KIB
    """Request line and headers; more is answered with 431."""
    headers: int = 100
    body_bytes: int = MIB
    """Declared or sent in chunks; more is answered with 413."""
    idle_seconds: float = 60.0
    """Between two requests of a connection, and before its first."""
    head_seconds: float = 10.0
    """From a head's first byte to its last; later it is answered with 408."""
    body_seconds: float = 60.0
    """From the end of the head to the end of the body."""
    write_seconds: float = 30.0
    """For a client to take 64 KiB of a response."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ConfigurationError(f"the web server's bound {field.name} is a positive number, not {value!r}")


_MAX_FIELDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that is whole and well-formed, and came to one of the server's own names.

    `repr` leaves out headers, target and body: they hold tokens.
    """

    method: str
    """As it was sent, mostly in capitals."""
    path: str
    """The target before a `?`, byte for byte: nothing is decoded, folded or taken out of it."""
    query: str
    headers: tuple[tuple[str, str], ...]
    """Names in small letters, values as Latin-1, in the order sent."""
    body: bytes = b""
    client: str = ""
    """The address it came from."""

    def __repr__(self) -> str:
        return f"<Request {self.method}>"

    def header(self, name: str) -> str | None:
        """Return the value of a header that was sent exactly once, or None. `name` is in small letters.

        SECURITY: a header that was sent twice is ignored, since a proxy may use the other value.
        """
        values = [value for key, value in self.headers if key == name]
        return values[0] if len(values) == 1 else None

    @property
    def media_type(self) -> str:
        """The type of the body, in small letters, without its parameters; empty if missing or repeated."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def has(self, name: str) -> bool:
        """Return whether a header was sent, once or more often."""
        return any(key == name for key, _ in self.headers)

    def query_fields(self) -> dict[str, str] | None:
        """Return the fields of the query, or None if it is not a form or repeats a field."""
        return _fields(self.query)

    def form_fields(self) -> dict[str, str] | None:
        """Return the fields of a body of `application/x-www-form-urlencoded`, or None for other content."""
        if self.media_type != "application/x-www-form-urlencoded":
            return None
        try:
            return _fields(self.body.decode("ascii"))
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response. A body that is a generator is sent piece by piece as it comes (RFC 9112, 7.1) and closed at its end.

    Headers that protect a browser are added where they are not set here; framing is the server's.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | AsyncGenerator[bytes, None] = b""


Handler = Callable[[Request], Awaitable[Response]]
"""Answers a request. It is cancelled when the client goes away; an error that leaves it becomes a plain 500."""


def plain(status: int, text: str = "", *, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """Return a response of one line of text: the status phrase by default."""
    line = text or HTTPStatus(status).phrase
    return Response(
        status=status, headers=(("content-type", "text/plain; charset=utf-8"), *headers), body=f"{line}\n".encode()
    )


def _fields(text: str) -> dict[str, str] | None:
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        return None if text else {}
    fields = dict(pairs)
    return fields if len(fields) == len(pairs) else None


_FRAMING = ("connection", "content-length", "keep-alive", "transfer-encoding", "upgrade")
_DEFAULTS = (
    ("content-security-policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    # `no-referrer` would have a browser send `Origin: null` with the forms of our own pages (Fetch, 3.2).
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)


def response_headers(response: Response) -> list[tuple[str, str]]:
    """Return a response's headers and the defaults that it does not set, without framing headers.

    SECURITY: where nothing else is said, a response is for the origin that asked: not kept, not framed, not sniffed,
    and nothing in it runs or loads anything.
    """
    headers = [(name.lower(), value) for name, value in response.headers]
    if wrong := [name for name, _ in headers if name in _FRAMING]:
        raise ValueError(f"{wrong[0]} is the server's to set")
    known = {name for name, _ in headers}
    headers += [(name, value) for name, value in _DEFAULTS if name not in known]
    headers.append(("date", formatdate(usegmt=True)))  # RFC 9110, 6.6.1
    return headers
