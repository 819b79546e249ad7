"""Text from guests and from the engine, made safe to print."""

from __future__ import annotations

from wasmrt.limits import MAX_ERROR_TEXT_BYTES


def printable_line(text: str, limit_bytes: int = MAX_ERROR_TEXT_BYTES) -> str:
    """Return `text` on one line: control characters out, white space folded, cut on a character boundary."""
    printable = "".join(c if c.isprintable() else " " for c in text[: limit_bytes * 2])
    folded = " ".join(printable.split())
    encoded = folded.encode("utf-8", "replace")
    if len(encoded) <= limit_bytes:
        return folded
    return encoded[:limit_bytes].decode("utf-8", "ignore") + "…"
