"""Reads and writes workspace files for a guest: under granted prefixes, never outside the root, nothing else."""

from wasmrt.workspace._budget import WriteBudget
from wasmrt.workspace._journal import CallJournal, UndoJournal
from wasmrt.workspace._journal_file import JournalHead
from wasmrt.workspace._reader import WorkspaceEntry, WorkspaceReader
from wasmrt.workspace._users import UserFolders
from wasmrt.workspace._writer import WorkspaceWriter

__all__ = ["UserFolders", "WorkspaceEntry", "WorkspaceReader", "WorkspaceWriter", "WriteBudget"]
