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
    """Limits of one server. Memory is at most about `connections` times the sum of `head_bytes` and `body_bytes`.

    Raises:
        ConfigurationError: a limit is not a positive number.
    """

    connections: int = 256
    """Concurrent connections of all clients.

    One more connection ends the oldest one that has no admitted request. If there is none, the new one receives 503.
    """
    connections_per_client: int = 192
    """Concurrent connections of one IPv4 address, or of one /64 of IPv6 (RFC 4291, 2.5.4).

    All programs on this machine count as one client.
    """
    head_bytes: int = 32 * KIB
    """Size of the request line and the headers; larger requests receive 431."""
    headers: int = 100
    body_bytes: int = MIB
    """Size of a body, declared or chunked; larger requests receive 413."""
    idle_seconds: float = 60.0
    """Time to wait for a connection's first request, and for each further request."""
    head_seconds: float = 10.0
    """Time from the first to the last byte of a request's head; slower requests receive 408."""
    body_seconds: float = 60.0
    """Time from the end of a request's head to the end of its body."""
    write_seconds: float = 30.0
    """Time in which a client must read 64 KiB of a response."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ConfigurationError(f"the web server limit {field.name} must be a positive number, got {value!r}")


_MAX_FIELDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A complete, well-formed request for one of the server's own host names.

    `repr` omits headers, target and body, since they may contain tokens.
    """

    method: str
    """The method as sent, usually in upper case."""
    path: str
    """The target before `?`, byte for byte, without decoding or normalization."""
    query: str
    headers: tuple[tuple[str, str], ...]
    """Names in lower case, values as Latin-1, in the order sent."""
    body: bytes = b""
    client: str = ""
    """The client's address."""

    def __repr__(self) -> str:
        return f"<Request {self.method}>"

    def header(self, name: str) -> str | None:
        """Return the value of a header that was sent exactly once, or None. `name` is in lower case.

        SECURITY: a repeated header is ignored, since a proxy may use the other value.
        """
        values = [value for key, value in self.headers if key == name]
        return values[0] if len(values) == 1 else None

    @property
    def media_type(self) -> str:
        """The media type of the body, in lower case, without parameters; empty if missing or repeated."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def has(self, name: str) -> bool:
        """Return whether a header was sent at least once."""
        return any(key == name for key, _ in self.headers)

    def query_fields(self) -> dict[str, str] | None:
        """Return the fields of the query, or None if it is malformed or repeats a field."""
        return _read_fields(self.query)

    def read_form(self) -> dict[str, str] | None:
        """Return the fields of a body of `application/x-www-form-urlencoded`, or None for other content."""
        if self.media_type != "application/x-www-form-urlencoded":
            return None
        try:
            return _read_fields(self.body.decode("ascii"))
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response. If the body is a generator, its pieces are sent as they arrive (RFC 9112, 7.1), and it is closed.

    Default headers that protect browsers are added unless set. The server sets the framing headers.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | AsyncGenerator[bytes, None] = b""


Handler = Callable[[Request], Awaitable[Response]]
"""Handles a request. It is cancelled if the client disconnects; an exception becomes a plain 500."""


def plain(status: int, text: str = "", *, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """Return a response of one line of text: the status phrase by default."""
    line = text or HTTPStatus(status).phrase
    return Response(
        status=status, headers=(("content-type", "text/plain; charset=utf-8"), *headers), body=f"{line}\n".encode()
    )


def _read_fields(text: str) -> dict[str, str] | None:
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
    # With `no-referrer`, browsers would send `Origin: null` with forms of these pages (Fetch, 3.2).
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)


def response_headers(response: Response) -> list[tuple[str, str]]:
    """Return a response's headers with defaults, without framing headers.

    SECURITY: by default, a response is for the requesting origin only: not stored, framed or sniffed, and it may not
    run or load anything.
    """
    headers = [(name.lower(), value) for name, value in response.headers]
    if wrong := [name for name, _ in headers if name in _FRAMING]:
        raise ValueError(f"{wrong[0]} is set by the server")
    known = {name for name, _ in headers}
    headers += [(name, value) for name, value in _DEFAULTS if name not in known]
    headers.append(("date", formatdate(usegmt=True)))  # RFC 9110, 6.6.1
    return headers
