"""Words of a command line after bash's expansions, with marks for parts that are unknown until it runs.

Source: bash reference manual, 3.5 "Shell Expansions". In the text of a field, five control characters represent unknown
parts; a command line that contains one of them is refused before it is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise, product
from typing import NamedTuple

ANY, NAME_PART, ONE, DECODED, DIGITS = "\x00", "\x01", "\x02", "\x03", "\x04"
"""Any text; any part of a file name (`*`); one character of a file name (`?`); decoded text; a number."""
UNKNOWN = frozenset((ANY, NAME_PART, ONE, DECODED, DIGITS))
MAX_FIELDS = 512
MAX_ALTERNATIVES = 32
_AS_EXPRESSION = {ANY: "(?:.|\n)*", NAME_PART: "[^/]*", ONE: "[^/]", DECODED: "(?:.|\n)*", DIGITS: "-?[0-9]*"}
_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))", re.DOTALL)


def to_words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


class TooManyError(Exception):
    """A word has too many expansions."""


class Part(NamedTuple):
    """A part of a word before the last expansions."""

    text: str
    quoted: bool = False
    splits: bool = False
    """True for the result of an unquoted expansion, which is split into words."""


class Field(NamedTuple):
    """One word as passed to the program."""

    text: str
    splits: bool = False
    """True if it may be several words, or none."""

    @property
    def known(self) -> bool:
        """True if no part is unknown until it runs."""
        return UNKNOWN.isdisjoint(self.text)

    @property
    def open_start(self) -> bool:
        """True if its beginning is unknown, so that it may be an option."""
        return self.text[:1] in (ANY, DECODED)

    def expression(self) -> str:
        """Return a regular expression that matches all its possible values."""
        return "".join(_AS_EXPRESSION.get(each) or re.escape(each) for each in self.text)


Alternatives = tuple[tuple[Part, ...], ...]
"""All possible words for an expression."""
NOTHING: Alternatives = ((),)


def make_literal(text: str, *, quoted: bool = True) -> Alternatives:
    """Return the single alternative of a literal text."""
    return ((Part(text, quoted),),)


def make_unknown(mark: str = ANY, *, quoted: bool = False) -> Alternatives:
    """Return the single alternative of an unknown text."""
    return ((Part(mark, quoted, splits=not quoted),),)


def join_alternatives(pieces: Iterable[Alternatives]) -> Alternatives:
    """Return all possible words that adjacent pieces form.

    Raises:
        TooManyError: there are too many.
    """
    found: Alternatives = NOTHING
    for piece in pieces:
        if len(found) * len(piece) > MAX_ALTERNATIVES:
            raise TooManyError
        found = tuple((*left, *right) for left in found for right in piece)
    return found


def expand_values(alternatives: Alternatives, *, quoted: bool) -> Alternatives:
    """Return the values of a variable after an expansion."""
    return tuple(
        dict.fromkeys(tuple(Part(part.text, quoted, splits=not quoted) for part in parts) for parts in alternatives)
    )


def expand_fields(parts: Iterable[Part]) -> tuple[Field, ...]:
    """Return the words after brace expansion, splitting and pattern marking.

    Raises:
        TooManyError: there are too many.
    """
    found: list[Field] = []
    for each in _expand_braces(list(parts)):
        found += _split(each)
        if len(found) > MAX_FIELDS:
            raise TooManyError
    return tuple(found)


def lines_of_words(words: Iterable[Alternatives]) -> Iterator[tuple[Field, ...]]:
    """Yield every possible list of words of a command.

    Raises:
        TooManyError: there are too many.
    """
    choices = [tuple(dict.fromkeys(expand_fields(parts) for parts in word)) for word in words]
    count = 1
    for choice in choices:
        count *= len(choice)
        if count > MAX_ALTERNATIVES:
            raise TooManyError
    for chosen in product(*choices):
        yield tuple(field for group in chosen for field in group)


def unescape(text: str) -> str:
    """Return a text with the escapes of `$'...'`, `echo -e` and `printf` replaced."""

    def one(found: re.Match[str]) -> str:
        hexadecimal, octal, short, long, other = found.groups()
        if octal is not None:
            return chr(int(octal, 8) & 0xFF)
        if other is not None:
            return _ESCAPES.get(other, other if other in "\\'\"?" else "\\" + other)
        number = int(hexadecimal or short or long, 16)
        return chr(number) if number <= 0x10FFFF else ANY

    return _ESCAPE.sub(one, text)


def _split(parts: list[Part]) -> list[Field]:
    """Split a word at the white space of unquoted expansions, and mark its patterns."""
    found: list[Field] = []
    text, any_quoted, loose, exists = "", False, False, False
    for part in _merge_adjacent(parts):
        pieces = re.split(r"[ \t\n]+", part.text) if part.splits else [part.text]
        for index, piece in enumerate(pieces):
            if index:
                if text or any_quoted:
                    found.append(Field(text, loose))
                text, any_quoted, loose = "", False, False
            text += piece if part.quoted else _mark_patterns(piece)
            loose = loose or (part.splits and (ANY in piece or DECODED in piece))
        any_quoted = any_quoted or part.quoted
        exists = exists or part.quoted or not part.splits
    if text or any_quoted or (exists and not found and not any(part.splits for part in parts)):
        found.append(Field(text, loose))
    return found


def _merge_adjacent(parts: list[Part]) -> list[Part]:
    """Merge adjacent parts of the same kind, so that patterns are complete."""
    return [
        Part("".join(part.text for part in group), quoted, splits)
        for (quoted, splits), group in groupby(parts, key=lambda part: (part.quoted, part.splits))
    ]


def _mark_patterns(text: str) -> str:
    text = re.sub(r"\[[^\]/\s]+\]", ONE, text)
    text = re.sub(r"[?*+@!]\([^)]*\)", NAME_PART, text)
    return text.replace("*", NAME_PART).replace("?", ONE)


def _expand_braces(parts: list[Part]) -> list[list[Part]]:
    """Return the words after brace expansion (bash reference manual, 3.5.1)."""
    marked: list[tuple[str, Part]] = [
        (each, part) for part in parts for each in (part.text if not part.quoted and not part.splits else [part.text])
    ]
    done: list[list[Part]] = []
    waiting = [marked]
    while waiting:
        word = waiting.pop(0)
        found = _find_innermost_braces(word)
        if found is None:
            done.append([Part(text, part.quoted, part.splits) for text, part in word])
        else:
            start, end, choices = found
            waiting += [[*word[:start], *choice, *word[end:]] for choice in choices]
        if len(done) + len(waiting) > MAX_FIELDS:
            raise TooManyError
    return done


def _find_innermost_braces(word: list[tuple[str, Part]]) -> tuple[int, int, list[list[tuple[str, Part]]]] | None:
    """Return the positions of the first innermost pair of braces with a comma, and the texts between the commas."""
    opened = -1
    for index, (text, part) in enumerate(word):
        if part.quoted or part.splits:
            continue
        if text == "{":
            opened = index
        elif text == "}" and opened >= 0:
            inner = word[opened + 1 : index]
            commas = [at for at, (each, own) in enumerate(inner) if each == "," and not (own.quoted or own.splits)]
            if commas:
                edges = [-1, *commas, len(inner)]
                return opened, index + 1, [inner[a + 1 : b] for a, b in pairwise(edges)]
            if ".." in "".join(each for each, _ in inner):
                return opened, index + 1, [[(ANY, Part(ANY))]]
            opened = -1
    return None
