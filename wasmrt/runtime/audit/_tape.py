"""A tape: what stands between a guest and its host while a call is recorded, or replayed.

Recorded is what a guest asks of its host and what it is answered, as the guest sees it, so after every check and scan:
no secret is in it that the guest could not see. Time and randomness come from a seed.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from wasmrt.core.component_bytes import digest_of
from wasmrt.core.model import Decision
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.clock import SEED_BYTES, Clock, LogicalClock
from wasmrt.sandbox.guest.services import DirectoryEntry, GuestRequest, GuestResponse, HostFailure, HostServices

Answer = TypeVar("Answer")


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
    ask: list[Any]
    answer: Any
    """Of its kind; a failure is an object with `failure`, what ended the call one with `ended`."""


class RecordingServices:
    """Implements `wasmrt.sandbox.guest.services.HostServices`: passes everything on, and notes question and answer."""

    def __init__(self, host: HostServices, note: Callable[[Event], None]) -> None:
        self._host = host
        self._note = note
        self._responses = 0
        self.has_workspace = host.has_workspace
        self.max_request_bytes = host.max_request_bytes
        self.max_write_bytes = host.max_write_bytes

    def http_refusal(self, method: str, url: str) -> HostFailure | None:
        """Return why no request can be sent at all; None where one may."""
        return self._asked("http_refusal", [method, url], lambda: self._host.http_refusal(method, url), failure_or_none)

    def http_open(self, request: GuestRequest) -> GuestResponse:
        """Send a request and wait for the head of its response."""
        self._responses += 1
        number = self._responses
        response = self._asked(
            "http_open",
            asked_request(request),
            lambda: self._host.http_open(request),
            lambda response: {"status": response.status, "headers": [list(pair) for pair in response.headers]},
        )
        return RecordedResponse(response, number, self._asked)

    def workspace_read(self, path: str, *, looking: bool = False) -> bytes:
        """Return a file's bytes."""
        return self._asked(
            "workspace_read", [path, looking], lambda: self._host.workspace_read(path, looking=looking), encoded
        )

    def workspace_list(self, path: str, *, looking: bool = False) -> Sequence[DirectoryEntry]:
        """Return a directory's entries."""
        return self._asked(
            "workspace_list",
            [path, looking],
            lambda: self._host.workspace_list(path, looking=looking),
            lambda entries: [_entry(entry) for entry in entries],
        )

    def workspace_stat(self, path: str) -> DirectoryEntry:
        """Return a file's or a directory's name, kind and size."""
        return self._asked("workspace_stat", [path], lambda: self._host.workspace_stat(path), _entry)

    def workspace_size(self, path: str) -> int | None:
        """Return the size of a file that may be written."""
        return self._asked("workspace_size", [path], lambda: self._host.workspace_size(path), _size)

    def workspace_write(self, path: str, content: bytes, *, new: bool = False) -> None:
        """Make a file; what is written is noted by its digest."""
        asked = asked_write(path, content, new)
        self._asked("workspace_write", asked, lambda: self._host.workspace_write(path, content, new=new), _none)

    def workspace_copy(self, path: str, to: str) -> int:
        """Copy a file to a name that nothing has."""
        return self._asked("workspace_copy", [path, to], lambda: self._host.workspace_copy(path, to), int)

    def workspace_make_directory(self, path: str) -> None:
        """Make a directory."""
        self._asked("workspace_make_directory", [path], lambda: self._host.workspace_make_directory(path), _none)

    def workspace_remove(self, path: str, *, directory: bool = False) -> None:
        """Remove a file, or an empty directory."""
        self._asked(
            "workspace_remove",
            [path, directory],
            lambda: self._host.workspace_remove(path, directory=directory),
            _none,
        )

    def workspace_rename(self, path: str, to: str) -> None:
        """Give a file another name."""
        self._asked("workspace_rename", [path, to], lambda: self._host.workspace_rename(path, to), _none)

    def secret_exists(self, name: str) -> bool:
        """Tell whether a secret of this name is granted and set."""
        return self._asked("secret_exists", [name], lambda: self._host.secret_exists(name), bool)

    def invoke_tool(self, alias: str, params: str) -> str:
        """Run the tool behind an alias and return its JSON text."""
        return self._asked("invoke_tool", [alias, params], lambda: self._host.invoke_tool(alias, params), str)

    def report_progress(self, done: int, total: int | None, message: str | None) -> None:
        """Pass a report of progress on to the caller."""
        self._asked(
            "report_progress", [done, total, message], lambda: self._host.report_progress(done, total, message), _none
        )

    def refuse(self, decision: Decision) -> None:
        """Put a refusal that the guest's side made on the call's record."""
        self._asked("refuse", asked_refusal(decision), lambda: self._host.refuse(decision), _none)

    def _asked(self, do: str, ask: list[Any], act: Callable[[], Answer], shown: Callable[[Answer], Any]) -> Answer:
        try:
            answer = act()
        except HostFailure as failure:
            self._note(Event(do, ask, {"failure": failure.as_dict()}))
            raise
        except BaseException as error:
            self._note(Event(do, ask, {"ended": getattr(error, "code", None) or type(error).__name__}))
            raise
        self._note(Event(do, ask, shown(answer)))
        return answer


