"""Decode content that begins inside a run, behind other characters of the same alphabet: `id_`, `0x`, or a path."""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from wasmrt.egress.leaks._archives import begins_archive, magic_pattern
from wasmrt.egress.leaks._linear import compile_linear
from wasmrt.egress.leaks._model import PIECE_BYTES, DecodeBudget

_TEXT = rb"|[\x20-\x7e]{12}"
"""Twelve visible characters, which are not a coincidence in decoded bytes."""
_HEAD_BYTES = 64
_HEX = re.compile(rb"[0-9A-Fa-f]{16,}")
_AS_STANDARD = bytes.maketrans(b"-_", b"+/")


class _Part(NamedTuple):
    """A run without its first `skipped` characters."""

    start: int
    end: int
    skipped: int


@lru_cache(maxsize=1)
def _starts() -> Any:
    return compile_linear(magic_pattern() + _TEXT)


def decode_inside(
    data: bytes, runs: Sequence[tuple[int, int]], budget: DecodeBudget
) -> Iterator[tuple[int, int, bytes]]:
    """Yield the places of runs, and their content, decoded from each offset at which an archive or text begins."""
    yield from _decode_parts(data, (_Part(*run, skipped) for run in runs for skipped in range(4)), _from_base64, budget)
    digits = (found.span() for run in runs for found in _HEX.finditer(data, *run))
    yield from _decode_parts(data, (_Part(*run, skipped) for run in digits for skipped in range(2)), _from_hex, budget)


def _decode_parts(
    data: bytes, parts: Iterable[_Part], decode: Callable[[list[bytes]], tuple[bytes, list[int]]], budget: DecodeBudget
) -> Iterator[tuple[int, int, bytes]]:
    """Decode many parts together, since most of them contain nothing."""
    for group in _gather(parts):
        budget.check()
        content, sizes = decode(
            [b"".join(data[part.start : part.end].split()).rstrip(b"=")[part.skipped :] for part in group]
        )
        ends = list(accumulate(sizes))
        position = 0
        broken: set[bytes] = set()
        while (found := _starts().search(content, position)) is not None:
            budget.check()
            at, position = found.start(), found.start() + 1
            index = bisect_right(ends, at)
            part, end = group[index], ends[index]
            # A run that is base64 from its first character on is decoded elsewhere.
            known = decode is _from_base64 and not part.skipped and at == end - sizes[index]
            head = content[at : at + _HEAD_BYTES]
            if head in broken:
                continue  # the same content again, as in images with a repeated pattern
            if found.end() - at == 2 and not begins_archive(content, at):
                broken.add(head)
                if not budget.charge_attempt():
                    return
            elif not known:
                position = end
                yield part.start, part.end, content[at:end]


def _gather(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    gathered: list[_Part] = []
    size = 0
    for part in parts:
        gathered.append(part)
        size += part.end - part.start
        if size > PIECE_BYTES:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered


def _from_base64(words: list[bytes]) -> tuple[bytes, list[int]]:
    filled = [word + b"A" * (-len(word) % 4) for word in words]
    return binascii.a2b_base64(b"".join(filled).translate(_AS_STANDARD)), [len(word) // 4 * 3 for word in filled]


def _from_hex(words: list[bytes]) -> tuple[bytes, list[int]]:
    even = [word[: len(word) // 2 * 2] for word in words]
    return bytes.fromhex(b"".join(even).decode()), [len(word) // 2 for word in even]
