"""Find the secrets a call may use, verbatim and in every encoding a guest is likely to reach for.

Instead of writing each secret in every way, the text is brought to a normal form in which most ways look alike:
lower case, and letters and digits only. White space, line breaks, quotes, hyphens, zero-width characters and the
difference between base64 and base64url vanish there. Seven needles then cover a secret: itself, reversed, ROT13,
hex, and base64 at its three offsets. Percent, `\\u`, `\\x`, octal, JSON and HTML escapes and letters of another width
are undone first, layer by layer; base64, base32, hex, lists of bytes and gzip of a larger whole are opened to a small
depth.
"""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from wasmrt.leaks._budget import PIECE_BYTES, Budget, go_on
from wasmrt.leaks._escapes import holds_escapes, unescapings
from wasmrt.leaks._gate import Gate, Touched
from wasmrt.leaks._layers import is_packed, opened
from wasmrt.leaks._pieces import Spelling, find_pieces, spellings
from wasmrt.limits import MIN_SECRET_CHARS

if TYPE_CHECKING:
    from wasmrt.leaks._engine import Check

_MIN_NEEDLE = 8
_MIN_ALNUM = 12
"""With fewer letters and digits than this, a secret's punctuation counts as well."""
_CASELESS_FROM = 16
"""From this length on a match in another case is no accident."""

_APART_DEPTH = 2
"""Down to this depth each kind of escape is also undone by itself, where a secret holds one literally."""
_BEGUN = 4
"""With fewer of its characters at a text's end, a secret has not begun."""
_SPREAD = 4
"""So many times its length is a secret looked for at a text's end: with what may stand between its characters."""
_GATED_BYTES = 256 * 1024
"""After so many bytes the gate has paid for itself."""
_BLOCK_BYTES = 1024
"""What is counted as one on the way back from the normal form."""

_LOWER = bytes(range(256)).lower()
_ALNUM = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ROT13 = bytes.maketrans(_ALNUM[10:], _ALNUM[23:36] + _ALNUM[10:23] + _ALNUM[49:] + _ALNUM[36:49])
_NOT_ALNUM = bytes(b for b in range(256) if b not in _ALNUM)
_SEPARATORS = bytes(range(33)) + b"\"'`-\\" + bytes(range(127, 256))


class _Needle(NamedTuple):
    name: str
    text: bytes
    """In lower case, without what its form drops."""
    cased: bytes | None
    """The same in the secret's own case, where case tells the secret from a word."""
    secret: bytes | None = None
    """The secret, where the needle is all of it but what the form drops: its ends may be among that."""

    @property
    def exact(self) -> bytes | None:
        """What to look for in the text's own case; None where a match in another case is no accident."""
        return self.cased if len(self.text) < _CASELESS_FROM else None


