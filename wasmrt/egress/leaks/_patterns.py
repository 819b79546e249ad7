"""Find a call's secrets by value: either complete, in encodings that the normal form preserves, or in parts.

In the normal form, most spellings of a text are equal: the text is in lower case, and only letters and digits remain.
White space, line breaks, quotes, hyphens, zero-width characters and the difference between base64 and base64url are
removed. The patterns of a secret are then the secret itself, reversed, in ROT13, in hex, in base64 at its three
offsets, and in the notations of `_notations`.

A part is reported if it has at least eight characters and a third of the secret, which is unlikely to match by chance.
Words are an exception: if a secret contains a word, the word alone is not reported.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from wasmrt.egress.leaks._escapes import holds_escapes
from wasmrt.egress.leaks._model import PIECE_BYTES, Check
from wasmrt.egress.leaks._notations import (
    base64_at_offsets,
    encode_as_bytes,
    encode_as_letters_and_digits,
    encode_as_visible_characters,
)

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

_MIN_PATTERN = 8
_MIN_ALNUM = 12
"""A secret with fewer letters and digits than this is searched for together with its punctuation."""
_CASELESS_FROM = 16
"""From this length on, a match in another case is not a coincidence."""

_ALNUM = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LOWER = bytes(range(256)).lower()
_ROT13 = bytes.maketrans(_ALNUM[10:], _ALNUM[23:36] + _ALNUM[10:23] + _ALNUM[49:] + _ALNUM[36:49])
NOT_ALNUM = bytes(b for b in range(256) if b not in _ALNUM)
SEPARATORS = bytes(range(33)) + b"\"'`-\\" + bytes(range(127, 256))
NOT_VISIBLE = bytes(range(33)) + bytes(range(127, 256))
_SEPARATED = b"[" + b"".join(b"\\x%02x" % byte for byte in SEPARATORS) + b"]*"
_MAX_SPREAD_BYTES = 512


class Pattern(NamedTuple):
    """One encoding of a secret, in its normal form."""

    name: str
    """The secret's name."""
    text: bytes
    """The encoded secret in lower case, without the bytes that the normal form drops."""
    cased: bytes | None
    """`text` in the original case, if the case distinguishes the secret from a word."""
    secret: bytes | None = None
    """The complete secret, if the pattern is not an encoding. Bytes that are dropped in `text` are included."""

    @property
    def exact(self) -> bytes | None:
        """The text to find in its exact case; None if a match in another case is reported too."""
        return self.cased if len(self.text) < _CASELESS_FROM else None


class Patterns(NamedTuple):
    """Patterns that find the secrets of a call, grouped by the form of the text in which they are searched for."""

    alnum: tuple[Pattern, ...]
    """Patterns to find in the letters and digits of a text."""
    loose: tuple[Pattern, ...]
    """Patterns with few letters and digits, to find in a text without `SEPARATORS`."""
    visible: tuple[Pattern, ...]
    """Patterns in bases that use punctuation as digits, to find in the visible characters of a text."""
    verbatim: tuple[tuple[str, bytes], ...]
    """Names and values of secrets that are too short for any normal form."""
    replaced: tuple[tuple[str, bytes], ...]
    """Names of secrets and their values with every byte replaced, to find in texts that are not ASCII."""
    spread: tuple[tuple[str, bytes, bytes], ...]
    """The longer secrets of `verbatim`: name, value, and an expression that also matches the value with separators in
    it."""
    hold_escapes: bool
    """True if decoding escapes would change a secret."""


