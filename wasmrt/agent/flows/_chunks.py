"""Find a string in a growing text without searching all of it."""

from __future__ import annotations

import sys
from array import array

_CHUNK = 64 * 1024
_MIN_CHUNKS = 4
"""A shorter text is searched as a whole."""
_HEAD = 256
"""The number of bytes at the beginning of a string that decide in which chunks it is searched for."""
_GRAM = 4
_BUCKETS = 1 << 16
_BITS = 64


class ChunkedText:
    """A growing text that is divided into chunks, with a table that shows which chunks have a sequence of four bytes.

    The table has only the sequences whose position in the text is a multiple of four. A string in the text contains
    such sequences, at one of four distances from its beginning. Only the chunks in which all of them occur are
    searched. The size of the table is fixed: different sequences can share an entry of the table, and different chunks
    can share a bit of an entry. Some chunks are therefore searched unnecessarily.
    """

    def __init__(self) -> None:
        self._text = bytearray()
        self._chunks = 0
        self._table = array("Q")

    def __len__(self) -> int:
        """Return the length of the text. The table of a text with several chunks takes another 512 KiB."""
        return len(self._text)

    def append(self, text: bytes | bytearray) -> None:
        """Append bytes to the text."""
        self._text += text

    def __contains__(self, wanted: bytes) -> bool:
        if len(self._text) >= _MIN_CHUNKS * _CHUNK + _HEAD:
            self._index_chunks()
        mask = self._find_chunks(wanted[:_HEAD]) if self._chunks else 0
        while mask:
            bit = mask & -mask
            mask ^= bit
            for chunk in range(bit.bit_length() - 1, self._chunks, _BITS):
                if self._text.find(wanted, chunk * _CHUNK, (chunk + 1) * _CHUNK + len(wanted) - 1) >= 0:
                    return True
        return self._text.find(wanted, self._chunks * _CHUNK) >= 0

    def _find_chunks(self, head: bytes) -> int:
        """Return a bit for each chunk in which a string with this beginning may start."""
        found = 0
        for distance in range(_GRAM):
            mask = (1 << _BITS) - 1
            for start in range(distance, len(head) - _GRAM + 1, _GRAM):
                mask &= self._table[_get_bucket(int.from_bytes(head[start : start + _GRAM], sys.byteorder))]
            found |= mask
        return found

    def _index_chunks(self) -> None:
        if not self._table:
            self._table = array("Q", bytes(_BUCKETS * 8))
        while len(self._text) >= (self._chunks + 1) * _CHUNK + _HEAD:
            start, bit = self._chunks * _CHUNK, 1 << self._chunks % _BITS
            for gram in set(array("I", bytes(self._text[start : start + _CHUNK + _HEAD]))):
                self._table[(gram ^ gram >> 13) % _BUCKETS] |= bit  # as `_get_bucket`, without a call
            self._chunks += 1


def _get_bucket(gram: int) -> int:
    return (gram ^ gram >> 13) % _BUCKETS
