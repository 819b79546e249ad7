"""Read a capability file as validated JSON data. A file with any error is refused, and all errors are reported."""

from __future__ import annotations

import re
from typing import Any

from wasmrt.capabilities._fields import INVALID, Problems, child
from wasmrt.capabilities.sections._json import read_json
from wasmrt.capabilities.sections._schema import NESTED, ROOT
from wasmrt.core.errors import CapabilityFileError


def read_tree(data: str | bytes) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the sections of a capability file as JSON data, and the names of the sections under `capabilities`.

    Keys are in their canonical spelling.

    Raises:
        CapabilityFileError: the file is invalid; `problems` lists every error with its JSON path.
    """
    problems = Problems()
    tree = read_json(data, problems)
    if (kind := _other_kind(tree)) is not None:
        problems.add(kind, f"this file describes a {_OTHER_KINDS[kind]}, not a tool")
        raise file_error(problems)
    nested: frozenset[str] = frozenset()
    if tree is not None or not problems:
        tree, nested = _raise_nested(ROOT.read(tree, "", problems), problems)
    if problems:
        raise file_error(problems)
    return tree, nested


def nested_path(path: str, nested: frozenset[str]) -> str:
    """Return the JSON path of a value as in the file: below `capabilities`, if its section is in `nested`."""
    return f"{NESTED}.{path}" if re.split(r"[.\[]", path, maxsplit=1)[0] in nested else path


_OTHER_KINDS = {
    "channel": "channel (messages of a chat)",
    "hook": "hook (called by the loop of another agent)",
}
"""Kinds of IronClaw sidecars that do not describe tools. One error is reported, instead of an error for each key."""
_HOOK_KEYS = frozenset({"hook", "hooks", "hook_point", "hook_points"})


def _other_kind(tree: Any) -> str | None:
    """Return `channel` or `hook` if the `type`, the `kind` or the sections of a file describe one, otherwise None."""
    if not isinstance(tree, dict):
        return None
    for part in (tree, tree.get(NESTED)):
        if not isinstance(part, dict):
            continue
        kinds = (
            {part.get("type"), part.get("kind")}
            if all(isinstance(part.get(key, ""), str) for key in ("type", "kind"))
            else set()
        )
        if "channel" in kinds or "channel" in part:
            return "channel"
        if "hook" in kinds or not _HOOK_KEYS.isdisjoint(part):
            return "hook"
    return None


def file_error(problems: Problems) -> CapabilityFileError:
    """Return the error for a file with problems."""
    first_path, first = problems.found[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return CapabilityFileError(
        f"invalid capability file: {first_path}: {first}{more}",
        problems=tuple(problems.found),
        hint="wasmrt caps check FILE lists every error",
    )


def _raise_nested(tree: Any, problems: Problems) -> tuple[Any, frozenset[str]]:
    """Move the sections under `capabilities` to the top level and return their names. Duplicates are errors."""
    if tree is INVALID or NESTED not in tree:
        return tree, frozenset()
    nested = tree.pop(NESTED)
    for key in nested:
        if key in tree:
            problems.add(child(NESTED, key), f"{key!r} is also at the top level; keep one of them")
    return nested | tree, frozenset(nested)
