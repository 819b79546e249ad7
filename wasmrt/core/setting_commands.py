"""The commands that change settings of the operator's file, for hints. This module imports nothing of wasmrt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import date, datetime, time
from shlex import quote
from typing import Any

PLACEHOLDER = re.compile(r"[A-Z]+")
"""A part of a setting's key that stands for any name."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_dotted_key(path: Iterable[str]) -> str:
    """Return a path as a dotted TOML key: `tools.rules."files.*"`."""
    return ".".join(name if _BARE.fullmatch(name) else json.dumps(name) for name in path)


def format_value(value: Any) -> str:
    """Return data as a TOML value in one line."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{write_dotted_key([name])} = {format_value(each)}" for name, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False)


def set_command(key: str, value: Any, *parts: str) -> str:
    """Return the command that sets a setting. `parts` replace the placeholders of `key`, in order."""
    text = value if isinstance(value, str) else format_value(value)
    return f"wasmrt config set {_quote_key(key, parts)} {quote(text)}"


def append_command(key: str, entry: str, *parts: str) -> str:
    """Return the command that appends an entry to a list."""
    return f"wasmrt config set --append {_quote_key(key, parts)} {quote(entry)}"


def unset_command(key: str, *parts: str) -> str:
    """Return the command that removes a setting."""
    return f"wasmrt config unset {_quote_key(key, parts)}"


def _quote_key(key: str, parts: tuple[str, ...]) -> str:
    given = iter(parts)
    return quote(write_dotted_key(next(given) if PLACEHOLDER.fullmatch(part) else part for part in key.split(".")))
