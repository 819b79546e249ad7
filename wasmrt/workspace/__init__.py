"""Reads and writes workspace files for a guest: under granted prefixes, never outside the root, nothing else."""

from wasmrt.workspace._budget import WriteBudget
from wasmrt.workspace._reader import WorkspaceEntry, WorkspaceReader
from wasmrt.workspace._writer import WorkspaceWriter

__all__ = ["WorkspaceEntry", "WorkspaceReader", "WorkspaceWriter", "WriteBudget"]
