"""Reads workspace files for a guest, and nothing else: read-only, under granted prefixes, never outside the root."""

from wasmrt.workspace._reader import WorkspaceEntry, WorkspaceReader

__all__ = ["WorkspaceEntry", "WorkspaceReader"]
