"""Workspace files for guests, read-only, through the checked reader."""

from __future__ import annotations

from typing import Any

from wasmrt.component import Err, Ok
from wasmrt.context import CallContext, Workspace
from wasmrt.errors import CapabilityDeniedError
from wasmrt.guest.worlds._failure import HostFailure, denied, from_error
from wasmrt.model import Decision, Reason


def agent_read(context: CallContext, path: str) -> str | None:
    """near:agent's `workspace-read`: the text, or nothing for every kind of refusal."""
    try:
        return _reader(context, path).read(path).decode("utf-8")
    except CapabilityDeniedError as error:
        if error.decision is not None:
            context.decide(error.decision)
        return None
    except (HostFailure, UnicodeDecodeError):
        return None


def read(context: CallContext, path: str) -> Ok | Err:
    """wasmrt:tool's `workspace.read`."""
    try:
        return Ok(_reader(context, path).read(path))
    except CapabilityDeniedError as error:
        return Err(from_error(context, error).as_failure())
    except HostFailure as failure:
        return Err(failure.as_failure())


def list_entries(context: CallContext, path: str) -> Ok | Err:
    """wasmrt:tool's `workspace.list`."""
    try:
        entries = _reader(context, path).list(path)
    except CapabilityDeniedError as error:
        return Err(from_error(context, error).as_failure())
    except HostFailure as failure:
        return Err(failure.as_failure())
    return Ok([_entry(entry) for entry in entries])


def _entry(entry: Any) -> dict[str, Any]:
    return {
        "name": entry.name,
        "kind": "directory" if entry.is_directory else "file",
        "size": 0 if entry.is_directory else entry.size_bytes,
    }


def _reader(context: CallContext, path: str) -> Workspace:
    reader = context.services.workspace
    if context.grant.workspace_read is None:
        raise denied(context, context.grant.explain_workspace(path))
    if reader is None:
        raise denied(
            context,
            Decision(
                False, Reason.NOT_GRANTED, "this runtime has no workspace",
                "give it a folder: wasmrt run --workspace DIR; in Python, WasmRuntimeConfig(workspace=DIR)",
                capability="workspace", subject=path[:200],
            ),
        )  # fmt: skip
    return reader
