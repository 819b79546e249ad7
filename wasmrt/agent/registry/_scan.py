"""The leak scan of what a tool outside of the sandbox answers; a component's answer has been scanned in its call."""

from __future__ import annotations

import time
from typing import Any

from wasmrt.agent.registry._state import CallState
from wasmrt.core.errors import GuestOutputError, LeakError
from wasmrt.core.limits import MAX_TOOL_OUTPUT_BYTES
from wasmrt.core.model import Decision, LogEntry, Reason, ToolOutput
from wasmrt.core.strict_json import JsonError, utf8_size, write_json
from wasmrt.egress.leaks import Action, LeakDetector

_PLAIN = "have the tool answer in a plain form"


def scanned(state: CallState, output: ToolOutput) -> ToolOutput:
    """Return the output without secrets.

    Raises:
        LeakError: it holds one that cannot be cut out, or could not be opened to look.
        GuestOutputError: it is no JSON data, or over the cap.
    """
    if state.known.is_component:
        return output
    try:
        text = write_json(output.result)
    except JsonError as error:
        raise GuestOutputError(f"the tool's answer is {error}", hint="have the tool return JSON data") from error
    if utf8_size(text) > MAX_TOOL_OUTPUT_BYTES:
        raise GuestOutputError(
            f"the tool's answer is over {MAX_TOOL_OUTPUT_BYTES:,} bytes", code="output-too-large",
            hint="have the tool answer with less",
        )  # fmt: skip
    if not output.usage.wall_seconds:
        seconds = round(output.duration or time.monotonic() - state.started, 6)
        output = output._replace(usage=output.usage._replace(wall_seconds=seconds, output_bytes=len(text)))
    return _clean(state, output._replace(logs=clean_logs(state, output.logs)), text)


def clean_logs(state: CallState, logs: tuple[LogEntry, ...]) -> tuple[LogEntry, ...]:
    """Return log lines without secrets."""
    redact = state.system.detector.redact
    return tuple(entry._replace(message=redact(entry.message)) for entry in logs)


def _clean(state: CallState, output: ToolOutput, text: str) -> ToolOutput:
    detector, name = state.system.detector, state.known.name
    report = detector.scan(text)
    if report.unscanned is not None:
        passed = not report.should_block
        state.decisions.append(Decision(passed, Reason.NOT_SCANNED, report.unscanned, _PLAIN, "result", name))
    if report.should_block:
        said = "could not be opened to look for secrets" if report.unscanned else "holds a secret"
        raise LeakError(f"the tool's answer {said} and was withheld", hint="have the tool answer without it")
    if all(match.action is Action.WARN for match in report.matches):
        return output._replace(raw=text)
    clean = _redacted(detector, output.result)
    text = write_json(clean)
    # SECURITY: what only shows across values cannot be cut out of the structure.
    if detector.redact(text) != text:
        raise LeakError("the tool's answer holds a secret in pieces and was withheld")
    return output._replace(result=clean, raw=text)


def _redacted(detector: LeakDetector, value: Any) -> Any:
    if isinstance(value, str):
        return detector.redact(value)
    if isinstance(value, list):
        return [_redacted(detector, item) for item in value]
    if isinstance(value, dict):
        return {detector.redact(key): _redacted(detector, item) for key, item in value.items()}
    return value
