"""Find the secrets a call may use, verbatim and in every encoding a guest is likely to reach for.

The text is brought to the normal form of the patterns. Percent, `\\u`, `\\x`, octal, JSON and HTML escapes and letters
of another width are undone first, one nesting after the other, and markup between characters is left out; base64,
base32, hex, dumps, lists of bytes and archives of a larger whole are decoded to a small depth. What one secret costs is
paid before any of that: a text is searched as it is before anything in it is decoded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from wasmrt.core.limits import KIB, MIN_SECRET_CHARS
from wasmrt.egress.leaks._budgets import MAX_NESTING, PIECE_BYTES, Check, DecodeBudget, no_check
from wasmrt.egress.leaks._encoded import LEAST_RUN, decode, is_encoded
from wasmrt.egress.leaks._escapes import unescapings, with_places, without_markup
from wasmrt.egress.leaks._patterns import (
    NOT_ALNUM,
    NOT_VISIBLE,
    SEPARATORS,
    MayMatch,
    PartialPattern,
    Pattern,
    Patterns,
    PatternSet,
    find_partial,
    partial_patterns,
    patterns_of,
)

_APART_NESTING = 2
"""Down to this nesting each kind of escape is also undone by itself, where a secret holds one literally."""
_LEAST_START = 4
"""With fewer of its characters at a text's end, a secret has not begun."""
_SPREAD = 4
"""The stretch at a text's end in which a secret may begin, as a multiple of its length: it may be spaced out."""
_MOST_SPREAD_BYTES = 64 * KIB
"""The same, where most of that stretch is of no account."""
_LEAST_SHORT_RUN = 12
_SET_FROM_BYTES = 64 * KIB
"""Bytes after which a PatternSet is worth building."""
_BLOCK_BYTES = 1024
"""Bytes that are counted as one on the way back from the normal form."""
_LOWER = bytes(range(256)).lower()


class Seen:
    """The findings about a text that spare whoever reads it next a pass."""

    __slots__ = ("nothing_encoded",)

    def __init__(self) -> None:
        self.nothing_encoded = False
        """True if no run, list or dump is in it; False if there may be."""


