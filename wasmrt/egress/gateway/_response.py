"""The response that a caller gets: no injected secret comes back in it, whole or in pieces."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import accumulate
from types import TracebackType

from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway._exchange import WireResponse
from wasmrt.egress.gateway._headers import Headers, visible_headers
from wasmrt.egress.gateway._model import EgressCall, Face, HttpFailure
from wasmrt.egress.leaks import (
    DECODE_LIMIT_RULE,
    SECRET_RULE,
    Action,
    Direction,
    LeakReport,
    LeakScanner,
    StreamingRedactor,
    cut_out,
)
from wasmrt.sandbox.component.worlds import FailureKind


class Response:
    """A response that may be shown: its status, its redacted headers, and its body, read whole or in pieces. Close it.

    SECURITY: a server may echo a request. The scanner knows every injected value by now, in all its encodings, and
    pieces of it, wherever they stand: halves in any order, in headers or in the body, in this response or in the next.
    A piece may be too short for that, so no response passes that calls itself a part of one.

    Raises:
        HttpFailure: the response is a part (206), and the request had a credential.
    """

    __slots__ = (
        "_body",
        "_call",
        "_ended",
        "_face",
        "_pass_unopened",
        "_pieces",
        "_recorded",
        "_stream",
        "headers",
        "status",
    )

    def __init__(
        self,
        call: EgressCall,
        response: WireResponse,
        secret_names: Sequence[str],
        *,
        bodyless: bool,
        face: Face,
        pass_unopened: bool,
    ) -> None:
        """Redact the headers of `response`, to a request with the secrets `secret_names`; `bodyless` is one to HEAD.

        With `pass_unopened`, which is an operator's decision, content that could not be opened is not withheld.
        """
        self._call = call
        self._pass_unopened = pass_unopened
        self._recorded = False
        self._face = face
        self._body = response.body
        self._pieces: Iterator[bytes | bytearray] = iter(response.body)
        self._stream: StreamingRedactor | None = None
        self._ended = False
        self.status = response.status
        """The status code."""
        try:
            if response.status == 206 and secret_names:
                raise _partial(call, secret_names[0])
            shown = visible_headers(response.headers, bodyless=bodyless, credentials=face is Face.HOST)
            self.headers = _clean_headers(call, shown)
            """In the order received, with duplicates; without the headers that a guest must not see."""
        except BaseException:
            self.close()
            raise

    def read_all(self) -> bytes:
        """Return the whole body.

        Raises:
            HttpFailure: it ended too early or broke a bound, or it holds a secret that blocks it.
        """
        scanner = self._call.scanner.partial
        gathered = BytesIO()  # unlike joined pieces it takes its memory once, and hands it over
        for piece in self._pieces:
            gathered.write(piece)
        body = gathered.getvalue()
        if not body or self._is_plain(scanner):
            return body
        report = self._judged(scanner.scan_bytes(body, direction=Direction.INWARD))
        return cut_out(body, report.matches)

    def read(self) -> bytes:
        """Return the next piece of the body that can be shown; waits for it. Nothing at the end.

        Raises:
            HttpFailure: as for `read_all`.
        """
        scanner = self._call.scanner.partial
        if self._stream is None and self._is_plain(scanner):
            return bytes(next(self._pieces, b""))
        if self._stream is None:
            self._stream = StreamingRedactor(scanner, direction=Direction.INWARD, pass_unopened=self._pass_unopened)
        self._stream.scanner = scanner  # it knows what was injected since into requests that this response may echo
        shown = b""
        while not shown and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            shown = self._stream.finish() if piece is None else self._stream.feed(piece)
            if self._stream.blocked is not None:
                self.close()
                raise _blocked(self._call, self._stream.blocked.rule)
            if self._stream.unscanned is not None:
                self._record(self._stream.unscanned)
        return shown

    def _judged(self, report: LeakReport) -> LeakReport:
        """Return the matches to redact from the body; raise if it is withheld, and record unscanned content."""
        unscanned = report.unscanned
        if self._pass_unopened:
            report = report.without_unopened()
        if report.should_block:
            raise _blocked(self._call, next(m.rule for m in report.matches if m.action is Action.BLOCK))
        if unscanned is not None:
            self._record(unscanned)
        return report

    def _record(self, rule: str) -> None:
        """Record that a response passed without being scanned completely."""
        if not self._recorded:
            self._recorded = True
            why = "network.unsafe_unscanned_hosts" if rule == DECODE_LIMIT_RULE and self._pass_unopened else rule
            self._call.decide(Decision(True, Reason.NOT_SCANNED, why, None, "http", "the response"))

    def _is_plain(self, scanner: LeakScanner) -> bool:
        """Return whether nothing is redacted: the host's own client, and no secret was injected for it so far."""
        return self._face is Face.HOST and not scanner.has_secrets

    def close(self) -> None:
        """Release the connection, whether all was read or not; more than once does nothing."""
        self._pieces = iter(())  # SECURITY: from now on the connection may carry another call's response
        self._body.close()

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _blocked(call: EgressCall, rule: str) -> HttpFailure:
    if rule == DECODE_LIMIT_RULE:
        hint = "ask for it in a plain form; an operator may name its host in network.unsafe_unscanned_hosts"
        decision = Decision(False, Reason.NOT_SCANNED, rule, hint, "http", "the response")
        call.decide(decision)
        message = "the response was withheld: it could not be opened to look for secrets in it"
        kind = FailureKind.OPERATION_FAILED
        return HttpFailure(kind, "response-not-scanned", message, request_sent=True, decision=decision)
    hint = "nothing allows it: no tool reads a secret; ask for what does not hold it"
    decision = Decision(False, Reason.LEAK, rule, hint, "http", "the response")
    call.decide(decision)
    message = "the response holds a secret"
    return HttpFailure(FailureKind.OPERATION_FAILED, "response-leak", message, request_sent=True, decision=decision)


