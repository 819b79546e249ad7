"""Reads workspace paths as text: relative, forward slashes, nothing that any system reads another way."""

from __future__ import annotations

import re

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_PATH_BYTES

_MAX_NAME_BYTES = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")


def path_problem(path: object) -> str | None:
    """Return why a path is not valid, or None: a clause that never quotes the path.

    Percent signs and odd letters are part of a name, never decoded and never normalised. Only empty and `.` segments
    mean nothing, as everywhere.
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
        return "the path holds a control character"
    if "\\" in path:
        return "the path holds a backslash"
    if path.startswith("/"):
        return "the path is absolute"
    if _DRIVE.match(path):
        return "the path names a drive"
    return _segment_problem(path)


def _segment_problem(path: str) -> str | None:
    segments = path.split("/")
    if ".." in segments:
        return "the path climbs with '..'"
    if any(len(segment.encode()) > _MAX_NAME_BYTES for segment in segments):
        return f"the path holds a name longer than {_MAX_NAME_BYTES} bytes"
    return None


def read_prefix(text: str) -> str:
    """Return a workspace prefix; `""` is the whole workspace.

    Raises:
        ConfigurationError: the prefix is not a valid relative path.
    """
    problem = path_problem(text) if text else None
    if text and not problem and not plain_path(text):
        problem = "it names no folder"
    if problem:
        raise ConfigurationError(
            f"workspace prefix {text!r} cannot be used: {problem}",
            hint='write it like "context/", or true for the whole workspace',
        )
    return plain_path(text) + "/" * text.endswith("/")


def plain_path(path: str) -> str:
    """Return a valid path without its empty and `.` segments; `""` is the workspace itself."""
    return "/".join(segment for segment in path.split("/") if segment not in ("", "."))


def is_under_prefixes(path: str, prefixes: tuple[str, ...]) -> bool:
    """Tell whether a valid path lies under a prefix: `notes` and `notes/` cover `notes` and below, not `notes2`."""
    whole = plain_path(path) + "/"
    return any(not prefix or whole.startswith(prefix.removesuffix("/") + "/") for prefix in prefixes)