class ExactMatcher:
    """The patterns of some secrets, built at the first scan. Safe to share between threads."""

    __slots__ = ("_least_run", "_partial_patterns", "_patterns", "_secrets", "_seen_bytes", "_set", "unwatched")

    def __init__(self, secrets: Mapping[str, str], *, partial: bool = False) -> None:
        self._secrets = tuple((n, v) for n, v in secrets.items() if len(v) >= MIN_SECRET_CHARS)
        self.unwatched = tuple(n for n, v in secrets.items() if len(v) < MIN_SECRET_CHARS)
        """Names of secrets that are too short to be looked for."""
        shortest = min((len(value) for _, value in self._secrets), default=LEAST_RUN)
        self._least_run = max(_LEAST_SHORT_RUN, min(LEAST_RUN, shortest * 4 // 3))
        self._patterns: Patterns | None = None
        self._partial_patterns: tuple[PartialPattern, ...] | None = None if partial else ()
        self._set: PatternSet | None = None
        self._seen_bytes = 0

    def with_partial(self) -> ExactMatcher:
        """Make one for the same secrets that finds partial matches as well."""
        other = ExactMatcher(dict(self._secrets), partial=True)
        other._patterns, _ = self._built()
        return other

    def find(
        self, data: bytes, check: Check = no_check, seen: Seen | None = None
    ) -> Iterator[tuple[str | None, int, int]]:
        """Yield `(name, start, end)` in byte offsets; may repeat a place.

        A last one without a name says that some content was too large or too deeply nested to be decoded.
        `check` is called at every candidate and all along the way, and ends the scan by raising. `seen` is filled in.
        """
        if self._secrets:
            budget = DecodeBudget.for_text(len(data), check)
            yield from self._search(data, nesting=0, budget=budget, seen=seen)
            if budget.exceeded:
                yield None, 0, len(data)

    def possible_match_start(self, data: bytes) -> int:
        """Return where a secret begins that may go on after `data`; the length of `data` where none does."""
        patterns, _ = self._built()
        verbatim = tuple(Pattern(name, value.lower(), value) for name, value in patterns.verbatim)
        visible = (patterns.visible, NOT_VISIBLE)
        searches = ((patterns.alnum, NOT_ALNUM), (patterns.loose, SEPARATORS), visible, (verbatim, b""))
        start = min(_possible_start(data, group, dropped) for group, dropped in searches)
        tail = data[-_MOST_SPREAD_BYTES:]
        if without_markup(tail, no_check) is None:
            return start
        bare = with_places(tail)
        begins = min(_possible_start(bare.data, group, dropped) for group, dropped in searches)
        if begins == len(bare.data):
            return start
        return min(start, len(data) - len(tail) + bare.origin(begins, begins + 1)[0])

    def _built(self) -> tuple[Patterns, tuple[PartialPattern, ...]]:
        if self._patterns is None:
            self._patterns = patterns_of(self._secrets)
        if self._partial_patterns is None:
            self._partial_patterns = partial_patterns(self._secrets)
        return self._patterns, self._partial_patterns

    def _search(
        self, data: bytes, *, nesting: int, budget: DecodeBudget, whole: bool = True, seen: Seen | None = None
    ) -> Iterator[tuple[str, int, int]]:
        """Search a text and everything encoded in it; `whole` is False for a text whose escapes were undone."""
        patterns, partial = self._built()
        may_match = self._may_match(patterns, partial, data)
        if seen is not None:
            seen.nothing_encoded = not may_match.encoded
        if may_match.partial:
            yield from find_partial(data, partial, budget.check)
        yield from _find_patterns(data, patterns, may_match, budget.check)
        if nesting >= MAX_NESTING:
            budget.exceeded = budget.exceeded or is_encoded(data, budget.check)
            return
        settled = True
        for text in unescapings(data, apart=patterns.hold_escapes and nesting < _APART_NESTING, budget=budget):
            settled = False
            if budget.charge(len(text.data)):
                for name, start, end in self._search(text.data, nesting=nesting + 1, budget=budget, whole=False):
                    yield name, *text.origin(start, end)
        if not whole and not settled:
            return  # the texts in between hold the same runs as the first or the last
        if settled and (bare := without_markup(data, budget.check)) is not None and budget.charge(len(bare)):
            yield from self._behind_markup(data, bare, budget.check)
        runs = may_match.encoded or self._least_run < LEAST_RUN
        for start, end, inner in decode(data, budget, runs=runs, least_run=self._least_run):
            for name in {n for n, _, _ in self._search(inner, nesting=nesting + 1, budget=budget)}:
                yield name, start, end

    def _behind_markup(self, data: bytes, bare: bytes, check: Check) -> Iterator[tuple[str, int, int]]:
        """Search a text whose markup was left out, and say where that is in `data`."""
        patterns, partial = self._built()
        may_match = self._may_match(patterns, partial, bare)
        places = None
        found = find_partial(bare, partial, check) if may_match.partial else ()
        for name, start, end in (*found, *_find_patterns(bare, patterns, may_match, check)):
            places = places or with_places(data)
            yield name, *places.origin(start, end)

    def _may_match(self, patterns: Patterns, partial: tuple[PartialPattern, ...], data: bytes) -> MayMatch:
        self._seen_bytes += len(data)
        if self._seen_bytes < _SET_FROM_BYTES:
            return MayMatch()
        if self._set is None:
            self._set = PatternSet(patterns, partial)
        return self._set.may_match(data)


def _find_patterns(
    data: bytes, patterns: Patterns, may_match: MayMatch, check: Check
) -> Iterator[tuple[str, int, int]]:
    for name, value in patterns.verbatim:
        yield from _find_verbatim(data, name, value, check)
    for group, dropped, likely in (
        (patterns.alnum, NOT_ALNUM, may_match.alnum),
        (patterns.loose, SEPARATORS, may_match.loose),
        (patterns.visible, NOT_VISIBLE, may_match.visible),
    ):
        if group and likely and _holds_any(data, group, dropped, check):
            yield from _find_in_normal_form(data, group, dropped, check)


def _holds_any(data: bytes, patterns: tuple[Pattern, ...], dropped: bytes, check: Check) -> bool:
    """Look for patterns piece by piece, so that a large text is not copied as a whole, out of the processor's cache."""
    texts = {pattern.text for pattern in patterns}
    overlap = max(map(len, texts)) - 1
    form = b""
    for low in range(0, len(data), PIECE_BYTES):
        check()
        form = form[-overlap:] + data[low : low + PIECE_BYTES].translate(_LOWER, dropped)
        for text in texts:
            if text in form:
                return True
    return False


def _find_in_normal_form(
    data: bytes, patterns: tuple[Pattern, ...], dropped: bytes, check: Check
) -> Iterator[tuple[str, int, int]]:
    """Look for each pattern as its case demands; a text that differs in case alone is never even a candidate."""
    lower = data.translate(_LOWER, dropped)
    cased = data.translate(None, dropped) if any(pattern.exact for pattern in patterns) else b""
    places = _Places(data, dropped)
    for pattern in patterns:
        check()
        if pattern.secret and pattern.text in lower:
            yield from _find_verbatim(data, pattern.name, pattern.secret, check)
        form, text = (cased, pattern.exact) if pattern.exact else (lower, pattern.text)
        at = form.find(text)
        while at >= 0:
            check()
            yield pattern.name, *places.origin(at, len(text))
            at = form.find(text, at + 1)


def _find_verbatim(data: bytes, name: str, secret: bytes, check: Check) -> Iterator[tuple[str, int, int]]:
    at = data.find(secret)
    while at >= 0:
        check()
        yield name, at, at + len(secret)
        at = data.find(secret, at + len(secret))


def _possible_start(data: bytes, patterns: tuple[Pattern, ...], dropped: bytes) -> int:
    """Return where the longest beginning of a pattern starts that a text ends with; its length where there is none."""
    longest = max((len(pattern.text) for pattern in patterns), default=0)
    size = longest * _SPREAD
    tail = data[-size:] if longest else b""
    form = tail.translate(_LOWER, dropped)
    while len(form) < longest and len(tail) < min(len(data), _MOST_SPREAD_BYTES):
        size *= 4
        tail = data[-size:]
        form = tail.translate(_LOWER, dropped)
    most = 0
    for pattern in patterns:
        at = form.find(pattern.text[:_LEAST_START], max(0, len(form) - len(pattern.text) + 1))
        while at >= 0 and not pattern.text.startswith(form[at:]):
            at = form.find(pattern.text[:_LEAST_START], at + 1)
        if at >= 0:
            most = max(most, len(form) - at)
    if not most:
        return len(data)
    start, _ = _Places(tail, dropped).origin(len(form) - most, most)
    return len(data) - len(tail) + start


class _Places:
    """The way back from the normal form to the text. Blocks are counted once, and the last two are kept."""

    __slots__ = ("_before", "_data", "_dropped", "_first", "_last")

    def __init__(self, data: bytes, dropped: bytes) -> None:
        self._data = data
        self._dropped = dropped
        self._before: list[int] = []
        """Bytes that the normal form keeps before each block."""
        self._first: tuple[int, list[int]] = (-1, [])
        self._last: tuple[int, list[int]] = (-1, [])

    def origin(self, at: int, length: int) -> tuple[int, int]:
        """Return the offsets, in the text, of a place in the normal form."""
        if not self._before:
            self._count()
        self._first, start = self._nth(at, self._first)
        self._last, last = self._nth(at + length - 1, self._last)
        return start, last + 1

    def _count(self) -> None:
        kept = 0
        for low in range(0, len(self._data), _BLOCK_BYTES):
            self._before.append(kept)
            kept += len(self._data[low : low + _BLOCK_BYTES].translate(None, self._dropped))

    def _nth(self, index: int, seen: tuple[int, list[int]]) -> tuple[tuple[int, list[int]], int]:
        block = bisect_right(self._before, index) - 1
        if seen[0] != block:
            seen = block, self._kept(block)
        return seen, seen[1][index - self._before[block]]

    def _kept(self, block: int) -> list[int]:
        low, dropped = block * _BLOCK_BYTES, frozenset(self._dropped)
        return [low + i for i, byte in enumerate(self._data[low : low + _BLOCK_BYTES]) if byte not in dropped]
