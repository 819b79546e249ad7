"""Requests of a guest to its host, and their replies: frozen values, the same in every process and recording.

`plain` and `Request.read_reply` are their one codec. `sandbox/isolation/wire/requests.py` puts the result into frames,
`runtime/audit` into recordings.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES
from wasmrt.core.model import Decision
from wasmrt.sandbox.component.worlds import FailureKind

ReplyOf = TypeVar("ReplyOf", covariant=True)
Headers = tuple[tuple[str, str], ...]


class HostFailure(Exception):  # noqa: N818 - the worlds call it a failure
    """A typed refusal or failure of the host.

    Attributes:
        kind: The kind of failure, as defined in the WIT worlds.
        code: The reason as one word, such as `host-not-allowed`.
        message: A sentence that includes the suggested fix.
        request_sent: Whether any byte of an HTTP request was sent.
        denied: Whether a decision refused the request, as opposed to a fault.
        limit_bytes: The maximum size if something was too large.
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

    def as_dict(self) -> dict[str, object]:
        """Return the failure as JSON data."""
        return {
            "kind": str(self.kind),
            "code": self.code,
            "message": self.message,
            "request_sent": self.request_sent,
            "denied": self.denied,
            "limit_bytes": self.limit_bytes,
        }

    @classmethod
    def from_dict(cls, data: object) -> HostFailure:
        """Return the failure that `as_dict` wrote. Raises `ValueError`."""
        match data:
            case {
                "kind": str(kind),
                "code": str(code),
                "message": str(message),
                "request_sent": bool(request_sent),
                "denied": bool(denied),
                "limit_bytes": int() | None as limit_bytes,
            }:
                return cls(
                    FailureKind(kind), code, message, request_sent=request_sent, denied=denied, limit_bytes=limit_bytes
                )
        raise _malformed("a failure")


# -- replies -----------------------------------------------------------------------------------------------------------


class DirectoryEntry(NamedTuple):
    """A file or directory in a directory of the workspace."""

    name: str
    is_directory: bool
    size_bytes: int
    """0 for a directory."""


class HttpHead(NamedTuple):
    """Status and headers of a response, with secrets removed by the host; its body is read by `handle`."""

    handle: int
    status: int
    headers: Headers
    """In the order received, with duplicates."""


def plain(reply: object) -> object:
    """Return a reply as JSON data, except that bytes stay bytes. `Request.read_reply` reverses it."""
    match reply:
        case HostFailure():
            return reply.as_dict()
        case HttpHead(handle, status, headers):
            return {"handle": handle, "status": status, "headers": [list(pair) for pair in headers]}
        case DirectoryEntry():
            return list(reply)
        case list() | tuple():
            return [plain(item) for item in reply]
    return reply


