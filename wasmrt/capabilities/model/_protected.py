"""Files in the workspace that no tool may write: an agent's identity files, and files that set permissions.

The list is from IronClaw's file tools. The identity files become part of the prompt of the agent's model.
"""

from __future__ import annotations

import unicodedata

from wasmrt.capabilities.model._workspace_path import plain_path
from wasmrt.core.normal_form import normalize

IDENTITY_FILES = ("HEARTBEAT.md", "MEMORY.md", "IDENTITY.md", "SOUL.md", "AGENTS.md", "USER.md")
"""File names that are protected in every folder."""
IDENTITY_FOLDERS = ("daily", "context")
"""Top-level folders of the workspace that are protected with their contents."""
PROMPT_FILES = ("IDENTITY.md", "SOUL.md", "AGENTS.md", "USER.md")
"""File names in an agent's memory that become part of its model's prompt."""
_CAPABILITY_FILE = ".capabilities.json"
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0\u2800")
"""Invisible characters in addition to category Cf (Unicode 16.0, Default_Ignorable_Code_Point)."""


def protected_problem(path: str) -> str | None:
    """Return the reason why no tool may write a valid path, or None if the path is not protected.

    The reason never quotes the path.
    """
    names = [_folded(name) for name in plain_path(path).split("/")]
    if names[0] in _FOLDERS:
        return "the folder defines the agent's identity, which tools must not write"
    # Folders with such a name are protected, too, because a file could replace them later.
    if not _FILES.isdisjoint(names):
        return "the file defines the agent's identity, which tools must not write"
    if names[-1].endswith(_CAPABILITY_FILE):
        return "the file sets a tool's permissions, which tools must not write"
    return None


def is_prompt_file(path: str) -> bool:
    """Return whether a valid path in an agent's memory names a file that becomes part of the prompt, in any folder."""
    return not _PROMPT.isdisjoint(_folded(name) for name in path.split("/"))


def _folded(name: str) -> str:
    # SECURITY: for some file systems, two names are equal if they differ only in case, Unicode form, invisible
    # characters, or dots and spaces at the end.
    plain = normalize("NFKC", name)
    seen = "".join(c for c in plain if not is_invisible(c))
    return normalize("NFKC", seen.casefold()).strip().rstrip(". ")


def is_invisible(char: str) -> bool:
    """Return whether a character is invisible in a name."""
    selects = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return selects or char in _UNSEEN or unicodedata.category(char) == "Cf"


_PROMPT = frozenset(map(_folded, PROMPT_FILES))
_FILES = frozenset(map(_folded, IDENTITY_FILES))
_FOLDERS = frozenset(map(_folded, IDENTITY_FOLDERS))
