"""Format values, field paths and choices for one-line messages, within limits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from wasmrt.core.names import did_you_mean
from wasmrt.sandbox.component import printable_line

MAX_SHOWN_BYTES = 60
MAX_NAMES = 20

Path = Sequence[str | int]


def field_path(path: Path) -> str:
    """Return a path such as `filter.tags[2]`; empty for the params as a whole."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{printable_line(part, MAX_SHOWN_BYTES)}" if text else printable_line(part, MAX_SHOWN_BYTES)
    return text


def describe(value: Any) -> str:
    """Describe a value within a limited length: `the string "abc"`, `12`, `an array of 3 items`."""
    if isinstance(value, str):
        cut = value[:MAX_SHOWN_BYTES]
        text = printable_line(json.dumps(cut, ensure_ascii=False)[1:-1], MAX_SHOWN_BYTES)
        return f'the string "{text}"' + (f" and {len(value) - len(cut)} characters more" if value != cut else "")
    if isinstance(value, (list, tuple)):
        return f"an array of {len(value)} item{'' if len(value) == 1 else 's'}"
    if isinstance(value, dict):
        return f"an object with {names(map(str, value))}" if value else "an empty object"
    if isinstance(value, bytes):
        return "bytes"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 128:
        return "an integer of over 128 bits"
    return printable_line(str(value), MAX_SHOWN_BYTES)


def names(known: Iterable[str]) -> str:
    """Return a list such as `a, b, c`; names over the limit are only counted."""
    listed = list(known)
    text = ", ".join(printable_line(name, MAX_SHOWN_BYTES) for name in listed[:MAX_NAMES])
    return text if len(listed) <= MAX_NAMES else f"{text} and {len(listed) - MAX_NAMES} more"


def nearest(name: Any, known: Iterable[str]) -> str:
    """Return a suggestion such as ` (did you mean tags?)`, or an empty string."""
    near = did_you_mean(name, known)
    return "" if near is None else f" (did you mean {printable_line(near, MAX_SHOWN_BYTES)}?)"
