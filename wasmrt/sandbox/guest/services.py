"""The border between a guest and its host: one narrow protocol, in plain values.

Every grant is decided behind it, on the host's side; what a guest gets of a refusal is a `HostFailure`. What no grant
allows, such as sockets, is refused on the guest's side and only recorded here. In this process it is a
method call; with workers it is what crosses between two processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

from wasmrt.core.limits import DEFAULT_MAX_REQUEST_BYTES, MAX_ERROR_TEXT_BYTES
from wasmrt.core.model import Decision
from wasmrt.sandbox.component.worlds import FailureKind


class HostFailure(Exception):  # noqa: N818 - a refusal, as the worlds call it
    """A typed refusal of the host.

    Attributes:
        kind: The kind of failure that the worlds know.
        code: The reason in one word, such as `host-not-allowed`.
        message: A sentence, with the step that would change it.
        request_sent: Whether a byte of an HTTP request has left.
        denied: Whether a decision refused it, and not a fault on the way.
        limit_bytes: For what is too large, how many bytes it may have.
    """

    def __init__(
        self,
        kind: FailureKind,
        code: str,
        message: str,
        *,
        request_sent: bool = False,
        denied: bool = False,
        limit_bytes: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.message = message[:MAX_ERROR_TEXT_BYTES]
        self.request_sent = request_sent
        self.denied = denied
        self.limit_bytes = limit_bytes

    def as_dict(self) -> dict[str, Any]:
        """Return the refusal as JSON data."""
        return {
            "kind": str(self.kind),
            "code": self.code,
            "message": self.message,
            "request_sent": self.request_sent,
            "denied": self.denied,
            "limit_bytes": self.limit_bytes,
        }


class GuestRequest(NamedTuple):
    """An HTTP request as the guest wrote it; nothing of it is checked yet."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    timeout_seconds: float | None = None


class GuestResponse(Protocol):
    """The head of a response, and its body whole or in pieces: scrubbed before the guest's side sees it."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers, in the order received, with duplicates."""

    @property
    def is_open(self) -> bool:
        """True until it is closed."""

    def read(self) -> bytes:
        """Wait for the next piece of the body; empty at its end. Raises `HostFailure`."""

    def read_all(self) -> bytes:
        """Wait for all of the body. Raises `HostFailure`."""

    def close(self) -> None:
        """Let go of the connection, whether all was read or not."""


class DirectoryEntry(Protocol):
    """A file or directory inside a directory of the workspace."""

    @property
    def name(self) -> str:
        """Its name in the directory."""

    @property
    def is_directory(self) -> bool:
        """True for a directory, False for a file."""

    @property
    def size_bytes(self) -> int:
        """Its size; 0 for a directory."""


class HostServices(Protocol):
    """The host, as a guest's imports see it. Methods raise `HostFailure`, or what ends the call."""

    @property
    def has_workspace(self) -> bool:
        """True where the call has a workspace."""

    @property
    def max_write_bytes(self) -> int:
        """The most bytes that a file may have that is written; 0 where none may be."""

    @property
    def max_request_bytes(self) -> int:
        """The most bytes that the body of an HTTP request may have."""

    def http_refusal(self, method: str, url: str) -> HostFailure | None:
        """Return why no HTTP request can be sent at all, before its body is written; None where one may."""

    def http_open(self, request: GuestRequest) -> GuestResponse:
        """Send a request through every check and wait for the head of its response."""

    def workspace_read(self, path: str, *, looking: bool = False) -> bytes:
        """Return a file's bytes. With `looking`, a path that is no file is no attempt, and not recorded."""

    def workspace_list(self, path: str, *, looking: bool = False) -> Sequence[DirectoryEntry]:
        """Return a directory's entries."""

    def workspace_stat(self, path: str) -> DirectoryEntry:
        """Return a file's or a directory's name, kind and size. A path that is neither is no attempt."""

    def workspace_size(self, path: str) -> int | None:
        """Return the size in bytes of a file that may be written; None where there is none."""

    def workspace_write(self, path: str, content: bytes, *, new: bool = False) -> None:
        """Make a file that holds `content`, in one step; with `new`, nothing may be there yet."""

    def workspace_copy(self, path: str, to: str) -> int:
        """Copy a file to a name that nothing has; return its size in bytes."""

    def workspace_make_directory(self, path: str) -> None:
        """Make a directory."""

    def workspace_remove(self, path: str, *, directory: bool = False) -> None:
        """Remove a file, or an empty directory."""

    def workspace_rename(self, path: str, to: str) -> None:
        """Give a file, or a directory that the call has made, another name."""

    def secret_exists(self, name: str) -> bool:
        """Answer truthfully for granted names, and no for every other."""

    def invoke_tool(self, alias: str, params: str) -> str:
        """Run the tool behind an alias and return its JSON text."""

    def report_progress(self, done: int, total: int | None, message: str | None) -> None:
        """Pass a report of progress on to the caller."""

    def refuse(self, decision: Decision) -> None:
        """Put a refusal that the guest's side made on the call's record."""


class NoServices:
    """A host that grants nothing: for a component that is only asked what it is."""

    has_workspace = False
    max_write_bytes = 0
    max_request_bytes = DEFAULT_MAX_REQUEST_BYTES

    def http_refusal(self, method: str, url: str) -> HostFailure:
        """Return the refusal: nothing is granted."""
        return _nothing_granted()

    def http_open(self, request: GuestRequest) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def workspace_read(self, path: str, *, looking: bool = False) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def workspace_list(self, path: str, *, looking: bool = False) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def workspace_stat(self, path: str) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def workspace_size(self, path: str) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def workspace_write(self, path: str, content: bytes, *, new: bool = False) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def workspace_copy(self, path: str, to: str) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def workspace_make_directory(self, path: str) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def workspace_remove(self, path: str, *, directory: bool = False) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def workspace_rename(self, path: str, to: str) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def secret_exists(self, name: str) -> bool:
        """Answer no."""
        return False

    def invoke_tool(self, alias: str, params: str) -> NoReturn:
        """Refuse."""
        raise _nothing_granted()

    def report_progress(self, done: int, total: int | None, message: str | None) -> None:
        """Ignore it: nobody waits."""

    def refuse(self, decision: Decision) -> None:
        """Ignore it: there is no record."""


def _nothing_granted() -> HostFailure:
    message = "nothing is granted while a tool is prepared"
    return HostFailure(FailureKind.NETWORK_DENIED, "not-granted", message, denied=True)
