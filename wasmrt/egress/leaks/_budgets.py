"""Limits on the work of one scan: decoded bytes, and rules that are tried on adversarial text."""

from __future__ import annotations

from collections.abc import Callable

from wasmrt.core.limits import KIB, MIB

Check = Callable[[], None]
"""Called throughout a scan; ends the scan by raising."""


def no_check() -> None:
    """Never end a scan."""


MAX_NESTING = 5
MAX_DECODED_BYTES = 32 * MIB
"""Decoded and decompressed bytes of one scan together, which limits the cost of a decompression bomb."""
PIECE_BYTES = 64 * KIB
"""Bytes searched between two calls of a `Check`."""
_ESCAPE_BYTES = 32
"""The cost of one escape, in decoded bytes."""
_DECODED_FOR_A_BYTE = 4
"""Decoded bytes allowed for each byte of a large text. It also covers an escape at every second place."""


class DecodeBudget:
    """The bytes that a scan may still decode."""

    __slots__ = ("check", "exceeded", "left")

    def __init__(self, left: int = MAX_DECODED_BYTES, check: Check = no_check) -> None:
        self.left = left
        self.check = check
        self.exceeded = False
        """True if something was left encoded: too large, too deeply nested or too much."""

    @classmethod
    def for_text(cls, size: int, check: Check) -> DecodeBudget:
        """Return the budget for a text of `size` bytes."""
        return cls(max(MAX_DECODED_BYTES, size * _DECODED_FOR_A_BYTE), check)

    def charge(self, size: int) -> bool:
        """Charge decoded bytes; return False if the budget is exhausted."""
        self.left -= size
        self.exceeded = self.exceeded or self.left < 0
        return self.left >= 0

    def charge_escapes(self, count: int) -> bool:
        """Charge escapes, or bytes that look like one; return False if the budget is exhausted."""
        self.check()
        return self.charge(count * _ESCAPE_BYTES)


_FIRST_BYTES = 14_000_000
"""Rule bytes that every text may use: all rules on its first 32 KiB, or over a thousand false positives."""
_BYTES_PER_BYTE = 3
_FALSE_POSITIVE_BYTES, _INSIDE_WORD_BYTES = 8192, 3072
"""Cost of a false positive, in bytes that a rule reads; lower in the middle of a word, as in base64."""
_LENGTH_SHARE = 48
"""Rule bytes added by each byte of a classified candidate."""
_FIRST_WORDS = 4096
_BYTES_PER_WORD = 2048
_NEW_WORD_COST, MASK_COST = 8, 16


class WorkBudget:
    """The rule work that a scan may still spend on false positives.

    An expression takes linear time, but in adversarial text hundreds of rules may match everywhere, or all matches may
    be false positives. Work is counted in bytes that a rule reads; ordinary text needs 1 to 15 per byte.
    """

    __slots__ = ("_left", "_words", "unscanned")

    def __init__(self) -> None:
        self._left = _FIRST_BYTES
        self._words = _FIRST_WORDS
        self.unscanned: list[tuple[int, int]] = []
        """Parts of the text for which the budget did not suffice for every rule."""

    def refill(self, size: int) -> None:
        """Add the budget for `size` more bytes of text."""
        self._left = min(_FIRST_BYTES, max(0, self._left) + size * _BYTES_PER_BYTE)
        self._words = min(_FIRST_WORDS, max(0, self._words) + size // _BYTES_PER_WORD)

    def covers(self, rule_bytes: int) -> bool:
        """Return whether the budget covers this much work."""
        return rule_bytes <= self._left

    def charge(self, rule_bytes: int) -> bool:
        """Charge rule work; return False if the budget is exhausted."""
        self._left -= rule_bytes
        return self._left >= 0

    def charge_false_positive(self, size: int, *, inside_word: bool) -> bool:
        """Charge a rejected candidate of `size` bytes; return False if the budget is exhausted."""
        return self.charge(_INSIDE_WORD_BYTES if inside_word else _FALSE_POSITIVE_BYTES + size * _LENGTH_SHARE)

    def charge_word(self, cost: int = _NEW_WORD_COST) -> bool:
        """Charge one lookup of a word by its prefix; return False if the budget is exhausted."""
        self._words -= cost
        return self._words >= 0

    def exhaust(self, start: int, end: int) -> None:
        """Record a part of the text for which not every rule was tried."""
        if self.unscanned and self.unscanned[-1][1] == start:
            start = self.unscanned.pop()[0]
        self.unscanned.append((start, end))
