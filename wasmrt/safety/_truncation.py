"""Cut a text that is too long for a model's context."""

from __future__ import annotations

from wasmrt.limits import KIB

MAX_MODEL_OUTPUT_BYTES = 16 * KIB


def truncate(text: str, limit: int = MAX_MODEL_OUTPUT_BYTES) -> tuple[str, bool]:
    """Cut a text to `limit` bytes of UTF-8, on a character's edge, with a notice of its size; tell whether it was cut.

    SECURITY: it comes after every scan. A secret across the cut would not be recognised behind it.
    """
    data = text.encode("utf-8")
    if len(data) <= limit:
        return text, False
    kept = data[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[output truncated — original size: {len(data):,} bytes]", True
