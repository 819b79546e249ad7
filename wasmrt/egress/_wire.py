"""A request as it leaves and a response as it came: the values between the door and the client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from wasmrt.limits import MAX_HEADER_BYTES

if TYPE_CHECKING:
    from wasmrt.egress._exchange import Exchange


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
    """The body of a response, its codings undone, as it comes in. Iterated once."""

    def __iter__(self) -> Iterator[bytes | bytearray]:
        """Yield what has come in; raises `HttpFailure` where it ended too early or broke a bound."""

    def close(self) -> None:
        """Let go of the connection, whether all was read or not; more than once does nothing."""


class WholeBody:
    """A body that is already here."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        if self._content:
            yield self._content

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True, repr=False)
class RawResponse:
    """A response as it comes, its content codings undone; nothing is dropped or replaced yet. Close the body."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: Body


class Transport(Protocol):
    """Sends what the door has judged, and nothing else. Called from many threads."""

    def send(
        self, request: WireRequest, addresses: Sequence[str], exchange: Exchange, max_response_bytes: int
    ) -> RawResponse:
        """Return the answer as soon as its head is here, or raise `HttpFailure`."""

    def close(self) -> None: ...


def wire_budget(max_response_bytes: int) -> int:
    """Return how many bytes may come in on the wire for a response of that size: framing is not free."""
    return max_response_bytes + MAX_HEADER_BYTES