class ExactMatcher:
    """The needles of some secrets; nothing is built before the first scan. Safe to share between threads."""

    __slots__ = (
        *("_alnum", "_escaped", "_gate", "_loose", "_pieces", "_piecewise", "_secrets", "_seen_bytes"),
        *("_strict", "_verbatim", "unwatched"),
    )

    def __init__(self, secrets: Mapping[str, str], *, piecewise: bool = False) -> None:
        self._secrets = tuple((n, v) for n, v in secrets.items() if len(v) >= MIN_SECRET_CHARS)
        self.unwatched = tuple(n for n, v in secrets.items() if len(v) < MIN_SECRET_CHARS)
        self._alnum: tuple[_Needle, ...] | None = None
        self._escaped = False
        self._loose: tuple[_Needle, ...] = ()
        self._verbatim: tuple[tuple[str, bytes], ...] = ()
        self._piecewise = piecewise
        self._strict: ExactMatcher | None = None
        self._pieces: tuple[Spelling, ...] = ()
        self._gate: Gate | None = None
        self._seen_bytes = 0

    @property
    def piecewise(self) -> ExactMatcher:
        """One for the same secrets that finds pieces of them as well."""
        if self._strict is None:
            self._strict = ExactMatcher(dict(self._secrets), piecewise=True)
        return self._strict

    def find(self, data: bytes, check: Check = go_on) -> Iterator[tuple[str | None, int, int]]:
        """Yield `(name, start, end)` in byte offsets; may repeat a place.

        A last one without a name says that some of it was too large or too deeply packed to be opened.
        `check` is called at every candidate and all along the way, and ends the scan by raising.
        """
        if self._secrets:
            self._build()
            budget = Budget(check=check)
            yield from self._search(data, depth=0, budget=budget)
            if budget.exceeded:
                yield None, 0, len(data)

    def begun(self, data: bytes) -> int:
        """Return where a secret begins of which more may follow; the length of `data` where none does."""
        self._build()
        assert self._alnum is not None
        verbatim = tuple(_Needle(name, value.lower(), value) for name, value in self._verbatim)
        ends = (
            _begun(data, needles, dropped)
            for needles, dropped in ((self._alnum, _NOT_ALNUM), (self._loose, _SEPARATORS), (verbatim, b""))
        )
        return min(ends)

    def _build(self) -> None:
        if self._alnum is not None:
            return
        alnum: list[_Needle] = []
        loose: list[_Needle] = []
        verbatim: list[tuple[str, bytes]] = []
        for name, value in self._secrets:
            raw = value.encode("utf-8", "surrogatepass")
            plain = raw.translate(None, _NOT_ALNUM)
            if len(plain) >= _MIN_ALNUM:
                alnum += (*_both_ways(name, plain, raw), _turned(name, plain))
            elif len(tight := raw.translate(None, _SEPARATORS)) >= _MIN_NEEDLE:
                loose += (*_both_ways(name, tight, raw), _turned(name, tight))
            else:
                verbatim += ((name, raw), (name, raw.translate(_ROT13)))
            if len(raw) >= _MIN_NEEDLE:
                alnum.append(_Needle(name, raw.hex().encode(), None))
                alnum += (_Needle(name, n.lower(), n) for n in _base64_cores(raw) if len(n) >= _MIN_NEEDLE)
        self._loose = tuple(loose)
        if self._piecewise:
            self._pieces = spellings(self._secrets)
        self._escaped = any(holds_escapes(v.encode("utf-8", "surrogatepass")) for _, v in self._secrets)
        self._verbatim = tuple(verbatim)
        self._alnum = tuple(alnum)

    def _search(
        self, data: bytes, *, depth: int, budget: Budget, whole: bool = True
    ) -> Iterator[tuple[str, int, int]]:
        touched = self._touched(data)
        yield from self._plainly(data, touched, budget.check)
        if depth >= budget.depth:
            budget.exceeded = budget.exceeded or is_packed(data, budget.check)
            return
        settled = True
        for decoded in unescapings(data, apart=self._escaped and depth < _APART_DEPTH, budget=budget):
            settled = False
            if budget.take(len(decoded.data)):
                for name, start, end in self._search(decoded.data, depth=depth + 1, budget=budget, whole=False):
                    yield name, *decoded.origin(start, end)
        if not whole and not settled:
            return  # the layers in between hold the same packed runs as the first or the last
        for start, end, inner in opened(data, budget, runs=touched.packed):
            for name in {n for n, _, _ in self._search(inner, depth=depth + 1, budget=budget)}:
                yield name, start, end

    def _touched(self, data: bytes) -> Touched:
        self._seen_bytes += len(data)
        if self._seen_bytes < (_GATED_BYTES // 4 if self._piecewise else _GATED_BYTES):
            return Touched()
        return self._built_gate().touched(data)

    def _built_gate(self) -> Gate:
        self._build()
        if self._gate is None:
            assert self._alnum is not None
            cores = [core for spelling in self._pieces for _, core in spelling.cores]
            self._gate = Gate([n.text for n in self._alnum], [n.text for n in self._loose], _SEPARATORS, cores)
        return self._gate

    def _plainly(self, data: bytes, touched: Touched, check: Check) -> Iterator[tuple[str, int, int]]:
        if self._pieces and touched.pieces:
            yield from find_pieces(data, self._pieces, check)
        for name, value in self._verbatim:
            yield from _as_it_is(data, name, value, check)
        assert self._alnum is not None
        for needles, dropped, likely in (
            (self._alnum, _NOT_ALNUM, touched.alnum),
            (self._loose, _SEPARATORS, touched.loose),
        ):
            if needles and likely and _may_hold(data, needles, dropped, check):
                yield from _in_normal_form(data, needles, dropped, check)


def _may_hold(data: bytes, needles: tuple[_Needle, ...], dropped: bytes, check: Check) -> bool:
    """Look for needles piece by piece, so that a large text is not copied as a whole, out of the processor's cache."""
    texts = {needle.text for needle in needles}
    overlap = max(map(len, texts)) - 1
    form = b""
    for low in range(0, len(data), PIECE_BYTES):
        check()
        form = form[-overlap:] + data[low : low + PIECE_BYTES].translate(_LOWER, dropped)
        for text in texts:
            if text in form:
                return True
    return False


def _in_normal_form(
    data: bytes, needles: tuple[_Needle, ...], dropped: bytes, check: Check
) -> Iterator[tuple[str, int, int]]:
    """Look for each needle as its case demands; what differs in case alone is never even a candidate."""
    lower = data.translate(_LOWER, dropped)
    cased = data.translate(None, dropped) if any(needle.exact for needle in needles) else b""
    places = _Places(data, dropped)
    for needle in needles:
        check()
        if needle.secret and needle.text in lower:
            yield from _as_it_is(data, needle.name, needle.secret, check)
        form, text = (cased, needle.exact) if needle.exact else (lower, needle.text)
        at = form.find(text)
        while at >= 0:
            check()
            yield needle.name, *places.origin(at, len(text))
            at = form.find(text, at + 1)


def _begun(data: bytes, needles: tuple[_Needle, ...], dropped: bytes) -> int:
    longest = max((len(needle.text) for needle in needles), default=0)
    tail = data[-longest * _SPREAD :] if longest else b""
    form = tail.translate(_LOWER, dropped)
    most = 0
    for needle in needles:
        at = form.find(needle.text[:_BEGUN], max(0, len(form) - len(needle.text) + 1))
        while at >= 0 and not needle.text.startswith(form[at:]):
            at = form.find(needle.text[:_BEGUN], at + 1)
        if at >= 0:
            most = max(most, len(form) - at)
    if not most:
        return len(data)
    start, _ = _Places(tail, dropped).origin(len(form) - most, most)
    return len(data) - len(tail) + start


def _as_it_is(data: bytes, name: str, secret: bytes, check: Check) -> Iterator[tuple[str, int, int]]:
    at = data.find(secret)
    while at >= 0:
        check()
        yield name, at, at + len(secret)
        at = data.find(secret, at + len(secret))


def _both_ways(name: str, plain: bytes, secret: bytes) -> tuple[_Needle, _Needle]:
    cased = None if plain in (plain.lower(), plain.upper()) else plain
    return (
        _Needle(name, plain.lower(), cased, secret),
        _Needle(name, plain.lower()[::-1], cased and cased[::-1]),
    )


def _turned(name: str, plain: bytes) -> _Needle:
    turned = plain.translate(_ROT13)
    return _Needle(name, turned.lower(), None if turned in (turned.lower(), turned.upper()) else turned)


def _base64_cores(raw: bytes) -> Iterator[bytes]:
    """Base64 of the secret inside any text: at each of three offsets, without the characters it shares with others."""
    for offset, shared in ((0, 0), (1, 2), (2, 3)):
        encoded = base64.b64encode(bytes(offset) + raw)
        whole = encoded if (offset + len(raw)) % 3 == 0 else encoded.rstrip(b"=")[:-1]
        yield whole[shared:].translate(None, _NOT_ALNUM)


class _Places:
    """The way back from the normal form to the text. Blocks are counted once, and those last looked at are kept."""

    __slots__ = ("_before", "_data", "_dropped", "_first", "_last")

    def __init__(self, data: bytes, dropped: bytes) -> None:
        self._data = data
        self._dropped = dropped
        self._before: list[int] = []
        """What is kept before each block."""
        self._first: tuple[int, list[int]] = (-1, [])
        self._last: tuple[int, list[int]] = (-1, [])

    def origin(self, at: int, length: int) -> tuple[int, int]:
        """The offsets, in the text, of a place in the normal form."""
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
        low, gone = block * _BLOCK_BYTES, frozenset(self._dropped)
        return [low + i for i, byte in enumerate(self._data[low : low + _BLOCK_BYTES]) if byte not in gone]
