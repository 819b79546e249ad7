"""Parse a large JSON text value by value, with bounded memory, so that other threads can run in between.

The reader of `json` is one C call that holds the GIL. For 400,000 names it takes 0.2 s, and 80 MiB of memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import count
from sys import getsizeof
from typing import Any

_MAX_MEMORY_BYTES = 14 * 1024 * 1024
"""Maximum memory of all lists, objects, strings and numbers of one text."""
LARGE_CHARS = 256 * 1024
"""The number of characters from which a text is large. The C reader takes 20 ns per character of numbers."""
_MANY_NAMES = 40_000
"""The C reader takes up to 0.6 us per name."""
_MANY_QUOTES = 800_000
_ENTRY_BYTES = 10
"""Memory of one entry of a list, which allocates more than it needs."""
_MEMBER_BYTES = 48
"""Estimated memory of each name of a small object. Large objects are measured when they are complete."""
_NAME_BYTES = 100
"""Memory of an entry in the table of names."""
_RUN_VALUES = 4096
"""Values between two calls of `check`."""
_SPACE = re.compile(r"[ \t\n\r]*")


class TooMuchMemoryError(ValueError):
    """The values of a text take too much memory."""


def needs_counting_decoder(text: str) -> bool:
    """Return whether the C reader could hold the GIL for more than 20 ms, or exceed the bound of memory."""
    return text.count(":") > _MANY_NAMES or text.count('"') > _MANY_QUOTES


def counting_decoder(
    check: Callable[[], object], real: Callable[[str], float], whole: Callable[[str], int], **hooks: Any
) -> json.JSONDecoder:
    """Return a decoder that counts the memory of numbers. Between numbers, other threads can run and `check` is called.

    Its methods raise `TooMuchMemoryError` if the numbers take too much memory.
    """
    numbers = count(1)
    left = [_MAX_MEMORY_BYTES]

    def counted(value: float) -> float:
        left[0] -= _estimate_size(value) + _ENTRY_BYTES
        if not next(numbers) % _RUN_VALUES:
            check()
            if left[0] < 0:
                raise TooMuchMemoryError
        return value

    return json.JSONDecoder(
        parse_int=lambda text: counted(whole(text)), parse_float=lambda text: counted(real(text)), **hooks
    )


def _estimate_size(value: Any) -> int:
    """Return the size of a string, number or literal; Python shares the shortest ones."""
    if value is None or value is True or value is False or (isinstance(value, int) and -5 <= value <= 256):
        return 0
    return 0 if isinstance(value, str) and len(value) < 2 else getsizeof(value)


class StepReader:
    """Reads one text with the result of `decoder.decode`, and calls the hooks of `decoder` for numbers and pairs."""

    def __init__(self, text: str, decoder: json.JSONDecoder, check: Callable[[], object]) -> None:
        self._text = text
        self._decoder = decoder
        self._check = check
        self._names: dict[str, str] = {}
        self._values = 0
        self._bytes = 0

    def read(self) -> Any:
        """Return the value.

        Raises:
            JSONDecodeError: the text is not JSON.
            TooMuchMemoryError: its values take more than 14 MiB.
        """
        value, at = self._value(self._skip(0))
        at = self._skip(at)
        if at != len(self._text):
            raise json.JSONDecodeError("Extra data", self._text, at)
        return value

    def _value(self, at: int) -> tuple[Any, int]:
        self._values += 1
        if not self._values % _RUN_VALUES:
            self._check()
            if self._bytes > _MAX_MEMORY_BYTES:
                raise TooMuchMemoryError
        first = self._text[at : at + 1]
        if first == "{":
            return self._object(at + 1)
        if first == "[":
            return self._array(at + 1)
        value, end = self._decoder.raw_decode(self._text, at)
        self._bytes += _estimate_size(value) + _ENTRY_BYTES
        return value, end

    def _object(self, at: int) -> tuple[Any, int]:
        hook: Callable[[list[tuple[str, Any]]], Any] | None = self._decoder.object_pairs_hook
        pairs: list[tuple[str, Any]] = []
        found: Any = {}
        at = self._skip(at)
        closed = self._text[at : at + 1] == "}"
        while not closed:
            if self._text[at : at + 1] != '"':
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self._text, at)
            name, at = self._decoder.raw_decode(self._text, at)
            if name not in self._names:
                self._names[name] = name
                self._bytes += getsizeof(name) + _NAME_BYTES
            at = self._skip(at)
            if self._text[at : at + 1] != ":":
                raise json.JSONDecodeError("Expecting ':' delimiter", self._text, at)
            value, at = self._value(self._skip(at + 1))
            self._bytes += _MEMBER_BYTES
            if hook is None:
                found[self._names[name]] = value
            else:
                pairs.append((self._names[name], value))
            at, closed = self._next(at, "}")
        if hook is not None:
            found = hook(pairs)
        self._bytes += max(0, getsizeof(found) - _MEMBER_BYTES * len(found))
        return found, at + 1

    def _array(self, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self._skip(at)
        closed = self._text[at : at + 1] == "]"
        while not closed:
            value, at = self._value(at)
            found.append(value)
            at, closed = self._next(at, "]")
        self._bytes += 56
        return found, at + 1

    def _next(self, at: int, end: str) -> tuple[int, bool]:
        """Return the position of the next value or of `end`, and whether it is `end`."""
        at = self._skip(at)
        found = self._text[at : at + 1]
        if found == end:
            return at, True
        if found != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", self._text, at)
        return self._skip(at + 1), False

    def _skip(self, at: int) -> int:
        return _SPACE.match(self._text, at).end()  # type: ignore[union-attr]  # it always matches
