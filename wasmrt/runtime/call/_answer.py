"""Check params, scan answers before truncating them, and convert failures to `ToolError`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from wasmrt.core.errors import (
    CapabilityDeniedError,
    DeadlineExceededError,
    GuestOutputError,
    InvalidParametersError,
    LeakError,
    NotAuthorizedError,
    SecretError,
    ToolError,
    ToolErrorKind,
    WasmrtError,
)
from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES, MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_PARAMS_BYTES
from wasmrt.core.model import Decision, LogEntry, LogLevel, Reason
from wasmrt.core.strict_json import (
    JsonError,
    JsonFault,
    check_nesting,
    check_size,
    check_text,
    encode_json,
    parse_json,
    read_json,
    utf8_size,
    write_json,
)
from wasmrt.core.terminal import printable_log
from wasmrt.egress.leaks import Action, LeakScanner
from wasmrt.runtime.call._state import WITHHELD, Call
from wasmrt.sandbox.component import cut_line, printable
from wasmrt.sandbox.guest.call import LOG_OVERLAP_BYTES, cut_log


def read_params(params: Any, check: Callable[[], object] | None = None) -> Any:
    """Return `params` as JSON data: text and bytes are parsed, other values returned unchanged.

    `check` is called during long work and may raise to stop it.

    Raises:
        InvalidParametersError: the text is not JSON (RFC 8259), or exceeds the size or depth limit.
    """
    if not isinstance(params, (str, bytes, bytearray)):
        return params
    try:
        return read_json(
            params, max_bytes=MAX_PARAMS_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS, check=check
        )
    except JsonError as error:
        _raise_invalid_params(error)


def write_params(params: Any, check: Callable[[], object] | None = None) -> str:
    """Return `params` as JSON text within the limits. `check` is called during long work and may raise to stop it.

    Raises:
        InvalidParametersError: a value cannot be represented in JSON, or the text exceeds a limit.
    """
    try:
        text = write_json(params, check=check)
        check_size(text, max_bytes=MAX_PARAMS_BYTES)
        check_nesting(text, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
    except JsonError as error:
        _raise_invalid_params(error)
    return text


_HINTS = {
    JsonFault.SIZE: "pass large data by reference",
    JsonFault.PARTS: "pass large data by reference",
    JsonFault.DEPTH: "flatten the data",
    JsonFault.ENCODING: "pass a JSON object as UTF-8 text",
    JsonFault.SYNTAX: "pass a JSON object",
}


def _raise_invalid_params(error: JsonError) -> NoReturn:
    raise InvalidParametersError(f"params are {error}", hint=_HINTS[error.fault]) from error


def tool_error(cause: BaseException) -> BaseException:
    """Return the error to raise to the caller. KeyboardInterrupt and similar exceptions are returned unchanged.

    SECURITY: the message of an unexpected exception may contain anything, so it is not passed on.
    """
    if isinstance(cause, ToolError) or not isinstance(cause, Exception):
        return cause
    if isinstance(cause, (CapabilityDeniedError, SecretError)):
        return NotAuthorizedError(cause.message, code=cause.code, hint=cause.hint)
    if isinstance(cause, LeakError):
        return ToolError(cause.message, code=cause.code, hint=cause.hint, kind=ToolErrorKind.SANDBOX)
    if isinstance(cause, WasmrtError):
        return ToolError(cause.message, code=cause.code, hint=cause.hint)
    return ToolError(
        "a host function failed; this is a bug in wasmrt",
        code="internal", hint="please report this bug", kind=ToolErrorKind.SANDBOX,
    )  # fmt: skip


_ENCODER = json.JSONEncoder(ensure_ascii=False)
_LAST_LINES = 4
_LAST_BYTES = 500
_ADVICE = "note: run with `RUST_BACKTRACE"
_PLAIN = "change the tool to return its result unencoded and uncompressed"


class Answer(NamedTuple):
    """The answer of a tool, as a JSON value and as JSON text."""

    value: Any
    text: str


def read_answer(call: Call, text: str) -> Answer:
    """Parse a guest's JSON text.

    Raises:
        OutputLimitError: the text exceeds the call's output limit.
        GuestOutputError: the text is not valid JSON.
    """
    assert call.guest is not None
    call.guest.charge_text(utf8_size(text))
    try:
        check_nesting(text, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
        value = parse_json(text, check=call.lifetime.check)
        if "\\u" in text:
            check_text(value, check=call.lifetime.check)
        return Answer(value, text)
    except JsonError as error:
        if error.fault in (JsonFault.SIZE, JsonFault.PARTS):
            raise GuestOutputError(f"the tool's answer is {error}", hint="request less data") from error
        raise GuestOutputError(
            "the tool's answer is not JSON", hint="change the tool to serialize its result as JSON"
        ) from error


def scan_answer(call: Call, answer: Answer) -> Answer:
    """Return the answer with secrets redacted.

    Raises:
        LeakError: the answer contains a secret that cannot be redacted, or could not be scanned.
    """
    scanner = call.scanner
    report = scanner.scan(answer.text)
    if report.unscanned is not None:
        passed = not report.should_block
        call.decide(Decision(passed, Reason.NOT_SCANNED, report.unscanned, _PLAIN, "result", "the tool's answer"))
    if not report.matches or all(match.action is Action.WARN for match in report.matches):
        return answer
    if report.should_block and report.unscanned is not None:
        message = "the tool's answer was withheld: it could not be decoded and scanned for secrets"
        raise LeakError(message, code="not-scanned", hint=_PLAIN)
    if report.should_block:
        raise LeakError(f"the tool's answer was withheld: it contains a secret ({report.matches[0].rule})")
    clean = _redact_value(call, scanner, answer.value)
    text = encode_json(_ENCODER, clean)
    # SECURITY: a match across several values, such as a secret in pieces, cannot be redacted in the structure.
    if scanner.redact(text) != text:
        raise LeakError("the tool's answer was withheld: it contains a secret that is split across several values")
    return Answer(clean, text)


def _redact_value(call: Call, scanner: LeakScanner, value: Any) -> Any:
    if isinstance(value, str):
        call.lifetime.check()
        return scanner.redact(value)
    if isinstance(value, list):
        return [_redact_value(call, scanner, item) for item in value]
    if isinstance(value, dict):
        return {scanner.redact(key): _redact_value(call, scanner, item) for key, item in value.items()}
    return value


def clean_logs(call: Call) -> tuple[LogEntry, ...]:
    """Return the guest's log lines without secrets and control characters, each truncated to its limit."""
    if call.guest is None or not call.guest.logs:
        return ()
    call.extend_scan_time()
    entries = []
    late = False
    for entry in call.guest.logs:
        # If one line could not be scanned in time, skip the rest: otherwise each of a thousand lines would time out.
        message = WITHHELD if late else cut_log(_redact_text(call, entry.message, len(cut_log(entry.message))))
        late = late or message == WITHHELD
        # SECURITY: escape after the scan, because an escape sequence inside a secret would hide the secret.
        entries.append(LogEntry(entry.level, printable_log(message), entry.timestamp_ms))
    return tuple(entries)