def make_patterns(secrets: Iterable[tuple[str, str]]) -> Patterns:
    """Create the patterns of each secret in every encoding."""
    alnum: list[Pattern] = []
    loose: list[Pattern] = []
    visible: list[Pattern] = []
    verbatim: list[tuple[str, bytes]] = []
    spread: list[tuple[str, bytes, bytes]] = []
    replaced: list[tuple[str, bytes]] = []
    escaped = False
    for name, value in secrets:
        raw = value.encode("utf-8", "surrogatepass")
        escaped = escaped or holds_escapes(raw)
        plain = raw.translate(None, NOT_ALNUM)
        if len(plain) >= _MIN_ALNUM:
            alnum += (*_make_both_patterns(name, plain, raw), _make_rot13_pattern(name, plain))
        elif len(tight := raw.translate(None, SEPARATORS)) >= _MIN_PATTERN:
            loose += (*_make_both_patterns(name, tight, raw), _make_rot13_pattern(name, tight))
        else:
            verbatim += ((name, raw), (name, raw.translate(_ROT13)))
            if _MIN_PATTERN <= len(raw) <= _MAX_SPREAD_BYTES:
                spread.append((name, raw, _SEPARATED.join(b"\\x%02x" % byte for byte in raw)))
        if len(raw) >= _MIN_PATTERN:
            alnum.append(Pattern(name, raw.hex().encode(), None))
            base64 = (inside.translate(None, NOT_ALNUM) for inside in base64_at_offsets(raw))
            alnum += (Pattern(name, e.lower(), e) for e in base64 if len(e) >= _MIN_PATTERN)
            other = {e.translate(_LOWER, NOT_ALNUM) for e in encode_as_letters_and_digits(raw)}
            alnum += (Pattern(name, e, None) for e in sorted(other) if len(e) >= _MIN_ALNUM)
            visible += (Pattern(name, e.lower(), None) for e in encode_as_visible_characters(raw))
        if len(raw) >= _MIN_ALNUM:
            replaced += ((name, e) for e in encode_as_bytes(raw))
    groups = (tuple(alnum), tuple(loose), tuple(visible), tuple(verbatim), tuple(replaced), tuple(spread))
    return Patterns(*groups, escaped)


def _make_both_patterns(name: str, plain: bytes, secret: bytes) -> tuple[Pattern, Pattern]:
    """Return the patterns of a text and of the reversed text."""
    cased = None if plain in (plain.lower(), plain.upper()) else plain
    return (Pattern(name, plain.lower(), cased, secret), Pattern(name, plain.lower()[::-1], cased and cased[::-1]))


def _make_rot13_pattern(name: str, plain: bytes) -> Pattern:
    rotated = plain.translate(_ROT13)
    return Pattern(name, rotated.lower(), None if rotated in (rotated.lower(), rotated.upper()) else rotated)


_LEAST = 8
_PARTS = 3
_MAX_MISSES = 256
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class PartialPattern(NamedTuple):
    """One encoding of a secret. A part of it is reported if it has at least `least` characters."""

    name: str
    text: bytes
    least: int
    may_be_word: bool
    cores: tuple[tuple[int, bytes], ...]
    """Short parts of `text`, with their offsets. Every part of `least` characters contains one of these cores."""


