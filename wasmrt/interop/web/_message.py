"""A request and its response, as handlers see them: no connection, no protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl

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

        SECURITY: of a header that was sent twice neither value counts; who reads the first is told apart from who
        reads the last by nobody.
        """
        values = [value for key, value in self.headers if key == name]
        return values[0] if len(values) == 1 else None

    @property
    def media_type(self) -> str:
        """The type of the body, in small letters, without its parameters; empty where none or several were sent."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    def has(self, name: str) -> bool:
        """Return whether a header was sent, once or more often."""
        return any(key == name for key, _ in self.headers)

    def query_fields(self) -> dict[str, str] | None:
        """Return the fields of the query, or None where it is no form or names one twice."""
        return _fields(self.query)

    def form_fields(self) -> dict[str, str] | None:
        """Return the fields of a body of `application/x-www-form-urlencoded`, or None where it is something else."""
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
    """Return a response of one line of text: the status in words, unless another is given."""
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
