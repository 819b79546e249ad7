"""Recordings of calls: private files next to the receipts, from which calls can be replayed without network access.

Unlike a receipt, a recording contains the params and all data that the guest received. Recording is off by default. If
the recordings exceed their total size limit, the oldest ones are deleted.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import SourceError, WasmrtError
from wasmrt.core.files import read_file, replace_file
from wasmrt.core.limits import MAX_RECORDING_BYTES, MAX_RECORDINGS_BYTES
from wasmrt.core.setting_commands import set_command
from wasmrt.runtime.audit._chain import Keys, keyed_hash
from wasmrt.sandbox.guest.clock import SEED_BYTES, Clock, LogicalClock
from wasmrt.sandbox.guest.refusals import make_denial
from wasmrt.sandbox.guest.replies import HostFailure, bytes_as_json, plain
from wasmrt.sandbox.guest.requests import NAMES, Refuse, Request, WorkspaceWrite
from wasmrt.sandbox.guest.services import HostServices, Reply


class Tape(Protocol):
    """Records or replays the requests of one call's guest."""

    def services(self, host: HostServices) -> HostServices:
        """Return the services for the guest."""

    def clock(self) -> Clock:
        """Return the guest's clock and random source."""

    def end(self, outcome: str, text: str | None) -> str:
        """Receive the call's outcome and result; return the value of the receipt's `recording` field."""


class Event(NamedTuple):
    """A request of the guest and the host's answer, as JSON data."""

    do: str
    ask: list[object]
    answer: object
    """The reply, or an object with the key `failure` or `ended` if the request failed or ended the call."""


class RecordingServices:
    """`HostServices` that forward every request to the host, and record the request and its reply."""

    def __init__(self, host: HostServices, note: Callable[[Event], None]) -> None:
        self._host = host
        self._record_event = note
        self.has_workspace = host.has_workspace
        self.max_request_bytes = host.max_request_bytes
        self.max_write_bytes = host.max_write_bytes

    def handle(self, request: Request[Reply]) -> Reply:
        """Forward a request to the host; record the request with its reply, its failure, or the end of the call."""
        do, ask = NAMES[type(request)], request_as_json(request)
        if do == "http_close":  # this request has no reply
            return self._host.handle(request)
        try:
            reply = self._host.handle(request)
        except HostFailure as failure:
            self._record_event(Event(do, ask, {"failure": failure.as_dict()}))
            raise
        except BaseException as error:
            code = (error.code if isinstance(error, WasmrtError) else "") or type(error).__name__
            self._record_event(Event(do, ask, {"ended": code}))
            raise
        self._record_event(Event(do, ask, _as_json(reply)))
        return reply


