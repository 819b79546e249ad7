"""Names in the workspace that no tool writes: an agent's identity files, and what wasmrt itself decides by.

Source: IronClaw's file tools, whose identity files go into the prompt of the agent's model.
"""

from __future__ import annotations

import unicodedata

from wasmrt.capabilities.model._workspace_path import plain_path

IDENTITY_FILES = ("HEARTBEAT.md", "MEMORY.md", "IDENTITY.md", "SOUL.md", "AGENTS.md", "USER.md")
"""Names of files, in every folder."""
IDENTITY_FOLDERS = ("daily", "context")
"""Folders at the top of the workspace, with all that is in them."""
_CAPABILITY_FILE = ".capabilities.json"


def protected_problem(path: str) -> str | None:
    """Return why a valid path is never written, or None: a clause that never quotes the path."""
    names = [_folded(name) for name in plain_path(path).split("/")]
    if names[0] in _FOLDERS:
        return "the folder holds what an agent is, which tools never write"
    # A folder of such a name counts as well: what stands in its place later is a file.
    if not _FILES.isdisjoint(names):
        return "the file says what an agent is, which tools never write"
    if names[-1].endswith(_CAPABILITY_FILE):
        return "the file says what a tool may do, which tools never write"
    return None


def _folded(name: str) -> str:
    # SECURITY: some file systems take names for the same that differ in case or in their Unicode form, or ignore what
    # nobody sees, or dots and spaces at the end.
    seen = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", seen.casefold()).rstrip(". ")


_FILES = frozenset(map(_folded, IDENTITY_FILES))
_FOLDERS = frozenset(map(_folded, IDENTITY_FOLDERS))
