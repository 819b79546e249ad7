"""Words of a command line after bash's expansions, with a mark where something is known only when it runs.

Source: bash reference manual, 3.5 "Shell Expansions". In the text of a field five control characters stand for what is
not known; a command line that holds one of them itself is refused before it is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise, product
from typing import NamedTuple

ANY, NAME_PART, ONE, DECODED, DIGITS = "\x00", "\x01", "\x02", "\x03", "\x04"
"""Any text; any part of a file's name (`*`); one character of it (`?`); text that was decoded; a number."""
UNKNOWN = frozenset((ANY, NAME_PART, ONE, DECODED, DIGITS))
MAX_FIELDS = 512
MAX_ALTERNATIVES = 32
_AS_EXPRESSION = {ANY: "(?:.|\n)*", NAME_PART: "[^/]*", ONE: "[^/]", DECODED: "(?:.|\n)*", DIGITS: "-?[0-9]*"}
_ESCAPES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|0?([0-7]{1,3})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))", re.DOTALL)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


class TooManyError(Exception):
    """A word has more expansions than are looked at."""


class Part(NamedTuple):
    """A part of a word before the last expansions."""

    text: str
    quoted: bool = False
    splits: bool = False
    """True for what an unquoted expansion gave: it is split into words."""


class Field(NamedTuple):
    """One word as the program gets it."""

    text: str
    splits: bool = False
    """True where it may be several words, or none."""

    @property
    def known(self) -> bool:
        """True where nothing of it is decided only when it runs."""
        return UNKNOWN.isdisjoint(self.text)

    @property
    def open_start(self) -> bool:
        """True where its beginning is not known, so that it may be an option."""
        return self.text[:1] in (ANY, DECODED)

    def expression(self) -> str:
        """Return a regular expression of everything that it may be."""
        return "".join(_AS_EXPRESSION.get(each) or re.escape(each) for each in self.text)


Alternatives = tuple[tuple[Part, ...], ...]
"""Every word that an expression may stand for."""
NOTHING: Alternatives = ((),)


def literal(text: str, *, quoted: bool = True) -> Alternatives:
    """Return the one alternative of a text that stands there."""
    return ((Part(text, quoted),),)


def unknown(mark: str = ANY, *, quoted: bool = False) -> Alternatives:
    """Return the one alternative of what is not known."""
    return ((Part(mark, quoted, splits=not quoted),),)


def joined(pieces: Iterable[Alternatives]) -> Alternatives:
    """Return every way in which pieces that stand side by side may be one word.

    Raises:
        TooManyError: there are too many.
    """
    found: Alternatives = NOTHING
    for piece in pieces:
        if len(found) * len(piece) > MAX_ALTERNATIVES:
            raise TooManyError
        found = tuple((*left, *right) for left in found for right in piece)
    return found


def expanded(alternatives: Alternatives, *, quoted: bool) -> Alternatives:
    """Return values of a variable as they are where it is expanded."""
    return tuple(
        dict.fromkeys(tuple(Part(part.text, quoted, splits=not quoted) for part in parts) for parts in alternatives)
    )


def fields(parts: Iterable[Part]) -> tuple[Field, ...]:
    """Return the words that one word becomes: braces, splitting, patterns.

    Raises:
        TooManyError: there are too many.
    """
    found: list[Field] = []
    for each in _braces(list(parts)):
        found += _split(each)
        if len(found) > MAX_FIELDS:
            raise TooManyError
    return tuple(found)


def lines_of_words(words: Iterable[Alternatives]) -> Iterator[tuple[Field, ...]]:
    """Yield every list of words that a command may have.

    Raises:
        TooManyError: there are too many.
    """
    choices = [tuple(dict.fromkeys(fields(parts) for parts in word)) for word in words]
    count = 1
    for choice in choices:
        count *= len(choice)
        if count > MAX_ALTERNATIVES:
            raise TooManyError
    for chosen in product(*choices):
        yield tuple(field for group in chosen for field in group)


def unescaped(text: str) -> str:
    """Return a text with the escapes of `$'...'`, `echo -e` and `printf` carried out."""

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
    """Split a word where an unquoted expansion gave white space, and mark its patterns."""
    found: list[Field] = []
    text, any_quoted, loose, exists = "", False, False, False
    for part in _merged(parts):
        pieces = re.split(r"[ \t\n]+", part.text) if part.splits else [part.text]
        for index, piece in enumerate(pieces):
            if index:
                if text or any_quoted:
                    found.append(Field(text, loose))
                text, any_quoted, loose = "", False, False
            text += piece if part.quoted else _patterns(piece)
            loose = loose or (part.splits and (ANY in piece or DECODED in piece))
        any_quoted = any_quoted or part.quoted
        exists = exists or part.quoted or not part.splits
    if text or any_quoted or (exists and not found and not any(part.splits for part in parts)):
        found.append(Field(text, loose))
    return found


def _merged(parts: list[Part]) -> list[Part]:
    """Return parts with those of one kind that stand side by side as one, so that a pattern is seen as a whole."""
    return [
        Part("".join(part.text for part in group), quoted, splits)
        for (quoted, splits), group in groupby(parts, key=lambda part: (part.quoted, part.splits))
    ]


def _patterns(text: str) -> str:
    text = re.sub(r"\[[^\]/\s]+\]", ONE, text)
    text = re.sub(r"[?*+@!]\([^)]*\)", NAME_PART, text)
    return text.replace("*", NAME_PART).replace("?", ONE)


def _braces(parts: list[Part]) -> list[list[Part]]:
    """Return the words that brace expansion makes of one (bash reference manual, 3.5.1)."""
    marked: list[tuple[str, Part]] = [
        (each, part) for part in parts for each in (part.text if not part.quoted and not part.splits else [part.text])
    ]
    done: list[list[Part]] = []
    waiting = [marked]
    while waiting:
        word = waiting.pop(0)
        found = _innermost(word)
        if found is None:
            done.append([Part(text, part.quoted, part.splits) for text, part in word])
        else:
            start, end, choices = found
            waiting += [[*word[:start], *choice, *word[end:]] for choice in choices]
        if len(done) + len(waiting) > MAX_FIELDS:
            raise TooManyError
    return done


def _innermost(word: list[tuple[str, Part]]) -> tuple[int, int, list[list[tuple[str, Part]]]] | None:
    """Return where the first innermost pair of braces with a comma stands, and what is between the commas."""
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
