"""The response that a caller gets. Injected secrets are removed from it, even if they are split into pieces."""

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
    """A redacted response: its status, its headers, and a body that is read at once or in pieces.

    SECURITY: a server may echo a request. The scanner knows every injected value in all its encodings. It also finds a
    value that is split, for example into halves in any order, in headers or in the body, in this response or the next.
    A partial response may contain a piece that is too short to be recognised, so partial responses are refused.

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
        pass_unopened: str | None,
    ) -> None:
        """Redact the headers of `response`.

        `secret_names` are the secrets in the request. `bodyless` means that it was a HEAD request.
        `pass_unopened` is the operator's setting that passes on content that could not be decoded, or None.
        """
        self._call = call
        self._pass_unopened = pass_unopened
        self._recorded: set[Reason] = set()
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
            """The headers in the received order, with duplicates, without headers that the caller must not see."""
        except BaseException:
            self.close()
            raise

    def read_all(self) -> bytes:
        """Return the complete body.

        Raises:
            HttpFailure: the body is incomplete, exceeds a limit, or must be withheld because of a secret.
        """
        scanner = self._call.scanner.partial
        gathered = BytesIO()  # unlike joining, needs the memory only once
        for piece in self._pieces:
            gathered.write(piece)
        body = gathered.getvalue()
        if not body or self._is_plain(scanner):
            return body
        report = self._check_report(scanner.scan_bytes(body, direction=Direction.INWARD))
        return cut_out(body, report.matches)

    def read(self) -> bytes:
        """Wait for the next redacted piece of the body, and return it; return b"" at the end of the body.

        Raises:
            HttpFailure: see `read_all`.
        """
        scanner = self._call.scanner.partial
        if self._stream is None and self._is_plain(scanner):
            return bytes(next(self._pieces, b""))
        if self._stream is None:
            passed = self._pass_unopened is not None
            self._stream = StreamingRedactor(scanner, direction=Direction.INWARD, pass_unopened=passed)
        self._stream.scanner = scanner  # this scanner also finds secrets that were injected since the last piece
        shown = b""
        while not shown and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            shown = self._stream.finish() if piece is None else self._stream.feed(piece)
            if self._stream.blocked is not None:
                self.close()
                raise _blocking_failure(self._call, self._stream.blocked.rule)
            self._record(self._stream.unscanned, self._stream.secret)
        return shown

    def _check_report(self, report: LeakReport) -> LeakReport:
        """Return `report` with the matches to redact; record redacted secrets and content that was not scanned.

        Raises:
            HttpFailure: the body must be withheld.
        """
        unscanned = report.unscanned
        if self._pass_unopened:
            report = report.without_unopened()
        if report.should_block:
            raise _blocking_failure(self._call, next(m.rule for m in report.matches if m.action is Action.BLOCK))
        self._record(unscanned, report.secret)
        return report

    def _record(self, unscanned: str | None, secret: str | None) -> None:
        """Record that a response was not completely scanned, or that a secret was redacted; each fact at most once."""
        if unscanned == DECODE_LIMIT_RULE:
            unscanned = self._pass_unopened or unscanned
        for reason, rule in ((Reason.NOT_SCANNED, unscanned), (Reason.LEAK, secret)):
            if rule is not None and reason not in self._recorded:
                self._recorded.add(reason)
                self._call.decide(Decision(True, reason, rule, None, "http", "the response"))

    def _is_plain(self, scanner: LeakScanner) -> bool:
        """Return whether nothing has to be redacted, because the sender is the host and no secret was injected yet."""
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
        setting = "network.unsafe_unscanned_responses"
        hint = f"request the content unpacked, or ask an operator to add its host, path and content type to {setting}"
        decision = Decision(False, Reason.NOT_SCANNED, rule, hint, "http", "the response")
        call.decide(decision)
        message = "the response was withheld, because it could not be decoded to search it for secrets"
        kind = FailureKind.OPERATION_FAILED
        return HttpFailure(kind, "response-not-scanned", message, request_sent=True, decision=decision)
    hint = "no setting allows it, because tools must not read secrets; request a response without the secret"
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
    lines = "\n".join(f"{name}: {value}" for name, value in headers)
    values, names = "".join(value for _, value in headers), "".join(name + value for name, value in headers)
    report = scanner.scan(f"{values}\n.\n{names}\n.\n{lines}" if scanner.has_secrets else lines)
    if not report:
        return headers  # one search finds nothing in most responses
    received, whole = headers, scanner.scan(lines)
    if whole.unscanned is not None:
        hint = "no setting allows it; use a server whose headers can be decoded"
        call.decide(Decision(False, Reason.NOT_SCANNED, whole.unscanned, hint, "http", "the response's headers"))
    if whole.matches:
        redact = scanner.redact
        headers = tuple((name, redact(value)) for name, value in headers if redact(name) == name)
    # Removing a header makes its neighbours adjacent, so repeat until nothing is found. Each round removes a header.
    while scanner.has_secrets and (split := _headers_with_parts(call, headers)):
        headers = tuple(header for at, header in enumerate(headers) if at not in split)
    if report.secret is not None and headers != received:
        call.decide(Decision(True, Reason.LEAK, report.secret, None, "http", "the response's headers"))
    return headers


def _headers_with_parts(call: EgressCall, headers: Headers) -> set[int]:
    """Return the indexes of headers that together contain a secret, in their values or in their names and values."""
    found: set[int] = set()
    for pieces in ([value for _, value in headers], [name + value for name, value in headers]):
        ends = list(accumulate(map(len, pieces)))
        for match in call.scanner.scan("".join(pieces)).matches:
            if match.rule == DECODE_LIMIT_RULE:
                return set(range(len(headers)))
            if match.rule.startswith(SECRET_RULE):  # token formats can appear by chance in joined values
                found.update(range(bisect_right(ends, match.start), bisect_left(ends, match.end) + 1))
    return found
