"""Descriptors: folders and files of the granted workspace.

No host descriptor is ever open behind one; a file's bytes are read once, whole, when it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wasmrt.component import Err
from wasmrt.errors import BudgetExceededError
from wasmrt.guest.call import GuestCall
from wasmrt.guest.services import HostFailure
from wasmrt.limits import MAX_PATH_BYTES, MAX_WORKSPACE_BYTES_PER_CALL
from wasmrt.model import Decision, Reason

_CODES: dict[str, str] = {
    Reason.NOT_FOUND: "no-entry",
    Reason.INVALID_PATH: "not-permitted",
    Reason.FILE_TOO_LARGE: "file-too-large",
}


@dataclass(frozen=True, slots=True)
class Node:
    path: str
    """Relative to the workspace; empty for its root."""


@dataclass(frozen=True, slots=True)
class Folder(Node):
    pass


@dataclass(frozen=True, slots=True)
class File(Node):
    content: bytes


class Listing:
    """The entries of a folder that are still to be told."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries = iter(entries)


class _Read:
    def __init__(self) -> None:
        self.count = 0


def open_path(ctx: GuestCall, folder: str, path: str) -> Node | Err:
    """The file or folder at `path` below `folder`; an error code where there is none to be read."""
    whole = joined(folder, path)
    if whole is None:
        return Err("not-permitted")
    if not whole:
        return Folder("")
    try:
        content = ctx.services.workspace_read(whole, looking=True)
    except HostFailure as failure:
        return _folder(ctx, whole) if failure.code == Reason.NOT_A_FILE else _error(failure)
    read = ctx.part(_Read)
    read.count += len(content)
    if read.count > MAX_WORKSPACE_BYTES_PER_CALL:
        raise BudgetExceededError(
            f"the guest read more than {MAX_WORKSPACE_BYTES_PER_CALL:,} bytes of files",
            limit=MAX_WORKSPACE_BYTES_PER_CALL, used=read.count, setting="limits.MAX_WORKSPACE_BYTES_PER_CALL",
            hint="have the tool open each file once",
        )  # fmt: skip
    return File(whole, content)


def list_folder(ctx: GuestCall, folder: Folder) -> Listing | Err:
    try:
        entries = ctx.services.workspace_list(folder.path, looking=True)
    except HostFailure as failure:
        return _error(failure)
    return Listing([{"type": _kind(entry.is_directory), "name": entry.name} for entry in entries])


def refuse_write(ctx: GuestCall, subject: str) -> Err:
    """Files are never written; the attempt is on record."""
    ctx.services.refuse(
        Decision(
            allowed=False,
            reason=Reason.FILESYSTEM_DENIED,
            rule="the workspace is read-only",
            hint="have the tool return what it wants to keep",
            capability="workspace",
            subject=subject[:MAX_PATH_BYTES].encode("unicode_escape").decode("ascii"),
        ),
    )
    return Err("read-only")


def joined(folder: str, path: str) -> str | None:
    """`path` below `folder` without `.` and doubled slashes; None where it would leave the folder."""
    if path.startswith("/"):
        return None
    segments = [segment for segment in f"{folder}/{path}".split("/") if segment not in ("", ".")]
    return None if ".." in segments else "/".join(segments)


def _kind(is_directory: bool) -> str:
    return "directory" if is_directory else "regular-file"


def _folder(ctx: GuestCall, path: str) -> Folder | Err:
    try:
        ctx.services.workspace_list(path, looking=True)
    except HostFailure as failure:
        return _error(failure)
    return Folder(path)


def _error(failure: HostFailure) -> Err:
    return Err(_CODES.get(failure.code, "access"))
