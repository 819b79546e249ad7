"""Read a capability file as validated JSON data. A file with any error is refused, and all errors are reported.

The size is bounded, duplicate keys and NaN are errors, and each error has a JSON path.
"""

from __future__ import annotations

import json
import re
from typing import Any

from wasmrt.capabilities._fields import INVALID, Problems, child
from wasmrt.capabilities.sections._schema import NESTED, ROOT
from wasmrt.core.errors import CapabilityFileError
from wasmrt.core.limits import MAX_CAPABILITY_FILE_BYTES, MAX_CAPABILITY_FILE_DEPTH
from wasmrt.core.strict_json import JsonError, check_nesting

_MAX_DIGITS = 18


def read_json(data: str | bytes, problems: Problems) -> Any:
    """Return the value of a JSON text, or add an error to `problems` and return None."""
    text = _decode(data, problems)
    if text is None or not _is_shallow(text, problems):
        return None
    try:
        value = json.loads(
            text, object_pairs_hook=_Object, parse_int=_read_int, parse_float=_read_float, parse_constant=_deny_constant
        )
    except json.JSONDecodeError as error:
        problems.add("$", f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
        return None
    except ValueError as error:
        problems.add("$", f"not JSON: {error}")
        return None
    return _plain(value, "", problems)


class _Object:
    """The pairs of keys and values of a JSON object, as written, including duplicate keys."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _decode(data: str | bytes, problems: Problems) -> str | None:
    if len(data) > MAX_CAPABILITY_FILE_BYTES:
        problems.add("$", f"the file is larger than {MAX_CAPABILITY_FILE_BYTES} bytes")
        return None
    try:
        text = data.decode() if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        problems.add("$", f"the file is not UTF-8 (byte {error.start})")
        return None
    if text.startswith("\ufeff"):
        problems.add("$", "the file begins with a byte order mark; save it as plain UTF-8")
        return None
    return text


def _is_shallow(text: str, problems: Problems) -> bool:
    try:
        check_nesting(text, max_depth=MAX_CAPABILITY_FILE_DEPTH)
    except JsonError:
        problems.add("$", f"the file nests deeper than {MAX_CAPABILITY_FILE_DEPTH} levels")
        return False
    return True


def _read_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has more than {_MAX_DIGITS} digits")
    return int(digits)


def _read_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value


def _deny_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _plain(value: Any, path: str, problems: Problems) -> Any:
    if isinstance(value, _Object):
        members: dict[str, Any] = {}
        for key, member in value.pairs:
            if key in members:
                problems.add(child(path, key), "duplicate key")
            members[key] = _plain(member, child(path, key), problems)
            _check_text(key, path, problems)
        return members
    if isinstance(value, list):
        return [_plain(item, child(path, index), problems) for index, item in enumerate(value)]
    if isinstance(value, str):
        _check_text(value, path, problems)
    return value


def _check_text(text: str, path: str, problems: Problems) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        problems.add(path, "the string contains an unpaired surrogate")


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
