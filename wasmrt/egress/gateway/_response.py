"""The response that a caller gets: injected secrets are removed from it, whole or in pieces."""

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
    """A response that can be passed on: status, redacted headers, and a body that is read at once or in pieces.

    SECURITY: a server may echo a request. The scanner knows every injected value in all its encodings, and finds pieces
    of it anywhere: halves in any order, in headers or in the body, in this response or the next. Pieces can be too
    short to be recognised, so partial responses are refused.

    Raises:
        HttpFailure: the response is partial (206), and the request had a credential.
    """

    __slots__ = (
        "_body", "_call", "_ended", "_face", "_pass_unopened", "_pieces", "_recorded", "_stream", "headers", "status",
    )  # fmt: skip

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
        """Redact the headers of `response`; the request had the secrets `secret_names`, and was HEAD if `bodyless`.

        With `pass_unopened`, an operator's setting, content that could not be decoded is not withheld.
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
                raise _partial_failure(call, secret_names[0])
            shown = visible_headers(response.headers, bodyless=bodyless, credentials=face is Face.HOST)
            self.headers = _clean_headers(call, shown)
            """In the received order, with duplicates; without the headers that a guest must not see."""
        except BaseException:
            self.close()
            raise

    def read_all(self) -> bytes:
        """Return the whole body.

        Raises:
            HttpFailure: the body is incomplete, exceeds a bound, or contains a secret that blocks it.
        """
        scanner = self._call.scanner.partial
        gathered = BytesIO()  # unlike joining, needs the memory only once
        for piece in self._pieces:
            gathered.write(piece)
        body = gathered.getvalue()
        if not body or self._is_plain(scanner):
            return body
        report = self._checked_report(scanner.scan_bytes(body, direction=Direction.INWARD))
        return cut_out(body, report.matches)

    def read(self) -> bytes:
        """Wait for the next piece of the body that can be passed on; return b"" at the end.

        Raises:
            HttpFailure: see `read_all`.
        """
        scanner = self._call.scanner.partial
        if self._stream is None and self._is_plain(scanner):
            return bytes(next(self._pieces, b""))
        if self._stream is None:
            self._stream = StreamingRedactor(scanner, direction=Direction.INWARD, pass_unopened=self._pass_unopened)
        self._stream.scanner = scanner  # the current one also finds secrets that were injected since the last piece
        shown = b""
        while not shown and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            shown = self._stream.finish() if piece is None else self._stream.feed(piece)
            if self._stream.blocked is not None:
                self.close()
                raise _blocking_failure(self._call, self._stream.blocked.rule)
            if self._stream.unscanned is not None:
                self._record(self._stream.unscanned)
        return shown

    def _checked_report(self, report: LeakReport) -> LeakReport:
        """Return the matches to redact from the body. Raise if the body is withheld; record unscanned content."""
        unscanned = report.unscanned
        if self._pass_unopened:
            report = report.without_unopened()
        if report.should_block:
            raise _blocking_failure(self._call, next(m.rule for m in report.matches if m.action is Action.BLOCK))
        if unscanned is not None:
            self._record(unscanned)
        return report

    def _record(self, rule: str) -> None:
        """Record that a response was passed on without a complete scan."""
        if not self._recorded:
            self._recorded = True
            why = "network.unsafe_unscanned_hosts" if rule == DECODE_LIMIT_RULE and self._pass_unopened else rule
            self._call.decide(Decision(True, Reason.NOT_SCANNED, why, None, "http", "the response"))

    def _is_plain(self, scanner: LeakScanner) -> bool:
        """Return whether nothing has to be redacted: the sender is the host, and no secret was injected so far."""
        return self._face is Face.HOST and not scanner.has_secrets

    def close(self) -> None:
        """Release the connection, even if the body was not read completely. Safe to call twice."""
        self._pieces = iter(())  # SECURITY: the connection may carry another call's response from now on
        self._body.close()

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _blocking_failure(call: EgressCall, rule: str) -> HttpFailure:
    if rule == DECODE_LIMIT_RULE:
        hint = "request it unpacked; an operator may add its host to network.unsafe_unscanned_hosts"
        decision = Decision(False, Reason.NOT_SCANNED, rule, hint, "http", "the response")
        call.decide(decision)
        message = "the response was withheld: it could not be decoded to look for secrets"
        kind = FailureKind.OPERATION_FAILED
        return HttpFailure(kind, "response-not-scanned", message, request_sent=True, decision=decision)
    hint = "nothing allows it: tools must not read secrets; request a response without the secret"
    decision = Decision(False, Reason.LEAK, rule, hint, "http", "the response")
    call.decide(decision)
    message = "the response contains a secret"
    return HttpFailure(FailureKind.OPERATION_FAILED, "response-leak", message, request_sent=True, decision=decision)


def _partial_failure(call: EgressCall, secret_name: str) -> HttpFailure:
    rule = f"a partial response (206) to a request with the secret {secret_name}"
    decision = Decision(False, Reason.LEAK, rule, "use a server that sends full responses", "http", "the response")
    call.decide(decision)
    message = "the server sent a partial response, in which a part of a secret might not be recognised"
    return HttpFailure(FailureKind.OPERATION_FAILED, "response-partial", message, request_sent=True, decision=decision)


def _clean_headers(call: EgressCall, headers: Headers) -> Headers:
    scanner = call.scanner.partial
    whole = scanner.scan("\n".join(f"{name}: {value}" for name, value in headers))
    if whole.unscanned is not None:
        hint = "nothing allows it: use a server whose headers can be decoded"
        call.decide(Decision(False, Reason.NOT_SCANNED, whole.unscanned, hint, "http", "the response's headers"))
    if whole.matches:
        redact = scanner.redact
        headers = tuple((name, redact(value)) for name, value in headers if redact(name) == name)
    # Removing a header joins its neighbours, so repeat until nothing is found; each round removes at least one.
    while scanner.has_secrets and _may_be_split(call, headers) and (split := _headers_with_parts(call, headers)):
        headers = tuple(header for at, header in enumerate(headers) if at not in split)
    return headers


def _may_be_split(call: EgressCall, headers: Headers) -> bool:
    """Return whether the joined header texts, in one scan, contain a secret; almost always they do not."""
    values, lines = "".join(value for _, value in headers), "".join(name + value for name, value in headers)
    return bool(call.scanner.scan(f"{values}\n.\n{lines}"))


def _headers_with_parts(call: EgressCall, headers: Headers) -> set[int]:
    """Return the indexes of headers that contain a secret only together: in their values, or in names and values."""
    found: set[int] = set()
    for pieces in ([value for _, value in headers], [name + value for name, value in headers]):
        ends = list(accumulate(map(len, pieces)))
        for match in call.scanner.scan("".join(pieces)).matches:
            if match.rule == DECODE_LIMIT_RULE:
                return set(range(len(headers)))
            if match.rule.startswith(SECRET_RULE):  # token formats can appear by chance in joined values
                found.update(range(bisect_right(ends, match.start), bisect_left(ends, match.end) + 1))
    return found
