"""A request and a response as they are on the wire, and the interface of the client that carries them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from wasmrt.egress.gateway._budget import ExchangeBudget


@dataclass(frozen=True, slots=True, repr=False)
class WireRequest:
    """A request as it goes on the wire, secrets included. Has no repr: it is never to be shown."""

    method: str
    scheme: str
    host: str
    port: int
    target: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes | None


class Body(Protocol):
    """The body of a response, its content codings undone, as it comes in. Iterated once."""

    def __iter__(self) -> Iterator[bytes | bytearray]:
        """Yield the pieces as they come; raises `HttpFailure` where it ended too early or broke a bound."""

    def close(self) -> None:
        """Release the connection, whether all was read or not; more than once does nothing."""


class WholeBody:
    """A body that is already here."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        if self._content:
            yield self._content

    def close(self) -> None:
        """Do nothing: there is no connection."""


@dataclass(frozen=True, slots=True, repr=False)
class WireResponse:
    """A response as it comes, its content codings undone; nothing is redacted yet. Close the body."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: Body


class Transport(Protocol):
    """Sends checked requests, and nothing else. Called from many threads."""

    def send(self, request: WireRequest, addresses: Sequence[str], budget: ExchangeBudget) -> WireResponse:
        """Return the response as soon as its head is here, or raise `HttpFailure`."""

    def close(self) -> None:
        """Close the connections that nobody uses."""