def new_clock() -> LogicalClock:
    """Return a clock that starts now, with a random seed; sleeps take real time."""
    seed = int.from_bytes(os.urandom(SEED_BYTES), "little")
    return LogicalClock(seed=seed, start_ns=time.time_ns() // 1_000_000 * 1_000_000, waits=True)


def request_as_json(request: Request[object]) -> list[object]:
    """Return the fields of a request as JSON data; written content is replaced by its digest and size."""
    if isinstance(request, WorkspaceWrite):
        return [request.path, digest_of(request.content), len(request.content), request.new]
    if isinstance(request, Refuse):
        decision = make_denial(request)
        return [decision.capability, str(decision.reason), decision.rule, decision.subject]
    return [_as_json(value) for value in request]


def _as_json(value: object) -> object:
    return bytes_as_json(value) if isinstance(value, bytes) else plain(value)


DROPPED = "dropped"
RECORDINGS = "recordings"
"""Name of the recordings folder, inside the receipts folder."""
_CALL_ID = re.compile(r"[0-9a-f]{4,32}-t?[0-9a-f]{1,16}(\.[0-9]{1,6})?\Z")
_FILES_PER_SWEEP = 32
_encode = json.JSONEncoder(separators=(",", ":")).encode


class RecordedCall(NamedTuple):
    """The call of a recording."""

    call_id: str
    component: str
    """The name under which the component was prepared."""
    digest: str
    tool: str
    user: str
    params: str
    """JSON text, as passed to the guest."""
    context: str | None


class Recording(NamedTuple):
    """One recorded call, with every answer that its guest received."""

    call: RecordedCall
    seed: int
    start_ns: int
    has_workspace: bool
    max_request_bytes: int
    max_write_bytes: int
    events: tuple[Event, ...]
    outcome: str
    text: str | None
    """The result as returned to the caller; None if the call failed."""
    hash: str
    """Keyed hash of the file, equal to `recording` in the call's receipt."""

    def is_of(self, receipt: dict[str, Any]) -> bool:
        """Return whether `receipt` refers to this recording, and the recording has not changed since."""
        return compare_digest(str(receipt.get("recording")).encode(), self.hash.encode())


class Recorder:
    """Records calls into a folder."""

    def __init__(self, folder: Path, keys: Keys) -> None:
        self._folder = folder / RECORDINGS
        self._keys = keys
        self._written = itertools.count()

    def start(self, call: RecordedCall, clock: Clock) -> RecordingTape:
        """Return a tape that records one call. If `clock` is not a logical clock, the tape uses a new one."""
        return RecordingTape(self, call, clock if isinstance(clock, LogicalClock) else new_clock())

    def write(self, call_id: str, data: bytes) -> str:
        """Write a recording and return its hash, or `dropped` if it cannot be written. Errors never fail the call."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if next(self._written) % _FILES_PER_SWEEP == 0:
                _delete_oldest(self._folder)
            replace_file(self._folder / f"{call_id}.jsonl", data, durable=False)
        except OSError:
            return DROPPED
        return keyed_hash(self._keys.content, data).hex()


class RecordingTape:
    """Records the requests and replies of one guest, up to the size limit."""

    def __init__(self, recorder: Recorder, call: RecordedCall, clock: LogicalClock) -> None:
        self._recorder = recorder
        self._call = call
        self._clock = clock
        self._lines: list[str] = []
        self._bytes = 0
        self._host: HostServices | None = None

    def services(self, host: HostServices) -> HostServices:
        """Return the host's services, wrapped to record requests."""
        self._host = host
        return RecordingServices(host, self._record_event)

    def clock(self) -> LogicalClock:
        """Return the call's clock."""
        return self._clock

    def end(self, outcome: str, text: str | None) -> str:
        """Write the recording and return its hash; return `dropped` if it is too large or cannot be written."""
        host = self._host
        assert host is not None  # `services` was called before
        head = self._call._asdict() | {
            "version": 1,
            "seed": self._clock.seed,
            "start_ns": self._clock.start_ns,
            "has_workspace": host.has_workspace,
            "max_request_bytes": host.max_request_bytes,
            "max_write_bytes": host.max_write_bytes,
        }
        lines = [_encode(head), *self._lines, _encode({"outcome": outcome, "text": text})]
        data = "".join(f"{line}\n" for line in lines).encode()
        if self._bytes > MAX_RECORDING_BYTES or len(data) > MAX_RECORDING_BYTES:
            return DROPPED
        return self._recorder.write(self._call.call_id, data)

    def _record_event(self, event: Event) -> None:
        if self._bytes > MAX_RECORDING_BYTES:
            return
        line = _encode(event._asdict())
        self._bytes += len(line)
        if self._bytes > MAX_RECORDING_BYTES:
            self._lines.clear()
        else:
            self._lines.append(line)


def read_recording(folder: Path, keys: Keys, call_id: str) -> Recording:
    """Read the recording of a call; `folder` is the receipts folder.

    Raises:
        SourceError: the call has no recording, or the recording cannot be read.
    """
    if not _CALL_ID.match(call_id):
        raise SourceError(f"{call_id!r:.80} is not a call ID", hint="`wasmrt audit tail` lists call IDs")
    try:
        path = folder / RECORDINGS / f"{call_id}.jsonl"
        data = read_file(path, max_bytes=MAX_RECORDING_BYTES, follow_link=False, private=True)
    except FileNotFoundError:
        hint = f"record the next calls: {set_command('audit.record', True)}"
        raise SourceError(f"call {call_id} has no recording", hint=hint) from None
    except OSError as error:
        raise SourceError(f"cannot read the recording ({error.strerror})") from error
    return _parse_recording(data, keyed_hash(keys.content, data).hex())


def _parse_recording(data: bytes, digest: str) -> Recording:
    try:
        head, *events, end = (json.loads(line) for line in data.decode().splitlines())
        return Recording(
            call=RecordedCall(*(head[name] for name in RecordedCall._fields)),
            seed=head["seed"],
            start_ns=head["start_ns"],
            has_workspace=head["has_workspace"],
            max_request_bytes=head["max_request_bytes"],
            max_write_bytes=head.get("max_write_bytes", 0),
            events=tuple(Event(str(event["do"]), list(event["ask"]), event["answer"]) for event in events),
            outcome=end["outcome"],
            text=end["text"],
            hash=digest,
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SourceError("the recording is damaged", hint="`wasmrt audit verify` checks the receipts") from (error)


def _delete_oldest(folder: Path) -> None:
    """Delete the oldest recordings if their total size exceeds the limit."""
    found = []
    for path in folder.iterdir():
        with suppress(OSError):
            status = path.stat(follow_symlinks=False)
            found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= MAX_RECORDINGS_BYTES - MAX_RECORDING_BYTES:
            return
        with suppress(OSError):
            path.unlink()
        total -= size
