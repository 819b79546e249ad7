"""Params in, answers out: JSON within bounds, answers scanned before they are cut, and failures as `ToolError`."""

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
    parse_json,
    read_json,
    utf8_size,
    write_json,
    written_by,
)
from wasmrt.egress.leaks import Action, LeakScanner
from wasmrt.runtime.call._state import Call
from wasmrt.sandbox.component import cut_line, printable
from wasmrt.sandbox.guest.call import LOG_OVERLAP_BYTES, cut_log


def read_params(params: Any, check: Callable[[], object] | None = None) -> Any:
    """Return `params` as JSON data: a mapping as it is, a text or bytes parsed; `check` may end what takes long.

    Raises:
        InvalidParametersError: a text that is not JSON (RFC 8259), or is over the size or depth cap.
    """
    if not isinstance(params, (str, bytes, bytearray)):
        return params
    try:
        return read_json(
            params, max_bytes=MAX_PARAMS_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS, check=check
        )
    except JsonError as error:
        _refuse(error)


def write_params(params: Any, check: Callable[[], object] | None = None) -> str:
    """Return `params` as JSON text within the caps; `check` may end what takes long.

    Raises:
        InvalidParametersError: something in them is not JSON, or they are over a cap.
    """
    try:
        text = write_json(params, check=check)
        check_size(text, max_bytes=MAX_PARAMS_BYTES)
        check_nesting(text, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
    except JsonError as error:
        _refuse(error)
    return text


_HINTS = {
    JsonFault.SIZE: "pass large data by reference",
    JsonFault.PARTS: "pass large data by reference",
    JsonFault.DEPTH: "flatten them",
    JsonFault.ENCODING: "pass a JSON object as UTF-8 text",
    JsonFault.SYNTAX: "pass a JSON object",
}


def _refuse(error: JsonError) -> NoReturn:
    raise InvalidParametersError(f"params are {error}", hint=_HINTS[error.fault]) from error


def tool_error(cause: BaseException) -> BaseException:
    """Return the error that the caller gets. KeyboardInterrupt and its like pass through unchanged.

    SECURITY: the text of an exception that nobody foresaw may hold anything, so none of it is passed on.
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
        "a host function broke; this is a bug in wasmrt",
        code="internal", hint="please report it", kind=ToolErrorKind.SANDBOX,
    )  # fmt: skip


_ENCODER = json.JSONEncoder(ensure_ascii=False)
_LAST_LINES = 4
_LAST_BYTES = 500
_ADVICE = "note: run with `RUST_BACKTRACE"
_PLAIN = "have the tool answer in a plain form"
_LATE = "[withheld: it could not be scanned in time]"


class Answer(NamedTuple):
    """A tool's answer: the JSON value, and its text."""

    value: Any
    text: str


def read_answer(call: Call, text: str) -> Answer:
    """Read a guest's JSON text.

    Raises:
        OutputLimitError: it is over the call's cap.
        GuestOutputError: it is no JSON that anybody could pass on.
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
        raise GuestOutputError(
            "the tool answered with something that is not JSON", hint="have the tool serialize its result"
        ) from error


def scan_answer(call: Call, answer: Answer) -> Answer:
    """Return the answer without secrets.

    Raises:
        LeakError: it holds one that cannot be cut out.
    """
    scanner = call.scanner
    report = scanner.scan(answer.text)
    if report.unscanned is not None:
        passed = not report.should_block
        call.decide(Decision(passed, Reason.NOT_SCANNED, report.unscanned, _PLAIN, "result", "the tool's answer"))
    if not report.matches or all(match.action is Action.WARN for match in report.matches):
        return answer
    if report.should_block and report.unscanned is not None:
        message = "the tool's answer was withheld: it could not be opened to look for secrets in it"
        raise LeakError(message, code="not-scanned", hint=_PLAIN)
    if report.should_block:
        raise LeakError(f"the tool's answer holds a secret ({report.matches[0].rule}) and was withheld")
    clean = _redacted(call, scanner, answer.value)
    text = written_by(_ENCODER, clean)
    # SECURITY: what only shows across values, such as a secret cut into pieces, cannot be cut out of the structure.
    if scanner.redact(text) != text:
        raise LeakError("the tool's answer holds a secret in pieces and was withheld")
    return Answer(clean, text)


def _redacted(call: Call, scanner: LeakScanner, value: Any) -> Any:
    if isinstance(value, str):
        call.lifetime.check()
        return scanner.redact(value)
    if isinstance(value, list):
        return [_redacted(call, scanner, item) for item in value]
    if isinstance(value, dict):
        return {scanner.redact(key): _redacted(call, scanner, item) for key, item in value.items()}
    return value


def clean_logs(call: Call) -> tuple[LogEntry, ...]:
    """Return the guest's log lines without secrets, each under its cap."""
    if call.guest is None or not call.guest.logs:
        return ()
    call.closing()
    entries = []
    late = False
    for entry in call.guest.logs:
        # After the first that is late none is begun: a thousand of them would take a thousand times what one takes.
        message = _LATE if late else cut_log(_scanned(call, entry.message, len(cut_log(entry.message))))
        late = late or message == _LATE
        entries.append(LogEntry(entry.level, message, entry.timestamp_ms))
    return tuple(entries)


def clean_line(call: Call, text: str, limit_bytes: int = MAX_ERROR_TEXT_BYTES) -> str:
    """Return a text of the guest's as one line that may be shown: printable, without secrets, and then cut.

    The one way for every such text: what it says of itself, its errors and codes, its reports of progress.
    """
    line = printable(text[: limit_bytes + LOG_OVERLAP_BYTES])
    # What was cut off before the scan may have cut a secret in two: of that only what is in front of the cap is shown.
    keep = len(line) if len(text) <= limit_bytes + LOG_OVERLAP_BYTES else len(printable(text[:limit_bytes]))
    return cut_line(_scanned(call, line, keep), limit_bytes)


def last_words(call: Call, logs: tuple[LogEntry, ...]) -> str:
    """Return the last that a guest wrote to its standard error or logged as a warning: the reason of most crashes."""
    lines = [entry.message for entry in logs if entry.level in (LogLevel.WARN, LogLevel.ERROR)]
    told = [line for line in lines[-_LAST_LINES:] if line.strip() and not line.startswith(_ADVICE)]
    # Scanned again: what is in one line here was in several.
    return clean_line(call, " ".join(told), _LAST_BYTES) if told else ""


def _scanned(call: Call, text: str, keep: int) -> str:
    """Redact a text that was perhaps cut; a note in its place where the time does not suffice to look."""
    try:
        return call.scanner.partial.redact_start(text, keep)
    except DeadlineExceededError:
        return _LATE
