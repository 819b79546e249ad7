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
PROMPT_FILES = ("IDENTITY.md", "SOUL.md", "AGENTS.md", "USER.md")
"""Names in an agent's memory that go into its model's prompt."""
_CAPABILITY_FILE = ".capabilities.json"
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800")
"""Characters that show nothing besides those of category Cf (Unicode 16.0, Default_Ignorable_Code_Point)."""


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


def is_prompt_file(path: str) -> bool:
    """Tell whether a valid path in an agent's memory is of a file that goes into the prompt, in whatever folder."""
    return not _PROMPT.isdisjoint(_folded(name) for name in path.split("/"))


def _folded(name: str) -> str:
    # SECURITY: some file systems take names for the same that differ in case or in their Unicode form, or ignore what
    # nobody sees, or dots and spaces at the end.
    plain = unicodedata.normalize("NFKC", name)
    seen = "".join(c for c in plain if not is_unseen(c))
    return unicodedata.normalize("NFKC", seen.casefold()).strip().rstrip(". ")


def is_unseen(char: str) -> bool:
    """Tell whether a character shows nothing in a name."""
    selects = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return selects or char in _UNSEEN or unicodedata.category(char) == "Cf"


_PROMPT = frozenset(map(_folded, PROMPT_FILES))
_FILES = frozenset(map(_folded, IDENTITY_FILES))
_FOLDERS = frozenset(map(_folded, IDENTITY_FOLDERS))
