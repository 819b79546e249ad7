"""The way back from what a call changed in the workspace, said right after it."""

from __future__ import annotations

from wasmrt.capabilities import Capabilities
from wasmrt.cli._output import print_message
from wasmrt.places import find_places


def show_changes(grant: Capabilities, call_id: str | None) -> None:
    """Say how to take a call back, where it has changed files."""
    if grant.workspace_write is None or not call_id:
        return
    from wasmrt.workspace import UndoJournal

    if call_id in UndoJournal(find_places().undo).call_ids():
        print_message(f"  it changed files; to take that back: wasmrt undo {call_id}")
