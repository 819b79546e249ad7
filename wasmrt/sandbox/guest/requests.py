"""Requests of a guest to its host. They are frozen values, the same in every process and recording.

`Request.read_reply` decodes the reply. `sandbox/isolation/wire/requests.py` puts requests and replies into frames;
`runtime/audit` puts them into recordings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from wasmrt.core.model import Reason
from wasmrt.sandbox.guest.replies import (
    DirectoryEntry,
    Headers,
    HostFailure,
    HttpHead,
    make_malformed_error,
    read_bool,
    read_bytes,
    read_entry,
    read_head,
    read_int,
    read_none,
    read_text,
)

ReplyOf = TypeVar("ReplyOf", covariant=True)


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
        return read_head(data)


class HttpRead(NamedTuple):
    """Wait for the next piece of a response's body and return it. The reply is empty at the end of the body."""

    handle: int

    def read_reply(self, data: object) -> bytes:
        return read_bytes(data)


class HttpReadAll(NamedTuple):
    """Wait for the rest of a response's body and return it."""

    handle: int

    def read_reply(self, data: object) -> bytes:
        return read_bytes(data)


class HttpClose(NamedTuple):
    """Close a response, even if its body was not read completely."""

    handle: int

    def read_reply(self, data: object) -> None:
        return read_none(data)


class WorkspaceRead(NamedTuple):
    """Return a file's bytes. If `probe` is true, the denial of a path that is not a file is not recorded."""

    path: str
    probe: bool = False

    def read_reply(self, data: object) -> bytes:
        return read_bytes(data)


class WorkspaceReadPart(NamedTuple):
    """Return at most `length` bytes of a file from the byte `offset`; fewer only at the end of the file."""

    path: str
    offset: int
    length: int

    def read_reply(self, data: object) -> bytes:
        return read_bytes(data)


class WorkspaceList(NamedTuple):
    """Return a directory's entries. If `probe` is true, the denial of a missing path is not recorded."""

    path: str
    probe: bool = False

    def read_reply(self, data: object) -> Sequence[DirectoryEntry]:
        if not isinstance(data, list):
            raise make_malformed_error("a list of directory entries")
        return [read_entry(entry) for entry in data]


class WorkspaceStat(NamedTuple):
    """Return the name, kind and size of a file or directory. If the path is missing, the denial is not recorded."""

    path: str

    def read_reply(self, data: object) -> DirectoryEntry:
        return read_entry(data)


class WorkspaceSize(NamedTuple):
    """Return the size in bytes of a file that the call may write, or None if the file does not exist."""

    path: str

    def read_reply(self, data: object) -> int | None:
        return None if data is None else read_int(data)


class WorkspaceWrite(NamedTuple):
    """Write a complete file atomically. If `new` is true, the path must not exist yet."""

    path: str
    content: bytes
    new: bool = False

    def read_reply(self, data: object) -> None:
        return read_none(data)


class WorkspaceCopy(NamedTuple):
    """Copy a file to the path `to`, which must not exist yet. Return the file's size in bytes."""

    path: str
    to: str

    def read_reply(self, data: object) -> int:
        return read_int(data)


class WorkspaceMakeDirectory(NamedTuple):
    """Create a directory."""

    path: str

    def read_reply(self, data: object) -> None:
        return read_none(data)


class WorkspaceRemove(NamedTuple):
    """Remove a file, or an empty directory if `directory` is true."""

    path: str
    directory: bool = False

    def read_reply(self, data: object) -> None:
        return read_none(data)


class WorkspaceRename(NamedTuple):
    """Rename a file, or a directory that this call created."""

    path: str
    to: str

    def read_reply(self, data: object) -> None:
        return read_none(data)


class SecretExists(NamedTuple):
    """Return whether the secret `name` is set. The reply is False if the secret is not granted."""

    name: str

    def read_reply(self, data: object) -> bool:
        return read_bool(data)


class ConfigGet(NamedTuple):
    """Return the granted configuration value with this key, or None."""

    key: str

    def read_reply(self, data: object) -> str | None:
        return None if data is None else read_text(data)


class ConfigList(NamedTuple):
    """Return all granted configuration values, as pairs of key and value."""

    def read_reply(self, data: object) -> list[tuple[str, str]]:
        if not isinstance(data, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in data):
            raise make_malformed_error("a list of keys and values")
        return [(read_text(key), read_text(value)) for key, value in data]


class InvokeTool(NamedTuple):
    """Run the tool behind an alias and return its JSON text."""

    alias: str
    params: str

    def read_reply(self, data: object) -> str:
        return read_text(data)


class ReportProgress(NamedTuple):
    """Report progress to the caller."""

    done: int
    total: int | None
    message: str | None

    def read_reply(self, data: object) -> None:
        return read_none(data)


class Refuse(NamedTuple):
    """Record a denial that the guest's side decided without asking the host; `refusals.py` lists the reasons."""

    reason: Reason
    subject: str
    limit: int = 0
    """The limit in bytes, if the reason is a size."""

    def read_reply(self, data: object) -> None:
        return read_none(data)


NAMES: dict[type[object], str] = {
    HttpCheck: "http_refusal",
    HttpOpen: "http_open",
    HttpRead: "http_read",
    HttpReadAll: "http_read_all",
    HttpClose: "http_close",
    WorkspaceRead: "workspace_read",
    WorkspaceReadPart: "workspace_read_part",
    WorkspaceList: "workspace_list",
    WorkspaceStat: "workspace_stat",
    WorkspaceSize: "workspace_size",
    WorkspaceWrite: "workspace_write",
    WorkspaceCopy: "workspace_copy",
    WorkspaceMakeDirectory: "workspace_make_directory",
    WorkspaceRemove: "workspace_remove",
    WorkspaceRename: "workspace_rename",
    SecretExists: "secret_exists",
    ConfigGet: "config_get",
    ConfigList: "config_list",
    InvokeTool: "invoke_tool",
    ReportProgress: "report_progress",
    Refuse: "refuse",
}
"""The name of every kind of request in frames and recordings."""
