"""What a guest may see of an answer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING

from wasmrt.egress._headers import Headers, visible_headers
from wasmrt.egress._incoming import Incoming
from wasmrt.egress._model import DoorCall, FailureKind, HttpFailure, HttpResponse
from wasmrt.leaks import SECRET_RULE, Direction
from wasmrt.model import Decision, Reason

if TYPE_CHECKING:
    from wasmrt.leaks import ReleasingStream


class Answer:
    """The head of an answer, and its body whole or as it comes: one or the other. Close it.

    SECURITY: a server may echo a request. The scanner knows every injected value by now, in all its encodings, and
    pieces of it, wherever they stand: halves in any order, in headers or in the body, in this answer or in the next.
    A piece may be too short for that, so nothing is passed on that calls itself a part of an answer.

    Raises:
        HttpFailure: the answer is a part.
    """

    def __init__(self, call: DoorCall, incoming: Incoming, secret_names: Sequence[str], *, bodyless: bool) -> None:
        self._call = call
        self._incoming = incoming
        self._pieces: Iterator[bytes | bytearray] = iter(incoming)
        self._stream: ReleasingStream | None = None
        self._ended = False
        self.status = incoming.status
        """The status code."""
        try:
            if incoming.status == 206 and secret_names:
                raise _partial(call, secret_names[0])
            self.headers = _clean_headers(call, visible_headers(incoming.headers, bodyless=bodyless))
            """In the order received, with duplicates; those are gone that a guest must not see."""
        except BaseException:
            incoming.close()
            raise

    def whole(self) -> HttpResponse:
        """Return the answer with all of its body.

        Raises:
            HttpFailure: the body ended too early or broke a bound, or what it holds is to be blocked.
        """
        scanner = self._call.scanner.strict
        gathered = BytesIO()  # unlike joined pieces it takes its memory once, and hands it over
        for piece in self._pieces:
            gathered.write(piece)
        body = gathered.getvalue()
        if not body:
            return HttpResponse(self.status, self.headers, body)
        report = scanner.scan_bytes(body, direction=Direction.INWARD)
        if report.should_block:
            raise _blocked(self._call, report.matches[0].rule)
        if report.matches:
            body = scanner.redact_bytes(body, direction=Direction.INWARD)
        return HttpResponse(self.status, self.headers, body)

    def read(self) -> bytes:
        """Return the next piece of the body that can be shown; waits for it. Nothing at the end.

        Raises:
            HttpFailure: as for `whole`.
        """
        scanner = self._call.scanner.strict
        if self._stream is None:
            self._stream = scanner.releasing(direction=Direction.INWARD)
        self._stream.scanner = scanner  # it knows what was injected since into requests that this answer may echo
        shown = b""
        while not shown and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            shown = self._stream.finish() if piece is None else self._stream.feed(piece)
            if self._stream.blocked is not None:
                self.close()
                raise _blocked(self._call, self._stream.blocked.rule)
        return shown

    def close(self) -> None:
        """Let go of the connection, whether all was read or not; more than once does nothing."""
        self._pieces = iter(())  # SECURITY: from now on the connection may carry the answer to somebody else
        self._incoming.close()

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _blocked(call: DoorCall, rule: str) -> HttpFailure:
    decision = Decision(False, Reason.LEAK, rule, None, "http", "the response")
    call.decide(decision)
    message = "the response holds a secret"
    return HttpFailure(FailureKind.OPERATION_FAILED, "response-leak", message, request_sent=True, decision=decision)


def _partial(call: DoorCall, secret_name: str) -> HttpFailure:
    rule = f"an answer in part (206) to a request with the secret {secret_name}"
    decision = Decision(False, Reason.LEAK, rule, "use a server that answers with the whole", "http", "the response")
    call.decide(decision)
    message = "the server answered with a part, in which a part of a secret would not be recognised"
    return HttpFailure(FailureKind.OPERATION_FAILED, "response-partial", message, request_sent=True, decision=decision)


def _clean_headers(call: DoorCall, headers: Headers) -> Headers:
    scanner = call.scanner.strict
    if scanner.scan("\n".join(f"{name}: {value}" for name, value in headers)).matches:
        redact = scanner.redact
        headers = tuple((name, redact(value)) for name, value in headers if redact(name) == name)
    # What is left may meet anew, so until nothing is found; each round drops a header.
    while scanner.is_primed and _may_meet(call, headers) and (split := _holders(call, headers)):
        headers = tuple(header for at, header in enumerate(headers) if at not in split)
    return headers


def _may_meet(call: DoorCall, headers: Headers) -> bool:
    """Whether anything is found in what `_holders` looks at, as one text: nearly always nothing is."""
    values, lines = "".join(value for _, value in headers), "".join(name + value for name, value in headers)
    return bool(call.scanner.scan(f"{values}\n.\n{lines}"))


def _holders(call: DoorCall, headers: Headers) -> set[int]:
    """Return the places of headers that hold a secret only together: pieces in their values, or names and values."""
    found: set[int] = set()
    for pieces in ([value for _, value in headers], [name + value for name, value in headers]):
        ends = list(accumulate(map(len, pieces)))
        for match in call.scanner.scan("".join(pieces)).matches:
            if match.rule.startswith(SECRET_RULE):  # formats may come about by chance where values are joined
                found.update(range(bisect_right(ends, match.start), bisect_left(ends, match.end) + 1))
    return found
