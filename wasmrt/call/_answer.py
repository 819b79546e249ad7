"""A guest's answer on its way out: read under the output cap, then scanned. Nobody truncates before that."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from wasmrt.call._state import Call
from wasmrt.errors import DeadlineExceededError, GuestOutputError, LeakError
from wasmrt.guest.call import cut_log
from wasmrt.leaks import Action, LeakScanner
from wasmrt.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS
from wasmrt.model import LogEntry
from wasmrt.strict_json import JsonError, check_nesting, check_text, parse_json, utf8_size


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
        value = parse_json(text)
        if "\\u" in text:
            check_text(value)
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
    if not report.matches or all(match.action is Action.WARN for match in report.matches):
        return answer
    if report.should_block:
        raise LeakError(f"the tool's answer holds a secret ({report.matches[0].rule}) and was withheld")
    clean = _redacted(call, scanner, answer.value)
    text = json.dumps(clean, ensure_ascii=False)
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
    return tuple(
        LogEntry(entry.level, cut_log(clean_text(call, entry.message)), entry.timestamp_ms) for entry in call.guest.logs
    )


def clean_text(call: Call, text: str) -> str:
    """Return a text of the guest's without secrets; a note in its place where the time did not suffice to look."""
    try:
        return call.scanner.redact(text)
    except DeadlineExceededError:
        return "[withheld: it could not be scanned in time]"
