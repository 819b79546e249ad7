"""Classify a candidate by its value and by the text around it."""

from __future__ import annotations

import re

from wasmrt.egress.leaks._context_checks import CONTEXT_CHECKS
from wasmrt.egress.leaks._rules import Rule
from wasmrt.egress.leaks._value_checks import CHECKS, CHECKSUMS, entropy, is_documented, is_placeholder

_COLOUR = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]\Z")
"""An ANSI sequence that ends right before a candidate."""
_WORD = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = frozenset(b"abcdefghijklmnopqrstuvwxyz")
_HEX = frozenset(b"0123456789abcdefABCDEF")


def classify(rule: Rule, data: bytes, begin: int, start: int, end: int) -> bool | None:
    """Return None for a false positive, else True where a checksum proves the candidate `data[start:end]`.

    `begin` is where the rule's match begins: at the candidate, or at the name before it.
    """
    value = data[start:end]
    if rule.checksum and CHECKSUMS[rule.checksum](value):
        return True
    if not rule.inside and not _stands_alone(data, begin, start, end):
        return None
    if rule.names and begin and data[begin] in _LOWER and data[begin - 1] in _LOWER:
        return None  # the name is the tail of another word
    if rule.check in CONTEXT_CHECKS:
        passed = CONTEXT_CHECKS[rule.check](data, begin, start, end)
        return False if passed and not is_documented(value) else None
    if rule.check and not CHECKS[rule.check](value):
        return None
    if not rule.placeholders and is_placeholder(value):
        return None
    if rule.entropy and entropy(value) < rule.entropy:
        return None
    return None if is_documented(value) else False


def _stands_alone(data: bytes, begin: int, start: int, end: int) -> bool:
    """The candidate is not the middle of a longer word; an escape before it is no part of a word."""
    if end < len(data) and data[end] in _WORD and data[end - 1] in _WORD:
        return False
    if begin != start or begin == 0 or data[begin - 1] not in _WORD:
        return True
    if begin >= 2 and data[begin - 2] == 0x5C:  # \n, \t, \" in a string literal
        return True
    if _COLOUR.search(data, max(0, begin - 12), begin):
        return True
    return begin >= 3 and data[begin - 3] == 0x25 and data[begin - 2] in _HEX and data[begin - 1] in _HEX