def partial_patterns(secrets: Iterable[tuple[str, str]]) -> tuple[PartialPattern, ...]:
    """Create the partial patterns of each secret: unchanged, in hex, and in base64 at its three offsets."""
    found: dict[bytes, PartialPattern] = {}
    for name, value in secrets:
        raw = value.encode("utf-8", "surrogatepass")
        digits = raw.hex().encode()
        encodings = [digits, digits.upper()]
        for offset in range(3):
            encoded = b2a_base64(bytes(offset) + raw, newline=False)[4 if offset else 0 :].rstrip(b"=")
            encodings += (encoded, encoded.translate(_URL_SAFE))
        for text in (raw, *encodings):
            least = max(_LEAST, -(-len(text) // _PARTS))
            if len(text) > least and text not in found:
                # All parts of a secret with only one kind of characters look like words, so they are reported.
                may_be_word = text is raw and not _is_word(raw.translate(None, b"-_. /:"))
                found[text] = PartialPattern(name, text, least, may_be_word, _split_into_cores(text, least))
    return tuple(found.values())


def find_partial(data: bytes, patterns: Iterable[PartialPattern], check: Check) -> Iterator[tuple[str, int, int]]:
    """Yield `(name, start, end)` for every partial match. `check` is called at every candidate."""
    for pattern in patterns:
        for begin, core in pattern.cores:
            yield from _find_around(data, pattern, begin, core, check)


def _find_around(
    data: bytes, pattern: PartialPattern, begin: int, core: bytes, check: Check
) -> Iterator[tuple[str, int, int]]:
    """Yield the partial matches around every occurrence of a core."""
    at, misses = data.find(core), 0
    while at >= 0:
        check()
        start, end = _extend(data, at, at + len(core), pattern.text, begin)
        if _is_reportable(pattern, data[start:end]):
            yield pattern.name, start, end
            at = data.find(core, end)
        elif (misses := misses + 1) > _MAX_MISSES:
            yield from _find_by_windows(data, max(0, at - pattern.least), pattern, begin, core, check)
            return
        else:
            at = data.find(core, at + 1)


def _find_by_windows(
    data: bytes, position: int, pattern: PartialPattern, begin: int, core: bytes, check: Check
) -> Iterator[tuple[str, int, int]]:
    """Yield the partial matches from `position` on, in a text that contains one core very often.

    Search for each part of `least` characters that contains the core.
    """
    low, high = max(0, begin + len(core) - pattern.least), min(begin, len(pattern.text) - pattern.least)
    for first in range(low, high + 1):
        window = pattern.text[first : first + pattern.least]
        place = data.find(window, position) if _is_reportable(pattern, window) else -1
        while place >= 0:
            check()
            start, end = _extend(data, place, place + len(window), pattern.text, first)
            if _is_reportable(pattern, data[start:end]):
                yield pattern.name, start, end
            place = data.find(window, end)


def _is_reportable(pattern: PartialPattern, part: bytes) -> bool:
    return len(part) >= pattern.least and not (pattern.may_be_word and _is_word(part))


def _split_into_cores(text: bytes, least: int) -> tuple[tuple[int, bytes], ...]:
    size = least * 2 // 3
    return tuple((at, text[at : at + size]) for at in range(0, len(text) - size + 1, least - size + 1))


def _extend(data: bytes, start: int, end: int, text: bytes, begin: int) -> tuple[int, int]:
    """Extend a core's place as far as the surrounding text equals the secret."""
    stop = begin + end - start
    while start > 0 and begin > 0 and data[start - 1] == text[begin - 1]:
        start, begin = start - 1, begin - 1
    while end < len(data) and stop < len(text) and data[end] == text[stop]:
        end, stop = end + 1, stop + 1
    return start, end


def _is_word(part: bytes) -> bool:
    """Return whether a part is one word or one number, with or without separators around it."""
    bare = part.strip(b"-_. /:")
    return bare.isdigit() or (bare.isalpha() and (bare.islower() or bare.isupper() or bare.istitle()))


_PIECE = 12
"""Length of a piece of a pattern. It is long enough to be rare in texts."""
_PIECES_OF_AN_AUTOMATON = 32
"""With more pieces, `ahocorasick_rs` does not always use the vector instructions that make it ten times as fast."""


class MayMatch(NamedTuple):
    """The searches that may match a text. False means that a search certainly finds nothing."""

    patterns: bool
    partial: bool


class PatternSet:
    """Automata that search the letters and digits of a text for a piece of each pattern, and for each core.

    Building them takes 0.2 ms, and they make most passes over a text unnecessary. If a pattern occurs in
    any form of a text, the letters and digits of the pattern occur in the letters and digits of the text.
    """

    __slots__ = ("_cores", "_pieces")

    def __init__(self, patterns: Patterns, partial: Iterable[PartialPattern]) -> None:
        self._pieces = _compile(p.text for p in (*patterns.alnum, *patterns.loose, *patterns.visible))
        self._cores = _compile(core for pattern in partial for _, core in pattern.cores)

    def may_match(self, data: bytes, check: Check, *, parts: bool) -> MayMatch:
        """Return, for each search, whether it can match `data`. Without `parts`, partial matches are not searched."""
        form, patterns, partial = b"", False, False
        for low in range(0, len(data), PIECE_BYTES):
            check()
            form = form[-_PIECE:] + data[low : low + PIECE_BYTES].translate(_LOWER, NOT_ALNUM)
            patterns = patterns or _may_hold(form, self._pieces)
            partial = partial or (parts and _may_hold(form, self._cores))
            if patterns and partial == parts:
                break
        return MayMatch(patterns, partial)


def _compile(texts: Iterable[bytes]) -> tuple[BytesAhoCorasick, ...] | None:
    """Compile a piece of each text; return None if a text has no letters and digits."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind  # the import takes a millisecond

    pieces = sorted({_middle_piece(text.translate(_LOWER, NOT_ALNUM)) for text in texts})
    if not all(pieces):
        return None
    groups = (pieces[at : at + _PIECES_OF_AN_AUTOMATON] for at in range(0, len(pieces), _PIECES_OF_AN_AUTOMATON))
    # This implementation is the fastest to build.
    return tuple(BytesAhoCorasick(g, MatchKind.LeftmostFirst, Implementation.ContiguousNFA) for g in groups)


def _middle_piece(text: bytes) -> bytes:
    start = max(0, len(text) - _PIECE) // 2
    return text[start : start + _PIECE]


def _may_hold(form: bytes, automata: Iterable[BytesAhoCorasick] | None) -> bool:
    for automaton in automata or ():
        if automaton.find_matches_as_indexes(form):
            return True
    return automata is None
