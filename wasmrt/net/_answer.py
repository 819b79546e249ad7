"""What a guest may see of an answer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from wasmrt.leaks import Direction
from wasmrt.model import Decision, Reason
from wasmrt.net._headers import Headers, visible_headers
from wasmrt.net._model import DoorCall, FailureKind, HttpFailure, HttpResponse
from wasmrt.net._wire import RawResponse

# The rules that know a value, not a format: formats may come about by chance where values are joined.
_EXACT = "secret:"


def clean_answer(call: DoorCall, raw: RawResponse, secret_names: Sequence[str], *, bodyless: bool) -> HttpResponse:
    """Drop what a guest must not see, replace what it must not read.

    SECURITY: a server may echo a request. The scanner knows every injected value by now, in all its encodings;
    but not in a part of an answer, so none of those is passed on.

    Raises:
        HttpFailure: the answer is a part, or what it holds is to be blocked.
    """
    if raw.status == 206 and secret_names:
        raise _partial(call, secret_names[0])
    body = raw.body
    report = call.scanner.scan_bytes(body, direction=Direction.INWARD)
    if report.should_block:
        decision = Decision(False, Reason.LEAK, report.matches[0].rule, None, "http", "the response")
        call.decide(decision)
        raise HttpFailure(
            FailureKind.OPERATION_FAILED,
            "response-leak",
            "the response holds a secret",
            request_sent=True,
            decision=decision,
        )
    if report.matches:
        body = call.scanner.redact_bytes(body, direction=Direction.INWARD)
    return HttpResponse(raw.status, _clean_headers(call, visible_headers(raw.headers, bodyless=bodyless)), body)


def _partial(call: DoorCall, secret_name: str) -> HttpFailure:
    rule = f"an answer in part (206) to a request with the secret {secret_name}"
    decision = Decision(False, Reason.LEAK, rule, "use a server that answers with the whole", "http", "the response")
    call.decide(decision)
    message = "the server answered with a part, in which a part of a secret would not be recognised"
    return HttpFailure(FailureKind.OPERATION_FAILED, "response-partial", message, request_sent=True, decision=decision)


def _clean_headers(call: DoorCall, headers: Headers) -> Headers:
    if call.scanner.scan("\n".join(f"{name}: {value}" for name, value in headers)).matches:
        redact = call.scanner.redact
        headers = tuple((name, redact(value)) for name, value in headers if redact(name) == name)
    # What is left may meet anew, so until nothing is found; each round drops a header.
    while split := _holders(call, headers):
        headers = tuple(header for at, header in enumerate(headers) if at not in split)
    return headers


def _holders(call: DoorCall, headers: Headers) -> set[int]:
    """Return the places of headers that hold a secret only together: pieces in their values, or names and values."""
    found: set[int] = set()
    for pieces in ([value for _, value in headers], [name + value for name, value in headers]):
        ends = list(accumulate(map(len, pieces)))
        for match in call.scanner.scan("".join(pieces)).matches:
            if match.rule.startswith(_EXACT):
                found.update(range(bisect_right(ends, match.start), bisect_left(ends, match.end) + 1))
    return found
