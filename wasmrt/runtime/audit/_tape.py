"""A tape: what stands between a guest and its host while a call is recorded, or replayed.

Recorded is what a guest asks of its host and what it is answered, as the guest sees it, so after every check and scan:
no secret is in it that the guest could not see. Time and randomness come from a seed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import WasmrtError
from wasmrt.sandbox.guest.clock import SEED_BYTES, Clock, LogicalClock
from wasmrt.sandbox.guest.requests import NAMES, HostFailure, Refuse, Request, WorkspaceWrite, bytes_as_json, plain
from wasmrt.sandbox.guest.services import HostServices, Reply


class Tape(Protocol):
    """Stands between a guest and its host for one call."""

    def services(self, host: HostServices) -> HostServices:
        """Return the services that the guest gets."""

    def clock(self) -> Clock:
        """Return the guest's time and randomness."""

    def end(self, outcome: str, text: str | None) -> str:
        """Take how the call ended and its result's text; return what its receipt says of the recording."""


class Event(NamedTuple):
    """One thing that a guest asked of its host, and the answer, as JSON data."""

    do: str
    ask: list[object]
    answer: object
    """Of its kind; a failure is an object with `failure`, what ended the call one with `ended`."""


class RecordingServices:
    """`HostServices` that pass every request to the host, and record it with its reply."""

    def __init__(self, host: HostServices, note: Callable[[Event], None]) -> None:
        self._host = host
        self._note = note
        self.has_workspace = host.has_workspace
        self.max_request_bytes = host.max_request_bytes
        self.max_write_bytes = host.max_write_bytes

    def handle(self, request: Request[Reply]) -> Reply:
        """Pass a request to the host; record it with its reply, its failure, or the end of the call."""
        do, ask = NAMES[type(request)], recorded_request(request)
        if do == "http_close":  # the guest learns nothing from it
            return self._host.handle(request)
        try:
            reply = self._host.handle(request)
        except HostFailure as failure:
            self._note(Event(do, ask, {"failure": failure.as_dict()}))
            raise
        except BaseException as error:
            code = (error.code if isinstance(error, WasmrtError) else "") or type(error).__name__
            self._note(Event(do, ask, {"ended": code}))
            raise
        self._note(Event(do, ask, _as_json(reply)))
        return reply


def new_clock() -> LogicalClock:
    """Return a clock that begins now, with a seed that nobody knows; a sleep takes its time."""
    seed = int.from_bytes(os.urandom(SEED_BYTES), "little")
    return LogicalClock(seed=seed, start_ns=time.time_ns() // 1_000_000 * 1_000_000, waits=True)


def recorded_request(request: Request[object]) -> list[object]:
    """Return the fields of a request as JSON data; the content of a written file by its digest and size."""
    if isinstance(request, WorkspaceWrite):
        return [request.path, digest_of(request.content), len(request.content), request.new]
    if isinstance(request, Refuse):
        decision = request.decision
        return [decision.capability, str(decision.reason), decision.rule, decision.subject]
    return [_as_json(value) for value in request]


def _as_json(value: object) -> object:
    return bytes_as_json(value) if isinstance(value, bytes) else plain(value)
