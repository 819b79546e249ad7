"""Cut a text that is too long for a model's context."""

from __future__ import annotations

import json
from typing import Any

from wasmrt.core.limits import KIB
from wasmrt.core.strict_json import parse_json

MAX_MODEL_OUTPUT_BYTES = 16 * KIB


def truncate(text: str, limit: int = MAX_MODEL_OUTPUT_BYTES) -> tuple[str, bool]:
    """Cut a text to `limit` bytes of UTF-8, on a character's edge, with a notice of its size; tell whether it was cut.

    A JSON object or list stays one where that is possible: its lists and texts are shortened, and say by how much.

    SECURITY: it comes after every scan. A secret across the cut would not be recognised behind it.
    """
    data = text.encode("utf-8")
    if len(data) <= limit:
        return text, False
    kept = _smaller_json(text, limit) or data[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[output truncated — original size: {len(data):,} bytes]", True


_SHAPES = ((256, 2048), (64, 1024), (32, 512), (16, 256), (8, 128), (4, 64), (2, 32))
"""Entries of a list or an object, and characters of a text, that are kept; the roomiest shape that fits is taken."""
_MAX_DEPTH = 64


def _smaller_json(text: str, limit: int) -> str | None:
    """Return a JSON text with less in it, of `limit` bytes at most; None where it is none, or stays too large."""
    if text[:1] not in ("{", "["):
        return None
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    for entries, characters in _SHAPES:
        kept = json.dumps(_shortened(value, entries, characters, _MAX_DEPTH), ensure_ascii=False)
        if len(kept.encode("utf-8", "replace")) <= limit:
            return kept
    return None


def _shortened(value: Any, entries: int, characters: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= characters else f"{value[:characters]}… [{len(value) - characters:,} more]"
    if not isinstance(value, (dict, list)):
        return value
    if depth == 0:
        return "…"
    more = [f"[{len(value) - entries:,} more]"] if len(value) > entries else []
    if isinstance(value, list):
        return [_shortened(item, entries, characters, depth - 1) for item in value[:entries]] + more
    items = list(value.items())[:entries]
    kept = {key: _shortened(item, entries, characters, depth - 1) for key, item in items}
    return kept | ({"…": more[0]} if more else {})
