"""The folders and files of the granted workspace, which are the objects behind a guest's descriptors.

No file is open in the host while a guest has a descriptor: a file's complete content is read when the guest opens it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from wasmrt.core.errors import BudgetExceededError
from wasmrt.core.limits import MAX_PATH_BYTES, MAX_WORKSPACE_BYTES_PER_CALL
from wasmrt.core.model import Reason
from wasmrt.sandbox.component import Err
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import Refuse, WorkspaceList, WorkspaceRead, WorkspaceSize, WorkspaceWrite
from wasmrt.sandbox.guest.wasi._file_writing import Written, WrittenFiles, open_written, write_code

_READ_BYTES = "bytes of files"
_CODES: dict[str, str] = {
    Reason.NOT_FOUND: "no-entry",
    Reason.INVALID_PATH: "not-permitted",
    Reason.FILE_TOO_LARGE: "file-too-large",
    Reason.TOO_MANY_ENTRIES: "overflow",
}


@dataclass(frozen=True, slots=True)
class Node:
    path: str
    """The path relative to the workspace; empty for the workspace itself."""


@dataclass(frozen=True, slots=True)
class Folder(Node):
    read_only: bool = False
    """True if the guest cannot write through this folder, even if the grant would allow it."""


@dataclass(frozen=True, slots=True)
class File(Node):
    content: bytes | bytearray
    written: Written | None = None
    """The file's buffer for writing, or None if the file is open only for reading."""


class Listing:
    """The entries of a folder that the guest has not read yet."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries = iter(entries)


def open_path(ctx: GuestCall, folder: Folder, path: str) -> Node | Err:
    """Open the file or folder at `path` in `folder` for reading. Return the file or folder, or an error code."""
    whole = join_path(folder.path, path)
    if whole is None:
        return Err("not-permitted")
    if not whole:
        return Folder("", folder.read_only)
    file = ctx.part(WrittenFiles).open.get(whole)
    if file is not None:
        return File(whole, file.content)
    try:
        return File(whole, _read(ctx, whole, probe=True))
    except HostFailure as failure:
        return (
            _open_folder(ctx, whole, folder.read_only) if failure.code == Reason.NOT_A_FILE else _to_error_code(failure)
        )


def open_to_write(ctx: GuestCall, folder: Folder, path: str, how: frozenset[str]) -> Node | Err:
    """Open the file at `path` in `folder` for writing. Return the file, or an error code.

    A missing file is created if `how` contains "create".
    """
    whole = join_path(folder.path, path)
    if whole is None:
        return Err("not-permitted")
    if folder.read_only or not ctx.services.max_write_bytes:
        return refuse_write(ctx, whole)
    file = ctx.part(WrittenFiles).open.get(whole)
    content = b""
    try:
        size = len(file.content) if file is not None else ctx.services.handle(WorkspaceSize(whole))
        if size is None:
            if "create" not in how:
                return Err("no-entry")
            ctx.services.handle(WorkspaceWrite(whole, b"", new=True))
        elif "exclusive" in how:
            return Err("exist")
    except HostFailure as failure:
        return Err(write_code(failure))
    if file is None and size and "truncate" not in how:
        try:
            # SECURITY: a guest that keeps a part of the old content also needs permission to read the file.
            content = _read(ctx, whole, probe=False)
        except HostFailure as failure:
            return _to_error_code(failure)
    written = open_written(ctx, whole, how, file, content)
    return File(whole, written.content, written)


def list_folder(ctx: GuestCall, folder: Folder) -> Listing | Err:
    try:
        entries = ctx.services.handle(WorkspaceList(folder.path, probe=True))
    except HostFailure as failure:
        return _to_error_code(failure)
    return Listing([{"type": _get_kind(entry.is_directory), "name": entry.name} for entry in entries])


def refuse_write(ctx: GuestCall, path: str) -> Err:
    """Deny writing to a path, and return an error code.

    The host records the denial. If the call may write no files, the record includes the line that would allow it.
    """
    if path and not ctx.services.max_write_bytes:
        try:
            ctx.services.handle(WorkspaceSize(path))
        except HostFailure as failure:
            return Err(write_code(failure))
    return refuse_change(ctx, path)


def refuse_change(ctx: GuestCall, subject: str) -> Err:
    """Deny a change that no grant allows, record the denial, and return an error code."""
    shown = subject[:MAX_PATH_BYTES].encode("unicode_escape").decode("ascii")
    ctx.services.handle(Refuse(Reason.FILESYSTEM_DENIED, shown))
    return Err("read-only")


def join_path(folder: str, path: str) -> str | None:
    """Join `folder` and `path`, and remove `.` segments and repeated slashes.

    Return None if `path` is absolute or the result contains a `..` segment.
    """
    if path.startswith("/"):
        return None
    segments = [segment for segment in f"{folder}/{path}".split("/") if segment not in ("", ".")]
    return None if ".." in segments else "/".join(segments)


def _read(ctx: GuestCall, path: str, *, probe: bool) -> bytes:
    content = ctx.services.handle(WorkspaceRead(path, probe=probe))
    used: Counter[str] = ctx.part(Counter)
    used[_READ_BYTES] += len(content)
    if used[_READ_BYTES] > MAX_WORKSPACE_BYTES_PER_CALL:
        raise BudgetExceededError(
            f"the guest read more than {MAX_WORKSPACE_BYTES_PER_CALL:,} bytes of files",
            limit=MAX_WORKSPACE_BYTES_PER_CALL, used=used[_READ_BYTES], setting="limits.MAX_WORKSPACE_BYTES_PER_CALL",
            hint="have the tool open each file once",
        )  # fmt: skip
    return content


def _get_kind(is_directory: bool) -> str:
    return "directory" if is_directory else "regular-file"


def _open_folder(ctx: GuestCall, path: str, read_only: bool) -> Folder | Err:
    try:
        ctx.services.handle(WorkspaceList(path, probe=True))
    except HostFailure as failure:
        return _to_error_code(failure)
    return Folder(path, read_only)


def _to_error_code(failure: HostFailure) -> Err:
    return Err(_CODES.get(failure.code, "access"))
