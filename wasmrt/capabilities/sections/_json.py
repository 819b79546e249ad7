"""Read JSON strictly: the size is bounded, duplicate keys and NaN are errors, and each error has a JSON path."""

from __future__ import annotations

import json
from typing import Any

from wasmrt.capabilities._fields import Problems, child
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
