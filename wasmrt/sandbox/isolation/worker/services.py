"""The host as a guest in a worker sees it: every service is a frame to the host and one back."""

from __future__ import annotations

import json
import select
from collections.abc import Sequence
from typing import Any, NamedTuple

from wasmrt.core.errors import CancelledError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_HEADER_BYTES, MAX_LOG_ENTRY_BYTES
from wasmrt.core.model import Decision
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.services import GuestRequest, HostFailure
from wasmrt.sandbox.isolation.wire import MAX_TEXT, Channel, Frame, Head, Kind, ProtocolError

_MAX_HEADERS = 1024
_MAX_HEADER_TEXT = 2 * MAX_HEADER_BYTES
MAX_PROGRESS_TEXT = 6 * MAX_LOG_ENTRY_BYTES
MAX_SUBJECT = 1000
MAX_ANSWER_BYTES = 2**31 - 1
"""The host is trusted; what it sends is bounded by the grant."""


class HostEndedError(BaseException):
    """The host ended the call while it worked for the guest, and knows why."""


class WorkerLifetime(Lifetime):
    """The time of a call, which the host can cancel by a frame: one that comes while a guest runs says nothing else."""

    __slots__ = ("_poll",)

    def __init__(self, seconds: float, poll: select.poll) -> None:
        super().__init__(seconds)
        self._poll = poll

    def interruption(self) -> BaseException | None:
        """Return what ended the call, or None while it goes on."""
        if self._ended_by is None and self._poll.poll(0):
            self._ended_by = CancelledError("the call was cancelled")
        return super().interruption()

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the call is over.

        Raises:
            DeadlineExceededError, CancelledError: the call ended meanwhile.
        """
        self.check()
        self._poll.poll(min(seconds, self.remaining()) * 1000)
        error = self.interruption()
        if error is not None:
            raise error


class Entry(NamedTuple):
    """A file or directory inside a directory of the workspace."""

    name: str
    is_directory: bool
    size_bytes: int


class RemoteServices:
    """Implements `wasmrt.sandbox.guest.services.HostServices` over the worker's socket."""

    def __init__(self, channel: Channel, has_workspace: bool, max_request_bytes: int, max_write_bytes: int) -> None:
        self._channel = channel
        self.has_workspace = has_workspace
        self.max_request_bytes = max_request_bytes
        self.max_write_bytes = max_write_bytes

    def http_refusal(self, method: str, url: str) -> HostFailure | None:
        """Return why no HTTP request can be sent at all; None where one may."""
        try:
            self.ask("http_refusal", {"method": _cut(method), "url": _cut(url)})
        except HostFailure as failure:
            return failure
        return None

    def http_open(self, request: GuestRequest) -> RemoteResponse:
        """Send a request through every check of the host and wait for the head of its response."""
        body = request.body
        head, _ = self.ask(
            "http_open",
            {
                "method": _cut(request.method),
                "url": _cut(request.url),
                "headers": _cut_headers(request.headers),
                "timeout": request.timeout_seconds,
                "body": body is not None,
            },
            # One byte too many is enough for the host to refuse it.
            b"" if body is None else memoryview(body)[: self.max_request_bytes + 1],
        )
        pairs = head.items("headers", 1_000_000)
        return RemoteResponse(self, head.whole("handle"), head.whole("status"), tuple((n, v) for n, v in pairs))

    def workspace_read(self, path: str, *, looking: bool = False) -> bytes:
        """Return a file's bytes."""
        return bytes(self.ask("workspace_read", {"path": _cut(path), "looking": looking})[1])

    def workspace_list(self, path: str, *, looking: bool = False) -> Sequence[Entry]:
        """Return a directory's entries."""
        _, tail = self.ask("workspace_list", {"path": _cut(path), "looking": looking})
        return [Entry(*entry) for entry in json.loads(bytes(tail))]

    def workspace_stat(self, path: str) -> Entry:
        """Return a file's or a directory's name, kind and size."""
        head, _ = self.ask("workspace_stat", {"path": _cut(path)})
        return Entry(*head.items("entry", 3))

    def workspace_size(self, path: str) -> int | None:
        """Return the size of a file that may be written; None where there is none."""
        size = self.ask("workspace_size", {"path": _cut(path)})[0].number_or_none("size")
        return None if size is None else int(size)

    def workspace_write(self, path: str, content: bytes, *, new: bool = False) -> None:
        """Make a file that holds `content`, in one step; with `new`, nothing may be there yet."""
        # One byte too many is enough for the host to refuse it.
        whole = memoryview(content)[: self.max_write_bytes + 1]
        self.ask("workspace_write", {"path": _cut(path), "new": new}, whole)

    def workspace_copy(self, path: str, to: str) -> int:
        """Copy a file to a name that nothing has; return its size in bytes."""
        return self.ask("workspace_copy", {"path": _cut(path), "to": _cut(to)})[0].whole("size")

    def workspace_make_directory(self, path: str) -> None:
        """Make a directory."""
        self.ask("workspace_make_directory", {"path": _cut(path)})

    def workspace_remove(self, path: str, *, directory: bool = False) -> None:
        """Remove a file, or an empty directory."""
        self.ask("workspace_remove", {"path": _cut(path), "directory": directory})

    def workspace_rename(self, path: str, to: str) -> None:
        """Give a file another name."""
        self.ask("workspace_rename", {"path": _cut(path), "to": _cut(to)})

    def secret_exists(self, name: str) -> bool:
        """Answer truthfully for granted names, and no for every other."""
        return self.ask("secret_exists", {"name": _cut(name)})[0].flag("exists")

    def invoke_tool(self, alias: str, params: str) -> str:
        """Run the tool behind an alias and return its JSON text."""
        _, tail = self.ask("invoke_tool", {"alias": _cut(alias)}, params.encode("utf-8", "surrogatepass"))
        return str(tail, "utf-8", "surrogatepass")

    def report_progress(self, done: int, total: int | None, message: str | None) -> None:
        """Pass a report of progress on to the caller."""
        self.ask(
            "report_progress",
            {"done": done, "total": total, "message": None if message is None else message[:MAX_PROGRESS_TEXT]},
        )

    def refuse(self, decision: Decision) -> None:
        """Put a refusal that the guest's side made on the call's record."""
        self.ask(
            "refuse",
            {
                "reason": str(decision.reason),
                "rule": decision.rule,
                "hint": decision.hint,
                "capability": decision.capability,
                "subject": decision.subject[:MAX_SUBJECT],
            },
        )

    def ask(self, method: str, arguments: dict[str, Any], tail: bytes | memoryview = b"") -> tuple[Head, memoryview]:
        """Ask the host and wait for what it answers.

        Raises:
            HostFailure: the host refuses, or could not do it.
            HostEndedError: the call is over.
        """
        self._channel.send(Kind.IMPORT, {"do": method} | arguments, tail)
        answer = self._channel.receive(MAX_ANSWER_BYTES)
        while answer.kind == Kind.CANCEL:  # the answer to what was asked comes all the same
            answer = self._channel.receive(MAX_ANSWER_BYTES)
        return _read(answer)


