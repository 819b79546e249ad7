"""Text from guests and from the engine, made safe to print."""

from __future__ import annotations

from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES


def printable(text: str) -> str:
    """Return `text` on one line: control characters out, white space folded."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def printable_line(text: str, limit_bytes: int = MAX_ERROR_TEXT_BYTES) -> str:
    """Return `text` on one line: control characters out, white space folded, cut on a character boundary."""
    return cut_line(printable(text[: limit_bytes * 2]), limit_bytes)


def cut_line(text: str, limit_bytes: int) -> str:
    """Cut a text on a character boundary.

    SECURITY: what may hold a secret is scanned before: behind the cut it would not be recognised.
    """
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit_bytes:
        return text
    return encoded[:limit_bytes].decode("utf-8", "ignore") + "…"


def last_lines(text: str, limit_chars: int) -> str:
    """Return the last lines of a text: whole ones, of at most `limit_chars` together, but always one.

    SECURITY: of a secret that is cut in front no rule would find the rest.
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
