"""Check that a text can be judged at all: its length and its encoding."""

from __future__ import annotations

from wasmrt.agent.safety._policy import Flag, Threat
from wasmrt.agent.safety._sanitizer import Sanitized
from wasmrt.core.limits import MIB

MAX_VALIDATED_BYTES = 16 * MIB


class Validator:
    """Replaces what is no text and flags what is over `max_bytes` of UTF-8."""

    def __init__(self, *, max_bytes: int = MAX_VALIDATED_BYTES) -> None:
        self.max_bytes = max_bytes

    def validate(self, text: str) -> Sanitized:
        """Replace unpaired surrogates and flag a text over the limit."""
        flags = []
        if not text.isascii() and (broken := sum(0xD800 <= ord(c) <= 0xDFFF for c in text)):
            text = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)
            flags.append(Flag(Threat.INVALID_TEXT, broken))
        if len(text) > self.max_bytes or len(text.encode()) > self.max_bytes:
            flags.append(Flag(Threat.TOO_LONG, 1))
        return Sanitized(text, tuple(flags))
