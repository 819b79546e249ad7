"""Workspace files for guests: reads and writes below the granted prefixes, and undo."""

from wasmrt.runtime.workspace._budget import WriteBudget
from wasmrt.runtime.workspace._draft import draft
from wasmrt.runtime.workspace._journal import CallJournal, UndoJournal
from wasmrt.runtime.workspace._journal_file import JournalHead
from wasmrt.runtime.workspace._observed import Earlier, record_observed
from wasmrt.runtime.workspace._reader import WorkspaceReader
from wasmrt.runtime.workspace._restore import Act, UndoStep
from wasmrt.runtime.workspace._undo import UndoConflict, UndoPlan, check_conflicts, plan_undo, plan_undo_all, undo
from wasmrt.runtime.workspace._users import UserFolders, folder_name
from wasmrt.runtime.workspace._walk import LinkError, Walk, walking
from wasmrt.runtime.workspace._writer import WorkspaceWriter

__all__ = [
    "Act",
    "CallJournal",
    "Earlier",
    "JournalHead",
    "LinkError",
    "UndoConflict",
    "UndoJournal",
    "UndoPlan",
    "UndoStep",
    "UserFolders",
    "Walk",
    "WorkspaceReader",
    "WorkspaceWriter",
    "WriteBudget",
    "check_conflicts",
    "draft",
    "folder_name",
    "plan_undo",
    "plan_undo_all",
    "record_observed",
    "undo",
    "walking",
]