class RecordedResponse:
    """A response of the host's, whose pieces are noted as the guest reads them."""

    def __init__(self, response: GuestResponse, number: int, asked: Callable[..., bytes]) -> None:
        self._response = response
        self._number = number
        self._asked = asked
        self.status = response.status
        self.headers = response.headers

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._response.is_open

    def read(self) -> bytes:
        """Wait for the next piece of the body; empty at its end."""
        return self._asked("http_read", [self._number], self._response.read, encoded)

    def read_all(self) -> bytes:
        """Wait for all of the body."""
        return self._asked("http_read_all", [self._number], self._response.read_all, encoded)

    def close(self) -> None:
        """Let go of the connection."""
        self._response.close()


def new_clock() -> LogicalClock:
    """Return a clock that begins now, with a seed that nobody knows; a sleep takes its time."""
    seed = int.from_bytes(os.urandom(SEED_BYTES), "little")
    return LogicalClock(seed=seed, start_ns=time.time_ns() // 1_000_000 * 1_000_000, waits=True)


def asked_request(request: GuestRequest) -> list[Any]:
    """Return a request as JSON data."""
    body = None if request.body is None else encoded(request.body)
    headers = [list(pair) for pair in request.headers]
    return [request.method, request.url, headers, body, request.timeout_seconds]


def asked_write(path: str, content: bytes, new: bool) -> list[Any]:
    """Return a file that is written as JSON data."""
    return [path, digest_of(content), len(content), new]


def asked_refusal(decision: Decision) -> list[Any]:
    """Return a refusal of the guest's side as JSON data."""
    return [decision.capability, str(decision.reason), decision.rule, decision.subject]


def encoded(data: bytes) -> dict[str, str]:
    """Return bytes as JSON data: as text where they are some."""
    try:
        return {"text": bytes(data).decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def decoded(data: dict[str, str]) -> bytes:
    """Return the bytes that `encoded` wrote."""
    return data["text"].encode() if "text" in data else base64.b64decode(data["base64"])


def failure_or_none(failure: HostFailure | None) -> dict[str, Any] | None:
    """Return the answer of `http_refusal` as JSON data."""
    return None if failure is None else failure.as_dict()


def failure_of(data: dict[str, Any]) -> HostFailure:
    """Return the refusal whose `as_dict` this is."""
    return HostFailure(
        FailureKind(data["kind"]),
        data["code"],
        data["message"],
        request_sent=data["request_sent"],
        denied=data["denied"],
        limit_bytes=data["limit_bytes"],
    )


def _size(size: int | None) -> int | None:
    return size


def _entry(entry: DirectoryEntry) -> list[Any]:
    return [entry.name, entry.is_directory, entry.size_bytes]


def _none(answer: None) -> None:
    return answer
