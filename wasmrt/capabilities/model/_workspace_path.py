"""Paths in the workspace: valid texts of paths, and the files that no tool may write.

Paths are relative, have forward slashes, and have the same meaning on every system. The list of protected files is from
IronClaw's file tools. The identity files become part of the prompt of the agent's model.
"""

from __future__ import annotations

import re
import unicodedata

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_PATH_BYTES
from wasmrt.core.normal_form import normalize

_MAX_NAME_BYTES = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")


def path_problem(path: object) -> str | None:
    """Return the reason why a path is invalid, or None if the path is valid. The reason never quotes the path.

    Names are neither percent-decoded nor normalized. Empty and `.` segments are allowed and ignored.
    """
    if not isinstance(path, str):
        return "the path is not text"
    if not path:
        return "the path is empty"
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "the path is not valid Unicode"
    if size > MAX_PATH_BYTES:
        return f"the path is longer than {MAX_PATH_BYTES} bytes"
    if _CONTROL.search(path):
        return "the path contains a control character"
    if "\\" in path:
        return "the path contains a backslash"
    if path.startswith("/"):
        return "the path is absolute"
    if _DRIVE.match(path):
        return "the path contains a drive"
    return _find_segment_problem(path)


def _find_segment_problem(path: str) -> str | None:
    segments = path.split("/")
    if ".." in segments:
        return "the path contains '..'"
    if any(len(segment.encode()) > _MAX_NAME_BYTES for segment in segments):
        return f"the path contains a name longer than {_MAX_NAME_BYTES} bytes"
    return None


def read_prefix(text: str) -> str:
    """Return the canonical spelling of a workspace prefix. The prefix `""` means the whole workspace.

    Raises:
        ConfigurationError: the prefix is not a valid relative path.
    """
    problem = path_problem(text) if text else None
    if text and not problem and not plain_path(text):
        problem = "it names the workspace itself, not a part of it"
    if problem:
        raise ConfigurationError(
            f"invalid workspace prefix {text!r}: {problem}",
            hint='write it like "context/", or true for the whole workspace',
        )
    return plain_path(text) + "/" * text.endswith("/")


def plain_path(path: str) -> str:
    """Remove empty and `.` segments from a valid path. The result `""` means the workspace itself."""
    return "/".join(segment for segment in path.split("/") if segment not in ("", "."))


def is_under_prefixes(path: str, prefixes: tuple[str, ...]) -> bool:
    """Return whether a valid path is under one of the prefixes, or equal to one."""
    whole = plain_path(path) + "/"
    return any(not prefix or whole.startswith(prefix.removesuffix("/") + "/") for prefix in prefixes)


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
    names = [_fold_name(name) for name in plain_path(path).split("/")]
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
    return not _PROMPT.isdisjoint(_fold_name(name) for name in path.split("/"))


def _fold_name(name: str) -> str:
    # SECURITY: for some file systems, two names are equal if they differ only in case, Unicode form, invisible
    # characters, or dots and spaces at the end.
    plain = normalize("NFKC", name)
    seen = "".join(c for c in plain if not is_invisible(c))
    return normalize("NFKC", seen.casefold()).strip().rstrip(". ")


def is_invisible(char: str) -> bool:
    """Return whether a character is invisible in a name."""
    selects = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return selects or char in _UNSEEN or unicodedata.category(char) == "Cf"


_PROMPT = frozenset(map(_fold_name, PROMPT_FILES))
_FILES = frozenset(map(_fold_name, IDENTITY_FILES))
_FOLDERS = frozenset(map(_fold_name, IDENTITY_FOLDERS))
