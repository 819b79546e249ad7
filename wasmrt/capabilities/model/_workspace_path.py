"""Validate the text of workspace paths: relative, with forward slashes, and with the same meaning on every system."""

from __future__ import annotations

import re

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_PATH_BYTES

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
    return _segment_problem(path)


def _segment_problem(path: str) -> str | None:
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
