"""Content nested in a text: encoded, escaped or packed, layer by layer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wasmrt.egress.leaks._budgets import Check, DecodeBudget
from wasmrt.egress.leaks._encoded import LEAST_RUN, decode, may_hold_encoded
from wasmrt.egress.leaks._escapes import unescaped

_MAX_LAYERS = 3
_ESCAPES = (b"%", b"\\", b"&")
_URL_MARKS = re.compile(rb"[/?&=#]")


def contents(data: bytes, check: Check, *, nothing_encoded: bool = False) -> Iterator[bytes]:
    """Yield the nested content of a text, layer by layer, within the decoding budget.

    With `nothing_encoded`, the caller has already searched for runs, lists and dumps.
    """
    plain = data.isascii() and not any(mark in data for mark in _ESCAPES)
    if plain and (nothing_encoded or not may_hold_encoded(data)):
        return  # most texts
    budget = DecodeBudget.for_text(len(data), check)
    layer = [data]
    for _ in range(_MAX_LAYERS):
        layer = [inner for text in layer for inner in _opened(text, budget)]
        yield from layer


def url_contents(url: bytes, check: Check) -> Iterator[bytes]:
    """Yield the nested content of a URL's parts: a slash is also in the alphabet of base64."""
    for part in _URL_MARKS.split(url):
        if len(part) >= LEAST_RUN:
            yield from contents(part, check)


def _opened(text: bytes, budget: DecodeBudget) -> Iterator[bytes]:
    plain = unescaped(text, budget.check)
    if plain and budget.charge(len(plain.data)):
        yield plain.data
    for _, _, inner in decode(text, budget):
        yield inner
