"""Reads and writes workspace files for a guest: under granted prefixes, never outside the root, nothing else."""

from wasmrt.workspace._budget import WriteBudget
from wasmrt.workspace._journal import CallJournal, UndoJournal
from wasmrt.workspace._journal_file import JournalHead
from wasmrt.workspace._reader import WorkspaceEntry, WorkspaceReader
from wasmrt.workspace._restore import Act, UndoStep
from wasmrt.workspace._undo import UndoConflict, UndoPlan, check_conflicts, plan_undo, plan_undo_all, undo
from wasmrt.workspace._users import UserFolders, folder_name
from wasmrt.workspace._walk import LinkError, Walk, walking
from wasmrt.workspace._writer import WorkspaceWriter

__all__ = [
    "Act",
    "CallJournal",
    "JournalHead",
    "LinkError",
    "UndoConflict",
    "UndoJournal",
    "UndoPlan",
    "UndoStep",
    "UserFolders",
    "Walk",
    "WorkspaceEntry",
    "WorkspaceReader",
    "WorkspaceWriter",
    "WriteBudget",
    "check_conflicts",
    "folder_name",
    "plan_undo",
    "plan_undo_all",
    "undo",
    "walking",
]