def _cut(text: str) -> str:
    """Cut what is longer than any host accepts; what is left is still too long, and refused as such."""
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT]


def _cut_headers(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    kept, size = [], 0
    for name, value in headers[:_MAX_HEADERS]:
        kept.append((name[:_MAX_HEADER_TEXT], value[:_MAX_HEADER_TEXT]))
        size += len(name) + len(value)
        if size > _MAX_HEADER_TEXT:
            break
    return kept


def _read(answer: Frame) -> tuple[Head, memoryview]:
    if answer.kind != Kind.ANSWER:
        raise ProtocolError("the host sent something else than an answer")
    head = answer.fields()
    match head.text("end", 16):
        case "ok":
            return head, answer.tail
        case "failure":
            limit = head.number_or_none("limit_bytes")
            raise HostFailure(
                FailureKind(head.text("kind", 64)),
                head.text("code"),
                head.text("message"),
                request_sent=head.flag("request_sent"),
                denied=head.flag("denied"),
                limit_bytes=None if limit is None else int(limit),
            )
    raise HostEndedError


class RemoteResponse:
    """A response whose body lies with the host."""

    def __init__(
        self, services: RemoteServices, handle: int, status: int, headers: tuple[tuple[str, str], ...]
    ) -> None:
        self._services = services
        self._handle = handle
        self.status = status
        self.headers = headers
        self.is_open = True

    def read(self) -> bytes:
        """Wait for the next piece of the body; empty at its end."""
        return bytes(self._services.ask("http_read", {"handle": self._handle})[1])

    def read_all(self) -> bytes:
        """Wait for all of the body."""
        return bytes(self._services.ask("http_read_all", {"handle": self._handle})[1])

    def close(self) -> None:
        """Let go of the connection, whether all was read or not."""
        self.is_open = False
        self._services.ask("http_close", {"handle": self._handle})
