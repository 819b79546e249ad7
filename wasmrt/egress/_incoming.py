"""An answer on its way in: what it costs is charged to its call as it comes, and a bound it breaks is on record."""

from __future__ import annotations

from collections.abc import Iterator

from wasmrt.egress._exchange import Exchange
from wasmrt.egress._model import DoorCall, HttpFailure
from wasmrt.egress._wire import RawResponse
from wasmrt.model import Decision, Reason


class Account:
    """What one exchange does to its call. Its origin names it on record: the URL may hold a secret by now."""

    __slots__ = ("_call", "_exchange")

    def __init__(self, call: DoorCall, exchange: Exchange) -> None:
        self._call = call
        self._exchange = exchange

    def charge(self) -> None:
        """Charge the bytes since the last time."""
        sent, received = self._exchange.news()
        if sent or received:
            self._call.charge_http_bytes(sent=sent, received=received)

    def note(self, failure: HttpFailure) -> None:
        """Put a failure on record that an operator can do something about."""
        if failure.code == "response-too-large":
            rule = "the response has more bytes than http.max_response_bytes"
            origin = self._exchange.origin
            self._call.decide(Decision(False, Reason.RESPONSE_TOO_LARGE, rule, failure.hint, "http", origin))


class Incoming:
    """The status and headers of an answer, and its body as it comes. Close it."""

    __slots__ = ("_account", "_body", "headers", "status")

    def __init__(self, account: Account, raw: RawResponse) -> None:
        self._account = account
        self._body = raw.body
        self.status = raw.status
        self.headers = raw.headers

    def __iter__(self) -> Iterator[bytes | bytearray]:
        """Yield the pieces of the body, its codings undone; raises `HttpFailure` where it breaks a bound."""
        try:
            for piece in self._body:
                self._account.charge()
                yield piece
        except HttpFailure as failure:
            self._account.note(failure)
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the connection, whether all was read or not."""
        self._body.close()
        self._account.charge()