def bytes_as_json(data: bytes) -> dict[str, str]:
    """Return bytes as JSON data: as text if they are UTF-8, otherwise in base64."""
    try:
        return {"text": bytes(data).decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _read_bytes(data: object) -> bytes:
    match data:
        case bytes():
            return data
        case {"text": str(text)}:
            return text.encode()
        case {"base64": str(text)}:
            return base64.b64decode(text)
    raise _malformed("bytes")


def _read_text(data: object) -> str:
    if not isinstance(data, str):
        raise _malformed("a string")
    return data


def _read_bool(data: object) -> bool:
    if not isinstance(data, bool):
        raise _malformed("true or false")
    return data


def _read_int(data: object) -> int:
    if not isinstance(data, int):
        raise _malformed("an integer")
    return data


def _read_none(data: object) -> None:
    if data is not None:
        raise _malformed("null")


def _read_entry(data: object) -> DirectoryEntry:
    match data:
        case [str(name), bool(is_directory), int(size_bytes)]:
            return DirectoryEntry(name, is_directory, size_bytes)
    raise _malformed("a directory entry")


def _read_head(data: object) -> HttpHead:
    match data:
        case {"handle": int(handle), "status": int(status), "headers": list(headers)}:
            return HttpHead(handle, status, tuple((_read_text(name), _read_text(value)) for name, value in headers))
    raise _malformed("the head of a response")


def _malformed(expected: str) -> ValueError:
    return ValueError(f"malformed reply of the host: expected {expected}")


# -- requests ----------------------------------------------------------------------------------------------------------


class Request(Protocol[ReplyOf]):
    """A request to the host: a named tuple. `NAMES` lists all kinds of requests."""

    def _asdict(self) -> dict[str, object]: ...

    def __iter__(self) -> Iterator[object]: ...

    def read_reply(self, data: object) -> ReplyOf:
        """Return the reply that `plain` turned into data. Raises `ValueError`."""


class HttpCheck(NamedTuple):
    """Check a request's head before its body is written; return the reason for a denial, or None if it is allowed."""

    method: str
    url: str

    def read_reply(self, data: object) -> HostFailure | None:
        return None if data is None else HostFailure.from_dict(data)


class HttpOpen(NamedTuple):
    """Check and send an HTTP request, and wait for the head of its response.

    The fields are as the guest wrote them, unchecked.
    """

    method: str
    url: str
    headers: Headers = ()
    body: bytes | None = None
    timeout_seconds: float | None = None

    def read_reply(self, data: object) -> HttpHead:
        return _read_head(data)


class HttpRead(NamedTuple):
    """Wait for the next piece of a response's body and return it; empty at the end of the body."""

    handle: int

    def read_reply(self, data: object) -> bytes:
        return _read_bytes(data)


class HttpReadAll(NamedTuple):
    """Wait for the rest of a response's body and return it."""

    handle: int

    def read_reply(self, data: object) -> bytes:
        return _read_bytes(data)


class HttpClose(NamedTuple):
    """Close a response, whether or not its body was read completely."""

    handle: int

    def read_reply(self, data: object) -> None:
        return _read_none(data)


class WorkspaceRead(NamedTuple):
    """Return a file's bytes. With `probe`, the denial of a path that is not a file is not recorded."""

    path: str
    probe: bool = False

    def read_reply(self, data: object) -> bytes:
        return _read_bytes(data)


class WorkspaceList(NamedTuple):
    """Return a directory's entries. With `probe`, the denial of a missing path is not recorded."""

    path: str
    probe: bool = False

    def read_reply(self, data: object) -> Sequence[DirectoryEntry]:
        if not isinstance(data, list):
            raise _malformed("a list of directory entries")
        return [_read_entry(entry) for entry in data]


class WorkspaceStat(NamedTuple):
    """Return the name, kind and size of a file or directory. The denial of a missing path is not recorded."""

    path: str

    def read_reply(self, data: object) -> DirectoryEntry:
        return _read_entry(data)


class WorkspaceSize(NamedTuple):
    """Return the size in bytes of a file that may be written; None if it does not exist."""

    path: str

    def read_reply(self, data: object) -> int | None:
        return None if data is None else _read_int(data)


class WorkspaceWrite(NamedTuple):
    """Write a whole file atomically. With `new`, the path must not exist."""

    path: str
    content: bytes
    new: bool = False

    def read_reply(self, data: object) -> None:
        return _read_none(data)


class WorkspaceCopy(NamedTuple):
    """Copy a file to a path that does not exist; return its size in bytes."""

    path: str
    to: str

    def read_reply(self, data: object) -> int:
        return _read_int(data)


class WorkspaceMakeDirectory(NamedTuple):
    """Create a directory."""

    path: str

    def read_reply(self, data: object) -> None:
        return _read_none(data)


class WorkspaceRemove(NamedTuple):
    """Remove a file, or with `directory` an empty directory."""

    path: str
    directory: bool = False

    def read_reply(self, data: object) -> None:
        return _read_none(data)


class WorkspaceRename(NamedTuple):
    """Rename a file, or a directory that this call created."""

    path: str
    to: str

    def read_reply(self, data: object) -> None:
        return _read_none(data)


class SecretExists(NamedTuple):
    """Return whether a granted secret is set; False for a name that is not granted."""

    name: str

    def read_reply(self, data: object) -> bool:
        return _read_bool(data)


class InvokeTool(NamedTuple):
    """Run the tool behind an alias and return its JSON text."""

    alias: str
    params: str

    def read_reply(self, data: object) -> str:
        return _read_text(data)


class ReportProgress(NamedTuple):
    """Report progress to the caller."""

    done: int
    total: int | None
    message: str | None

    def read_reply(self, data: object) -> None:
        return _read_none(data)


class Refuse(NamedTuple):
    """Record a denial that was decided on the guest's side."""

    decision: Decision

    def read_reply(self, data: object) -> None:
        return _read_none(data)


NAMES: dict[type[object], str] = {
    HttpCheck: "http_refusal",
    HttpOpen: "http_open",
    HttpRead: "http_read",
    HttpReadAll: "http_read_all",
    HttpClose: "http_close",
    WorkspaceRead: "workspace_read",
    WorkspaceList: "workspace_list",
    WorkspaceStat: "workspace_stat",
    WorkspaceSize: "workspace_size",
    WorkspaceWrite: "workspace_write",
    WorkspaceCopy: "workspace_copy",
    WorkspaceMakeDirectory: "workspace_make_directory",
    WorkspaceRemove: "workspace_remove",
    WorkspaceRename: "workspace_rename",
    SecretExists: "secret_exists",
    InvokeTool: "invoke_tool",
    ReportProgress: "report_progress",
    Refuse: "refuse",
}
"""Every request, with its name in frames and recordings."""
