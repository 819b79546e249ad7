"""Find the secrets of a call, verbatim and in every encoding that a guest is likely to use.

A text is converted to the normal form of the patterns and searched. Then percent, `\\u`, `\\x`, octal, JSON and HTML
escapes and letters of another width are decoded, one level after the other, and markup between characters is removed.
Base64, base32, hex, dumps, lists of bytes and archives are decoded to a limited depth. The result is searched again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import accumulate, islice

from wasmrt.core.limits import KIB, MIN_SECRET_CHARS
from wasmrt.egress.leaks._archives import SEPARATOR
from wasmrt.egress.leaks._encoded import LEAST_RUN, Decoded, decode, find_runs, may_hold_encoded, record_encoded
from wasmrt.egress.leaks._escapes import is_plain, iterate_unescaped, remove_markup, remove_markup_mapped
from wasmrt.egress.leaks._linear import compile_set
from wasmrt.egress.leaks._model import MAX_NESTING, PIECE_BYTES, Check, DecodeBudget, no_check
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
    make_patterns,
    partial_patterns,
)

MAX_ESCAPE_LEVELS = 16
"""Levels of escapes that are decoded in one text. They do not count as nesting, since most take one more pass each."""
_APART_LEVELS = 2
"""Up to this level, each kind of escape is also decoded separately if a secret contains an escape literally."""
_LEAST_START = 4
"""Minimum number of a secret's characters at a text's end that count as the start of the secret."""
_SPREAD = 4
"""For each byte of a secret, this many bytes at a text's end are searched for its start: some bytes may be ignored."""
_MOST_SPREAD_BYTES = 64 * KIB
"""Maximum number of bytes searched for a secret's start, if most of them are ignored characters."""
_SPREAD_MEMORY_BYTES = 16 << 20
_LEAST_SHORT_RUN = 12
_BATCH_BYTES = 64 * KIB
"""A piece of decoded content of at least this size is not searched together with further pieces."""
_MAX_CLEAN_RUNS = 1 << 16
"""Maximum number of runs of one text that are recorded as clean."""
_SHORT_TEXT_BYTES = 16 * KIB
"""Maximum size of a text whose clean runs are remembered. Most responses of a server have the same headers."""
_REMEMBERED_RUNS = 256
_REMEMBERED_RUN_BYTES = 128
_BLOCK_BYTES = 1024
"""Block size for mapping the normal form back to the text."""
_LOWER = bytes(range(256)).lower()


class ScanHints:
    """Results of a search that make the next search of the same text faster."""

    __slots__ = ("nothing_encoded",)

    def __init__(self) -> None:
        self.nothing_encoded = False
        """True if the text is plain and certainly contains no run, list or dump."""


class _Prepared:
    """The patterns of some secrets, built at the first scan."""

    __slots__ = ("_secrets", "_set", "clean_runs", "partial", "patterns")

    def __init__(self, secrets: tuple[tuple[str, str], ...]) -> None:
        self._secrets = secrets
        self.patterns: Patterns | None = None
        self.partial: tuple[PartialPattern, ...] = ()
        self._set: PatternSet | None = None
        self.clean_runs: dict[bool, set[bytes]] = {True: set(), False: set()}
        """Runs of short texts, such as headers, in which a search found nothing, with and without partial matches."""

    def build(self) -> Patterns:
        if self.patterns is None:
            self.partial = partial_patterns(self._secrets)
            self.patterns = make_patterns(self._secrets)
        return self.patterns

    def may_match(self, data: bytes, check: Check, *, parts: bool) -> MayMatch:
        """Return, for each search, whether it can match `data`."""
        patterns = self.build()
        self._set = self._set or PatternSet(patterns, self.partial)
        return self._set.may_match(data, check, parts=parts)


