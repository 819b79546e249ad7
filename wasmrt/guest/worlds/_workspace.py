"""Workspace files for guests, read-only."""

from __future__ import annotations

from typing import Any

from wasmrt.component import Err, Ok
from wasmrt.guest.call import GuestCall
from wasmrt.guest.services import DirectoryEntry, HostFailure
from wasmrt.guest.worlds._failure import as_failure, result


def agent_read(ctx: GuestCall, path: str) -> str | None:
    """near:agent's `workspace-read`: the text, or nothing for every kind of refusal."""
    try:
        return ctx.services.workspace_read(path).decode("utf-8")
    except (HostFailure, UnicodeDecodeError):
        return None


def read(ctx: GuestCall, path: str) -> Ok | Err:
    """wasmrt:tool's `workspace.read`."""
    return result(as_failure, ctx.services.workspace_read, path)


def list_entries(ctx: GuestCall, path: str) -> Ok | Err:
    """wasmrt:tool's `workspace.list`."""
    listed = result(as_failure, ctx.services.workspace_list, path)
    return listed if isinstance(listed, Err) else Ok([_entry(entry) for entry in listed.value])


def _entry(entry: DirectoryEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": "directory" if entry.is_directory else "file",
        "size": 0 if entry.is_directory else entry.size_bytes,
    }
