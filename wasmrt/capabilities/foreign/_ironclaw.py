"""Sidecars of IronClaw's older releases: keys that mean nothing here are left out, with what they stand in."""

from __future__ import annotations

import json
import re
from typing import Any

from wasmrt.capabilities.file import parse
from wasmrt.capabilities.foreign._imported import Imported
from wasmrt.core.errors import CapabilityFileError
from wasmrt.core.limits import MAX_CAPABILITY_FILE_BYTES, MAX_CAPABILITY_FILE_DEPTH
from wasmrt.core.strict_json import JsonError, read_json

_ROUNDS = 200
_PART = re.compile(r"\[(\d+)\]|\[\"((?:[^\"\\]|\\.)*)\"\]|([^.\[\]]+)")
_WHOLE = ("allowlist", "allowed_endpoints", "credentials", "aliases", "tools")
"""Lists and maps whose entries stand for themselves: a mistake in one leaves the others."""


def import_sidecar(text: str | bytes) -> Imported:
    """Read a sidecar, and leave out what no capability file here can have.

    SECURITY: an entry goes as a whole, since a key that is not known may be what narrows it.

    Raises:
        CapabilityFileError: it is no JSON object, or the file of a channel.
    """
    try:
        tree = read_json(text, max_bytes=MAX_CAPABILITY_FILE_BYTES, max_depth=MAX_CAPABILITY_FILE_DEPTH)
    except JsonError:
        return Imported(parse(text), ())  # which says why it cannot be read
    left: list[str] = []
    for _ in range(_ROUNDS):
        try:
            return Imported(parse(json.dumps(tree)), tuple(left))
        except CapabilityFileError as error:
            path, message = error.problems[0]
            if not _drop(tree, _entry(path)):
                raise
            left.append(f"{path}: {message}")
    raise CapabilityFileError("the file has too many mistakes to be imported", hint="wasmrt caps check FILE")


def _entry(path: str) -> list[str | int]:
    """Return the path of the smallest whole that a mistake leaves out: an entry of a list, else a section."""
    parts: list[str | int] = [
        int(number) if number else json.loads(f'"{quoted}"') if quoted else plain
        for number, quoted, plain in _PART.findall(path)
    ]
    start = 1 if parts[:1] == ["capabilities"] else 0
    for at, part in enumerate(parts):
        if part in _WHOLE and at + 1 < len(parts):
            return parts[: at + 2]
    return parts[: start + 1]


def _drop(tree: Any, path: list[str | int]) -> bool:
    *above, last = path or ["$"]
    for part in above:
        try:
            tree = tree[part]
        except (KeyError, IndexError, TypeError):
            return False
    try:
        del tree[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True
