"""Workspace files for guests of the tool worlds."""

from __future__ import annotations

from typing import Any

from wasmrt.sandbox.component import Err, Ok
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.requests import (
    DirectoryEntry,
    HostFailure,
    WorkspaceCopy,
    WorkspaceList,
    WorkspaceMakeDirectory,
    WorkspaceRead,
    WorkspaceRemove,
    WorkspaceRename,
    WorkspaceStat,
    WorkspaceWrite,
)
from wasmrt.sandbox.guest.worlds._failure import as_failure, result


def agent_read(ctx: GuestCall, path: str) -> str | None:
    """near:agent's `workspace-read`: the text, or nothing for every kind of refusal."""
    try:
        return ctx.services.handle(WorkspaceRead(path)).decode("utf-8")
    except (HostFailure, UnicodeDecodeError):
        return None


def read(ctx: GuestCall, path: str) -> Ok | Err:
    """wasmrt:tool's `workspace.read`."""
    return result(as_failure, ctx.services.handle, WorkspaceRead(path))


def read_text(ctx: GuestCall, path: str) -> Ok | Err:
    """wasmrt:tool's `workspace.read-text`."""
    content = read(ctx, path)
    if isinstance(content, Err):
        return content
    try:
        return Ok(content.value.decode("utf-8"))
    except UnicodeDecodeError:
        return Err({"kind": FailureKind.OPERATION_FAILED, "code": "not-text", "message": "the file is not UTF-8 text"})


def list_entries(ctx: GuestCall, path: str) -> Ok | Err:
    """wasmrt:tool's `workspace.list`."""
    listed = result(as_failure, ctx.services.handle, WorkspaceList(path))
    return listed if isinstance(listed, Err) else Ok([_entry(entry) for entry in listed.value])


def stat(ctx: GuestCall, path: str) -> Ok | Err:
    """wasmrt:tool's `workspace.stat`."""
    found = result(as_failure, ctx.services.handle, WorkspaceStat(path))
    return found if isinstance(found, Err) else Ok(_entry(found.value))


def write(ctx: GuestCall, path: str, content: bytes, new: bool) -> Ok | Err:
    """wasmrt:tool's `workspace.write`."""
    return result(as_failure, ctx.services.handle, WorkspaceWrite(path, content, new))


def write_text(ctx: GuestCall, path: str, content: str, new: bool) -> Ok | Err:
    """wasmrt:tool's `workspace.write-text`."""
    return write(ctx, path, content.encode("utf-8"), new)


def copy(ctx: GuestCall, path: str, to: str) -> Ok | Err:
    """wasmrt:tool's `workspace.copy`."""
    return result(as_failure, ctx.services.handle, WorkspaceCopy(path, to))


def make_directory(ctx: GuestCall, path: str) -> Ok | Err:
    """wasmrt:tool's `workspace.make-directory`."""
    return result(as_failure, ctx.services.handle, WorkspaceMakeDirectory(path))


def remove(ctx: GuestCall, path: str, kind: str) -> Ok | Err:
    """wasmrt:tool's `workspace.remove`."""
    return result(as_failure, ctx.services.handle, WorkspaceRemove(path, directory=kind == "directory"))


def rename(ctx: GuestCall, path: str, to: str) -> Ok | Err:
    """wasmrt:tool's `workspace.rename`."""
    return result(as_failure, ctx.services.handle, WorkspaceRename(path, to))


def _entry(entry: DirectoryEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": "directory" if entry.is_directory else "file",
        "size": 0 if entry.is_directory else entry.size_bytes,
    }
