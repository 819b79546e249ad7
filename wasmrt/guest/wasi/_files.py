"""What a descriptor stands for: a folder or a file of the granted workspace, read through its checked reader.

No host descriptor is ever open behind one; a file's bytes are read once, whole, when it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wasmrt.component import Err
from wasmrt.errors import BudgetExceededError, CapabilityDeniedError
from wasmrt.guest.wasi._refusals import record
from wasmrt.limits import MAX_WORKSPACE_BYTES_PER_CALL
from wasmrt.model import Decision, Reason

if TYPE_CHECKING:
    from wasmrt.context import CallContext, Workspace

_CODES = {
    Reason.NOT_FOUND: "no-entry",
    Reason.INVALID_PATH: "not-permitted",
    Reason.FILE_TOO_LARGE: "file-too-large",
}
_SHOWN_CHARACTERS = 200


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


def open_path(ctx: CallContext, folder: str, path: str) -> Node | Err:
    """The file or folder at `path` below `folder`; an error code where there is none to be read."""
    whole = joined(folder, path)
    if whole is None:
        return Err("not-permitted")
    if not whole:
        return Folder("")
    workspace = _workspace(ctx)
    try:
        content = workspace.read(whole)
    except CapabilityDeniedError as error:
        if error.decision is not None and error.decision.reason == Reason.NOT_A_FILE:
            return _folder(ctx, workspace, whole)
        return _denied(ctx, error)
    read = ctx.part(_Read)
    read.count += len(content)
    if read.count > MAX_WORKSPACE_BYTES_PER_CALL:
        raise BudgetExceededError(
            f"the guest read more than {MAX_WORKSPACE_BYTES_PER_CALL:,} bytes of files",
            limit=MAX_WORKSPACE_BYTES_PER_CALL, used=read.count, setting="limits.MAX_WORKSPACE_BYTES_PER_CALL",
            hint="have the tool open each file once",
        )  # fmt: skip
    return File(whole, content)


def list_folder(ctx: CallContext, folder: Folder) -> Listing | Err:
    try:
        entries = _workspace(ctx).list(folder.path)
    except CapabilityDeniedError as error:
        return _denied(ctx, error)
    return Listing([{"type": _kind(entry.is_directory), "name": entry.name} for entry in entries])


def refuse_write(ctx: CallContext, subject: str) -> Err:
    """Files are never written; the attempt is on record."""
    record(
        ctx,
        Decision(
            allowed=False,
            reason=Reason.FILESYSTEM_DENIED,
            rule="the workspace is read-only",
            hint="have the tool return what it wants to keep",
            capability="workspace",
            subject=subject[:_SHOWN_CHARACTERS].encode("unicode_escape").decode("ascii"),
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


def _folder(ctx: CallContext, workspace: Workspace, path: str) -> Folder | Err:
    try:
        workspace.list(path)
    except CapabilityDeniedError as error:
        return _denied(ctx, error)
    return Folder(path)


def _denied(ctx: CallContext, error: CapabilityDeniedError) -> Err:
    if error.decision is None:
        return Err("access")
    code = _CODES.get(error.decision.reason, "access")
    if code != "no-entry":  # looking for what is not there is no attempt on anything
        record(ctx, error.decision)
    return Err(code)


def _workspace(ctx: CallContext) -> Workspace:
    workspace = ctx.services.workspace
    assert workspace is not None  # no descriptor is given out without one
    return workspace