class ExactMatcher:
    """A matcher that finds given secrets. Its patterns are built at the first scan. Thread-safe."""

    __slots__ = ("_finds_parts", "_least_run", "_prepared", "_secrets", "unwatched")

    def __init__(self, secrets: Sequence[tuple[str, str]]) -> None:
        self._secrets = tuple((n, v) for n, v in secrets if len(v) >= MIN_SECRET_CHARS)
        self.unwatched = tuple(n for n, v in secrets if len(v) < MIN_SECRET_CHARS)
        """Names of secrets that are too short to search for."""
        shortest = min((len(value) for _, value in self._secrets), default=LEAST_RUN)
        self._least_run = max(_LEAST_SHORT_RUN, min(LEAST_RUN, shortest * 4 // 3))
        self._prepared, self._finds_parts = _Prepared(self._secrets), False

    def with_partial(self) -> ExactMatcher:
        """Return a matcher for the same secrets that also finds partial matches. It shares the patterns."""
        other = copy(self)
        other._finds_parts = True
        return other

    def find(
        self, data: bytes, check: Check = no_check, hints: ScanHints | None = None
    ) -> Iterator[tuple[str | None, int, int]]:
        """Yield `(name, start, end)` in byte offsets; the same place may be repeated.

        A final item without a name means that some content was too large or too deeply nested to be decoded. `check` is
        called at every candidate and regularly in between, and ends the scan if it raises. The results of this search
        are stored in `hints`.
        """
        if not self._secrets:
            return
        clean = True
        for found in self._search_as_written(data, check):
            clean = False
            yield found
        plain, encoded = is_plain(data), may_hold_encoded(data)
        if hints is not None:
            hints.nothing_encoded = plain and not encoded
        runs = encoded or self._least_run < LEAST_RUN
        if plain and not runs:
            return
        budget = DecodeBudget.for_text(len(data), check)
        left = budget.left
        budget.clean_runs[0] = set(self._prepared.clean_runs[self._finds_parts])
        for found in self._search_decoded(data, budget, runs=runs):
            clean = False
            yield found
        if not budget.complete:
            yield None, 0, len(data)
        elif clean and budget.left < left and len(data) <= _SHORT_TEXT_BYTES:
            self._remember_runs(data, check)

    def _remember_runs(self, data: bytes, check: Check) -> None:
        """Remember the runs of a text in which nothing was found, and which was searched completely."""
        runs = {data[start:end] for start, end in find_runs(data, self._least_run, check)}
        known = self._prepared.clean_runs[self._finds_parts]
        known.update(run for run in runs if len(run) <= _REMEMBERED_RUN_BYTES)
        if len(known) > _REMEMBERED_RUNS:
            known.clear()

    def possible_match_start(self, data: bytes) -> int:
        """Find the start of a secret that may continue after `data`. Return the length of `data` if there is none."""
        patterns = self._prepared.build()
        whole = (*patterns.verbatim, *patterns.replaced)
        verbatim = tuple(Pattern(name, value.lower(), value) for name, value in whole)
        visible = (patterns.visible, NOT_VISIBLE)
        searches = ((patterns.alnum, NOT_ALNUM), (patterns.loose, SEPARATORS), visible, (verbatim, b""))
        start = min(_find_possible_start(data, group, dropped) for group, dropped in searches)
        tail = data[-_MOST_SPREAD_BYTES:]
        if remove_markup(tail, no_check) is None:
            return start
        bare = remove_markup_mapped(tail)
        possible = min(_find_possible_start(bare.data, group, dropped) for group, dropped in searches)
        if possible == len(bare.data):
            return start
        return min(start, len(data) - len(tail) + bare.origin(possible, possible + 1)[0])

    def _search(
        self, data: bytes, budget: DecodeBudget, nesting: int, escapes: int = 0, *, sound: bool
    ) -> Iterator[tuple[str, int, int]]:
        """Search a decoded text and all content that is encoded in it.

        `escapes` is the number of levels of escapes decoded so far.
        """
        yield from self._search_as_written(data, budget.check)
        runs = may_hold_encoded(data) or self._least_run < LEAST_RUN
        if runs or not is_plain(data):
            yield from self._search_decoded(data, budget, nesting, escapes, runs=runs, sound=sound)

    def _search_decoded(
        self, data: bytes, budget: DecodeBudget, nesting: int = 0, escapes: int = 0, *, runs: bool, sound: bool = True
    ) -> Iterator[tuple[str, int, int]]:
        """Search the content that is escaped or encoded in a text.

        SECURITY: all content is searched, even if it looks random. But only `sound` content that is encoded too deeply
        withholds a text, because random bytes decode to some random bytes without end.
        """
        patterns = self._prepared.build()
        settled = True
        apart = patterns.hold_escapes and nesting + escapes < _APART_LEVELS
        for text in iterate_unescaped(data, apart=apart, budget=budget):
            settled = False
            if escapes == MAX_ESCAPE_LEVELS:
                budget.exceeded = budget.exceeded or sound
            elif budget.charge(len(text.data)):
                for name, start, end in self._search(text.data, budget, nesting, escapes + 1, sound=sound):
                    yield name, *text.origin(start, end)
        if escapes and not settled and data.isascii():
            return  # intermediate texts contain the same runs as the first or the last text
        if settled and (bare := remove_markup(data, budget.check)) is not None and budget.charge(len(bare)):
            yield from self._search_without_markup(data, bare, budget.check)
        if not runs and data.isascii() and b"\0" not in data:
            return  # nothing is encoded
        if nesting < MAX_NESTING:
            yield from self._search_encoded(data, budget, nesting, runs=runs, remember=sound and escapes > 0)
        elif sound:
            record_encoded(data, budget)

    def _search_encoded(
        self, data: bytes, budget: DecodeBudget, nesting: int, *, runs: bool, remember: bool
    ) -> Iterator[tuple[str, int, int]]:
        """Search the decoded content of a text, and yield the places of its encoded form in the text.

        SECURITY: with `remember`, runs are not decoded again in the text before its escapes were decoded, but only if
        no secret was found here. A run may occur again where an escape joined other characters to it.
        """
        known = budget.clean_runs[nesting]
        pieces = decode(data, budget, runs=runs, least_run=self._least_run, every=True, known_runs=known)
        clean = True
        for batch in _iter_batches(p for p in pieces if not budget.is_clean(p.data, nesting, sound=p.sound)):
            for piece in batch.pieces if batch.sound else ():
                budget.record_searched(piece)
            found = self._search(batch.data, budget, nesting + 1, sound=batch.sound)
            places = {(name, *place) for name, start, end in found for place in batch.origins(start, end)}
            yield from places
            clean = clean and not places
            for piece in () if places else batch.pieces:
                budget.record_clean(piece, nesting, sound=batch.sound)
        if clean and runs and remember:
            found_runs = find_runs(data, self._least_run, budget.check)
            known.update(data[start:end] for start, end in islice(found_runs, _MAX_CLEAN_RUNS))

    def _search_as_written(self, data: bytes, check: Check) -> Iterator[tuple[str, int, int]]:
        """Search a text, but not its decoded content."""
        patterns, parts = self._prepared.build(), self._finds_parts
        may_match = self._prepared.may_match(data, check, parts=parts)
        if may_match.partial:
            yield from find_partial(data, self._prepared.partial, check)
        yield from _find_patterns(data, patterns, may_match.patterns, check)

    def _search_without_markup(self, data: bytes, bare: bytes, check: Check) -> Iterator[tuple[str, int, int]]:
        """Search `bare`, which is `data` without markup, and yield the places in `data`."""
        places = None
        for name, start, end in self._search_as_written(bare, check):
            places = places or remove_markup_mapped(data)
            yield name, *places.origin(start, end)


class _Batch:
    """Pieces of decoded content that are searched together, since each search has a fixed cost."""

    __slots__ = ("_ends", "_places", "data", "pieces", "sound")

    def __init__(self, pieces: Mapping[bytes, list[Decoded]], *, sound: bool) -> None:
        self.pieces = tuple(pieces)
        self.data = SEPARATOR.join(pieces)
        self.sound = sound
        self._places = tuple(pieces.values())
        self._ends = list(accumulate(len(piece) + len(SEPARATOR) for piece in pieces))

    def origins(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the places of the encoded texts for a place in `data`."""
        for places in self._places[bisect_right(self._ends, start) : bisect_right(self._ends, end - 1) + 1]:
            yield from ((place.start, place.end) for place in places)


def _iter_batches(found: Iterator[Decoded]) -> Iterator[_Batch]:
    """Gather sound and unsound pieces separately. Equal pieces are searched once."""
    gathered: dict[bool, dict[bytes, list[Decoded]]] = {True: {}, False: {}}
    sizes = {True: 0, False: 0}
    for piece in found:
        pieces = gathered[piece.sound]
        if piece.data not in pieces:
            sizes[piece.sound] += len(piece.data) + len(SEPARATOR)
        pieces.setdefault(piece.data, []).append(piece)
        if sizes[piece.sound] > _BATCH_BYTES:
            yield _Batch(pieces, sound=piece.sound)
            gathered[piece.sound], sizes[piece.sound] = {}, 0
    yield from (_Batch(pieces, sound=sound) for sound, pieces in gathered.items() if pieces)


def _find_patterns(data: bytes, patterns: Patterns, likely: bool, check: Check) -> Iterator[tuple[str, int, int]]:
    for name, value in (*patterns.verbatim, *(() if data.isascii() else patterns.replaced)):
        if value in data:
            yield from _find_verbatim(data, name, value, check)
    for name, value, expression in patterns.spread:
        check()
        # The place is not known: the whole text is reported.
        if compile_set([expression], memory_bytes=_SPREAD_MEMORY_BYTES).Match(data.replace(value, b"")):
            yield name, 0, len(data)
    searches = ((patterns.alnum, NOT_ALNUM), (patterns.loose, SEPARATORS), (patterns.visible, NOT_VISIBLE))
    for group, dropped in searches if likely else ():
        if group and (present := _find_texts(data, group, dropped, check)):
            found = [pattern for pattern in group if pattern.text in present]
            yield from _find_in_normal_form(data, found, dropped, check)


def _find_texts(data: bytes, patterns: tuple[Pattern, ...], dropped: bytes, check: Check) -> set[bytes]:
    """Return the patterns' texts that a text contains. It is searched in pieces that fit the processor's cache."""
    texts = {pattern.text for pattern in patterns}
    overlap = max(map(len, texts)) - 1
    present: set[bytes] = set()
    form = b""
    for low in range(0, len(data), PIECE_BYTES):
        check()
        form = form[-overlap:] + data[low : low + PIECE_BYTES].translate(_LOWER, dropped)
        present.update(text for text in texts if text in form)
    return present


def _find_in_normal_form(
    data: bytes, patterns: Sequence[Pattern], dropped: bytes, check: Check
) -> Iterator[tuple[str, int, int]]:
    """Find each pattern in the case that it requires. A text that differs from the pattern in case is no candidate."""
    lower = data.translate(_LOWER, dropped)
    cased = data.translate(None, dropped) if any(pattern.exact for pattern in patterns) else b""
    places = _OffsetMap(data, dropped)
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


def _find_possible_start(data: bytes, patterns: tuple[Pattern, ...], dropped: bytes) -> int:
    """Find the start of a pattern that may continue after the text. Return the text's length if there is none."""
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
    start, _ = _OffsetMap(tail, dropped).origin(len(form) - most, most)
    return len(data) - len(tail) + start


class _OffsetMap:
    """A map from offsets in the normal form to offsets in the text. Blocks are counted once; two blocks are cached."""

    __slots__ = ("_before", "_data", "_dropped", "_first", "_last")

    def __init__(self, data: bytes, dropped: bytes) -> None:
        self._data = data
        self._dropped = dropped
        self._before: list[int] = []
        """Number of bytes of the normal form before each block."""
        self._first: tuple[int, list[int]] = (-1, [])
        self._last: tuple[int, list[int]] = (-1, [])

    def origin(self, at: int, length: int) -> tuple[int, int]:
        """Return the offsets in the text for a place in the normal form."""
        if not self._before:
            self._count_blocks()
        self._first, start = self._find_offset(at, self._first)
        self._last, last = self._find_offset(at + length - 1, self._last)
        return start, last + 1

    def _count_blocks(self) -> None:
        kept = 0
        for low in range(0, len(self._data), _BLOCK_BYTES):
            self._before.append(kept)
            kept += len(self._data[low : low + _BLOCK_BYTES].translate(None, self._dropped))

    def _find_offset(self, index: int, seen: tuple[int, list[int]]) -> tuple[tuple[int, list[int]], int]:
        block = bisect_right(self._before, index) - 1
        if seen[0] != block:
            seen = block, self._list_kept_offsets(block)
        return seen, seen[1][index - self._before[block]]

    def _list_kept_offsets(self, block: int) -> list[int]:
        low, dropped = block * _BLOCK_BYTES, frozenset(self._dropped)
        return [low + i for i, byte in enumerate(self._data[low : low + _BLOCK_BYTES]) if byte not in dropped]
