"""Make text from guests and from the engine safe to print."""

from __future__ import annotations

from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES


def printable(text: str) -> str:
    """Return `text` in one line, without control characters and repeated white space."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def printable_line(text: str, limit_bytes: int = MAX_ERROR_TEXT_BYTES) -> str:
    """Return `text` in one line, without control characters and repeated white space, truncated to `limit_bytes`."""
    return cut_line(printable(text[: limit_bytes * 2]), limit_bytes)


def cut_line(text: str, limit_bytes: int) -> str:
    """Truncate text on a character boundary.

    SECURITY: scan text that may contain a secret before truncating it: a truncated secret is not recognised.
    """
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit_bytes:
        return text
    return encoded[:limit_bytes].decode("utf-8", "ignore") + "…"


def last_lines(text: str, limit_chars: int) -> str:
    """Return as many complete last lines of a text as fit into `limit_chars`, but at least one.

    SECURITY: lines are kept complete, because leak rules do not find a secret without its start.
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