def _partial(call: EgressCall, secret_name: str) -> HttpFailure:
    rule = f"an answer in part (206) to a request with the secret {secret_name}"
    decision = Decision(False, Reason.LEAK, rule, "use a server that answers with the whole", "http", "the response")
    call.decide(decision)
    message = "the server answered with a part, in which a part of a secret would not be recognised"
    return HttpFailure(FailureKind.OPERATION_FAILED, "response-partial", message, request_sent=True, decision=decision)


def _clean_headers(call: EgressCall, headers: Headers) -> Headers:
    scanner = call.scanner.partial
    whole = scanner.scan("\n".join(f"{name}: {value}" for name, value in headers))
    if whole.unscanned is not None:
        hint = "nothing allows it: ask a server whose headers can be read"
        call.decide(Decision(False, Reason.NOT_SCANNED, whole.unscanned, hint, "http", "the response's headers"))
    if whole.matches:
        redact = scanner.redact
        headers = tuple((name, redact(value)) for name, value in headers if redact(name) == name)
    # Dropping a header joins its neighbours, so until nothing is found; each round drops at least one.
    while scanner.has_secrets and _may_be_split(call, headers) and (split := _holders(call, headers)):
        headers = tuple(header for at, header in enumerate(headers) if at not in split)
    return headers


def _may_be_split(call: EgressCall, headers: Headers) -> bool:
    """Return whether the texts of `_holders`, scanned as one, hold a secret; nearly always they do not."""
    values, lines = "".join(value for _, value in headers), "".join(name + value for name, value in headers)
    return bool(call.scanner.scan(f"{values}\n.\n{lines}"))


def _holders(call: EgressCall, headers: Headers) -> set[int]:
    """Return the places of headers that hold a secret only together: pieces in their values, or names and values."""
    found: set[int] = set()
    for pieces in ([value for _, value in headers], [name + value for name, value in headers]):
        ends = list(accumulate(map(len, pieces)))
        for match in call.scanner.scan("".join(pieces)).matches:
            if match.rule == DECODE_LIMIT_RULE:
                return set(range(len(headers)))
            if match.rule.startswith(SECRET_RULE):  # formats may come about by chance where values are joined
                found.update(range(bisect_right(ends, match.start), bisect_left(ends, match.end) + 1))
    return found
