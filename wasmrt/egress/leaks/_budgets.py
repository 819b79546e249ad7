"""Bounds on one scan's work: bytes that are decoded, and rules that are tried on adversarial text."""

from __future__ import annotations

from collections.abc import Callable

from wasmrt.core.limits import KIB, MIB

Check = Callable[[], None]
"""Called throughout a scan; ends it by raising."""


def no_check() -> None:
    """Never end a scan."""


MAX_NESTING = 5
MAX_DECODED_BYTES = 32 * MIB
"""Decoded and unpacked bytes of one scan together: a decompression bomb costs this much and no more."""
PIECE_BYTES = 64 * KIB
"""Bytes that are searched between two calls of a `Check`."""
_ESCAPE_BYTES = 32
"""The cost of one escape, in decoded bytes."""
_DECODED_FOR_A_BYTE = 4
"""Bytes that each byte of a large text may decode to; escapes in every other place of it are paid for as well."""


class DecodeBudget:
    """The bytes that one scan may still decode."""

    __slots__ = ("check", "exceeded", "left")

    def __init__(self, left: int = MAX_DECODED_BYTES, check: Check = no_check) -> None:
        self.left = left
        self.check = check
        self.exceeded = False
        """True once something was left encoded: too large, too deeply nested or too many."""

    @classmethod
    def for_text(cls, size: int, check: Check) -> DecodeBudget:
        """Make the budget of a text of `size` bytes."""
        return cls(max(MAX_DECODED_BYTES, size * _DECODED_FOR_A_BYTE), check)

    def charge(self, size: int) -> bool:
        """Pay for decoded bytes; False if the budget does not cover them."""
        self.left -= size
        self.exceeded = self.exceeded or self.left < 0
        return self.left >= 0

    def charge_escapes(self, count: int) -> bool:
        """Pay for escapes, or bytes that look like one; False if nothing is left."""
        self.check()
        return self.charge(count * _ESCAPE_BYTES)


_FIRST_BYTES = 14_000_000
"""Rule bytes that every text may use: all rules on its first 32 KiB, or over a thousand false positives."""
_BYTES_PER_BYTE = 3
_FALSE_POSITIVE_BYTES, _INSIDE_WORD_BYTES = 8192, 3072
"""A false positive takes as long as a rule takes for so many bytes; less in the middle of a word, as in base64."""
_LENGTH_SHARE = 48
"""Rule bytes that each byte of a classified candidate adds."""
_FIRST_WORDS = 4096
_BYTES_PER_WORD = 2048
_NEW_WORD_COST, MASK_COST = 8, 16


class WorkBudget:
    """Rule work that one scan may still spend on false positives.

    An expression is linear in the text, but adversarial text can make hundreds of rules match everywhere, or consist of
    false positives. Work is counted in bytes that a rule looks at; ordinary text needs 1 to 15 for each of its own.
    """

    __slots__ = ("_left", "_words", "unscanned")

    def __init__(self) -> None:
        self._left = _FIRST_BYTES
        self._words = _FIRST_WORDS
        self.unscanned: list[tuple[int, int]] = []
        """Stretches on which the budget did not suffice for every rule."""

    def refill(self, size: int) -> None:
        """Add the budget that `size` more bytes of text bring."""
        self._left = min(_FIRST_BYTES, max(0, self._left) + size * _BYTES_PER_BYTE)
        self._words = min(_FIRST_WORDS, max(0, self._words) + size // _BYTES_PER_WORD)

    def covers(self, rule_bytes: int) -> bool:
        """Return whether so much work can be paid for."""
        return rule_bytes <= self._left

    def charge(self, rule_bytes: int) -> bool:
        """Pay for rule work; False if the budget does not cover it."""
        self._left -= rule_bytes
        return self._left >= 0

    def charge_false_positive(self, size: int, *, inside_word: bool) -> bool:
        """Pay for a rejected candidate of `size` bytes; False if the budget does not cover it."""
        return self.charge(_INSIDE_WORD_BYTES if inside_word else _FALSE_POSITIVE_BYTES + size * _LENGTH_SHARE)

    def charge_word(self, cost: int = _NEW_WORD_COST) -> bool:
        """Pay for trying a word by its prefix; False if the budget does not cover it."""
        self._words -= cost
        return self._words >= 0

    def exhaust(self, start: int, end: int) -> None:
        """Note a stretch on which not every rule was tried."""
        if self.unscanned and self.unscanned[-1][1] == start:
            start = self.unscanned.pop()[0]
        self.unscanned.append((start, end))
