"""Replay a recorded call without access to the network, files, tools or the clock."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from wasmrt.core.errors import ToolError
from wasmrt.runtime.audit._recording import Recording, request_as_json
from wasmrt.sandbox.guest.clock import LogicalClock
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import NAMES, Request
from wasmrt.sandbox.guest.services import HostServices, Reply

DIFFERS = "replay-differs"
_SHOWN_CHARS = 160


class ReplayResult(NamedTuple):
    """The result of a replay."""

    same: bool
    difference: str | None
    """The first difference from the recording, as a sentence; None if there is no difference."""
    answers: int
    """Number of answers taken from the recording."""
    recorded: int
    """Number of answers in the recording."""
    component_changed: bool

    def as_dict(self) -> dict[str, object]:
        """Return the result of the replay as JSON data."""
        return self._asdict()


class Replay:
    """Replays a recording. The object is both a `wasmrt.runtime.audit.Tape` and `HostServices`."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._next = 0
        self._opened = 0
        self._ended_early = False
        self._difference: str | None = None
        self.has_workspace = recording.has_workspace
        self.max_request_bytes = recording.max_request_bytes
        self.max_write_bytes = recording.max_write_bytes

    def services(self, host: HostServices) -> HostServices:
        """Return this object, because a replay does not use the host."""
        return self

    def clock(self) -> LogicalClock:
        """Return the clock of the recorded call; sleeps take no time."""
        return LogicalClock(seed=self._recording.seed, start_ns=self._recording.start_ns)

    def end(self, outcome: str, text: str | None) -> str:
        """Compare the outcome and the result with the recording."""
        known = self._recording
        left = len(known.events) - self._next
        if self._difference is not None or self._ended_early:
            pass
        elif left:
            do, ask, _ = known.events[self._next]
            self._difference = f"{_describe_place(self._next)} was not requested again: {_format_request(do, ask)}"
        elif outcome != known.outcome:
            self._difference = f"the call ended with {outcome}; the recorded call with {known.outcome}"
        elif text != known.text:
            self._difference = f"the result differs: {_describe_difference(known.text, text)}"
        return ""

    def outcome(self, digest: str) -> ReplayResult:
        """Return the result of the replay; `digest` is the digest of the component that was replayed."""
        return ReplayResult(
            same=self._difference is None,
            difference=self._difference,
            answers=self._next,
            recorded=len(self._recording.events),
            component_changed=digest != self._recording.call.digest,
        )

    def handle(self, request: Request[Reply]) -> Reply:
        """Return the recorded reply, if this request is the next recorded request.

        Raises:
            HostFailure: the request failed when it was recorded.
            ToolError: the recorded request differs, or the recorded call ended here.
        """
        do = NAMES[type(request)]
        if do == "http_close":
            return request.read_reply(None)
        self._opened += do == "http_open"
        answer = self._take_answer(do, request_as_json(request))
        if do == "http_open" and isinstance(answer, dict):
            answer = {"handle": self._opened} | answer  # older recordings contain no handle
        return request.read_reply(answer)

    def _take_answer(self, do: str, ask: list[object]) -> object:
        """Return the next recorded answer, if the recorded request is the same.

        Raises:
            HostFailure: the request failed when it was recorded.
            ToolError: the recorded request differs, or the recorded call ended here.
        """
        events = self._recording.events
        if self._next >= len(events):
            raise self._differs_error(f"the call made a request that was not recorded: {_format_request(do, ask)}")
        event = events[self._next]
        if (event.do, event.ask) != (do, ask):
            before = _format_request(event.do, event.ask)
            raise self._differs_error(
                f"the request for {_describe_place(self._next)} differs: {_format_request(do, ask)}; recorded: {before}"
            )
        self._next += 1
        if isinstance(event.answer, dict) and "failure" in event.answer:
            raise HostFailure.from_dict(event.answer["failure"])
        if isinstance(event.answer, dict) and "ended" in event.answer:
            self._ended_early = True
            raise ToolError("the recorded call ended here", code=DIFFERS)
        return event.answer

    def _differs_error(self, sentence: str) -> ToolError:
        self._difference = self._difference or sentence
        return ToolError("the replayed call differs from the recording", code=DIFFERS)


def _describe_place(index: int) -> str:
    return f"host answer {index + 1}"


def _format_request(do: str, ask: list[object]) -> str:
    """Format a request as one line."""
    if do == "http_open" and len(ask) == 5:
        method, url, headers, body, _ = ask
        sent = f"{json.dumps(headers)}{'' if body is None else ' and ' + json.dumps(body)}"
        return _truncate(f"{do} {method} {url} with {sent}")
    return _truncate(f"{do} {' '.join(json.dumps(part) for part in ask)}")


def _describe_difference(before: str | None, now: str | None) -> str:
    """Describe the first difference between two results."""
    if before is None or now is None:
        return "only one of the calls has a result"
    try:
        path, old, new = _find_first_difference("$", json.loads(before), json.loads(now))
    except (ValueError, RecursionError):
        return "the texts differ"
    return f"{path} was {_truncate(json.dumps(old))}, now {_truncate(json.dumps(new))}"


def _find_first_difference(path: str, before: Any, now: Any) -> tuple[str, Any, Any]:
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        for key in before:
            if before[key] != now[key]:
                return _find_first_difference(f"{path}.{key}", before[key], now[key])
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            if old != new:
                return _find_first_difference(f"{path}[{index}]", old, new)
    return path, before, now


def _truncate(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
