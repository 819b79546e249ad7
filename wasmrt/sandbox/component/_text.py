"""Make text from guests and from the engine safe to print."""

from __future__ import annotations

from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES


def printable(text: str) -> str:
    """Return `text` as a single line without control characters or repeated white space."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(text.split())


def printable_line(text: str, limit_bytes: int = MAX_ERROR_TEXT_BYTES) -> str:
    """Return `text` as a single line without control characters or repeated white space, cut to `limit_bytes`."""
    return cut_line(printable(text[: limit_bytes * 2]), limit_bytes)


def cut_line(text: str, limit_bytes: int) -> str:
    """Truncate text to `limit_bytes` on a character boundary, and mark the cut with an ellipsis.

    SECURITY: text that may contain a secret must be scanned before it is truncated: a scan misses a truncated secret.
    """
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit_bytes:
        return text
    return encoded[:limit_bytes].decode("utf-8", "ignore") + "…"


def last_lines(text: str, limit_chars: int) -> str:
    """Return the last lines of a text that fit into `limit_chars`, but at least the last line.

    SECURITY: lines are never cut, because leak rules do not find a secret whose start is missing.
    """
    lines = text.strip().splitlines()
    kept = lines[-1:]
    left = limit_chars - sum(map(len, kept))
    for line in reversed(lines[:-1]):
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))