def clean_line(call: Call, text: str, limit_bytes: int = MAX_ERROR_TEXT_BYTES) -> str:
    """Return text from the guest as one line that may be shown: printable, without secrets, and truncated.

    All text from guests that is shown passes through this function: descriptions, errors, codes, progress messages.
    """
    line = printable(text[: limit_bytes + LOG_OVERLAP_BYTES])
    # Truncation before the scan may have split a secret, so only text within the limit is shown, not the overlap.
    keep = len(line) if len(text) <= limit_bytes + LOG_OVERLAP_BYTES else len(printable(text[:limit_bytes]))
    return cut_line(_redact_text(call, line, keep), limit_bytes)


def join_last_output(call: Call, logs: tuple[LogEntry, ...]) -> str:
    """Return the last warnings and errors in a guest's logs as one line. They explain most crashes."""
    lines = [entry.message for entry in logs if entry.level in (LogLevel.WARN, LogLevel.ERROR)]
    recent = [line for line in lines[-_LAST_LINES:] if line.strip() and not line.startswith(_ADVICE)]
    # Scan again, because a secret may extend across several lines.
    return clean_line(call, " ".join(recent), _LAST_BYTES) if recent else ""


def _redact_text(call: Call, text: str, keep: int) -> str:
    """Redact text that may be truncated; return a note instead of the text if there is no time to scan it."""
    try:
        return call.scanner.partial.redact_start(text, keep)
    except DeadlineExceededError:
        return WITHHELD
