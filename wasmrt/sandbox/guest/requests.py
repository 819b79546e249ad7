"""Requests of a guest to its host, and the replies. Both are frozen values, the same in every process and recording.

`plain` encodes replies as data, and `Request.read_reply` decodes them. `sandbox/isolation/wire/requests.py` puts that
data into frames; `runtime/audit` puts it into recordings.
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
    """Raised if the host denies a request, or fails to answer it.

    Attributes:
        kind: The kind of failure, as defined in the WIT worlds.
        code: The reason as one word, such as `host-not-allowed`.
        message: A sentence that includes the suggested fix.
        request_sent: True if at least one byte of an HTTP request was sent.
        denied: True if a decision denied the request, False if a fault occurred.
        limit_bytes: The maximum size if the request or its answer was too large, otherwise None.
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
        """Return the failure that `as_dict` encoded. Raise `ValueError` if the data is malformed."""
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
    """The status and headers of a response, from which the host has removed secrets.

    `handle` identifies the response in requests that read its body.
    """

    handle: int
    status: int
    headers: Headers
    """All headers in the order in which they were received, including duplicates."""


def plain(reply: object) -> object:
    """Encode a reply as JSON data, but leave bytes unchanged. `Request.read_reply` decodes the result."""
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
    """Encode bytes as JSON data: as text if they are UTF-8, otherwise in base64."""
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
    """A request to the host. Each kind of request is a named tuple; `NAMES` lists all kinds."""

    def _asdict(self) -> dict[str, object]: ...

    def __iter__(self) -> Iterator[object]: ...

    def read_reply(self, data: object) -> ReplyOf:
        """Decode a reply that `plain` encoded. Raise `ValueError` if the data is malformed."""


class HttpCheck(NamedTuple):
    """Check an HTTP request's method and URL before its body is written.

    The reply is the reason for a denial, or None if the request is allowed.
    """

    method: str
    url: str

    def read_reply(self, data: object) -> HostFailure | None:
        return None if data is None else HostFailure.from_dict(data)


class HttpOpen(NamedTuple):
    """Check and send an HTTP request, and wait for the head of its response.

    The fields are exactly what the guest passed, and are not checked yet.
    """

    method: str
    url: str
    headers: Headers = ()
    body: bytes | None = None
    timeout_seconds: float | None = None

    def read_reply(self, data: object) -> HttpHead:
        return _read_head(data)


class HttpRead(NamedTuple):
    """Wait for the next piece of a response's body and return it. The reply is empty at the end of the body."""

    handle: int

    def read_reply(self, data: object) -> bytes:
        return _read_bytes(data)


class HttpReadAll(NamedTuple):
    """Wait for the rest of a response's body and return it."""

    handle: int

    def read_reply(self, data: object) -> bytes:
        return _read_bytes(data)


class HttpClose(NamedTuple):
    """Close a response, even if its body was not read completely."""

    handle: int

    def read_reply(self, data: object) -> None:
        return _read_none(data)


class WorkspaceRead(NamedTuple):
    """Return a file's bytes. If `probe` is true, the denial of a path that is not a file is not recorded."""

    path: str
    probe: bool = False

    def read_reply(self, data: object) -> bytes:
        return _read_bytes(data)


class WorkspaceList(NamedTuple):
    """Return a directory's entries. If `probe` is true, the denial of a missing path is not recorded."""

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
    """Return the size in bytes of a file that the call may write, or None if the file does not exist."""

    path: str

    def read_reply(self, data: object) -> int | None:
        return None if data is None else _read_int(data)


class WorkspaceWrite(NamedTuple):
    """Write a complete file atomically. If `new` is true, the path must not exist yet."""

    path: str
    content: bytes
    new: bool = False

    def read_reply(self, data: object) -> None:
        return _read_none(data)


class WorkspaceCopy(NamedTuple):
    """Copy a file to the path `to`, which must not exist yet. Return the file's size in bytes."""

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
    """Remove a file, or an empty directory if `directory` is true."""

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
    """Return whether the secret `name` is set. The reply is False if the secret is not granted."""

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
    """Record a denial that the guest's side decided without asking the host."""

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
"""The name of every kind of request in frames and recordings."""
