"""Values, fields and choices as words of one-line messages: short, on one line, whatever was given."""

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
    """Return `filter.tags[2]` and the like; empty for the params themselves."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{printable_line(part, MAX_SHOWN_BYTES)}" if text else printable_line(part, MAX_SHOWN_BYTES)
    return text


def shown(value: Any) -> str:
    """Return `the string "abc"`, `12`, `an array of 3 items`: what was given, bounded."""
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
    """Return `a, b, c`, with what is over the bound counted."""
    listed = list(known)
    text = ", ".join(printable_line(name, MAX_SHOWN_BYTES) for name in listed[:MAX_NAMES])
    return text if len(listed) <= MAX_NAMES else f"{text} and {len(listed) - MAX_NAMES} more"


def nearest(name: Any, known: Iterable[str]) -> str:
    """Return ` (did you mean tags?)`, or nothing."""
    near = did_you_mean(name, known)
    return "" if near is None else f" (did you mean {printable_line(near, MAX_SHOWN_BYTES)}?)"
