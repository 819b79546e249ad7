"""Front matter, read as a strict part of YAML 1.2: texts, lists of texts and mappings, every mistake at once.

Every value is a text, so that nothing is a number, a date or a truth value by accident. Tags, anchors, aliases, merges,
documents and mappings in braces are refused: they are what makes YAML dangerous, and no skill needs them. A library
would read all of them first.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

MAX_FRONT_BYTES = 16 * 1024
MAX_FRONT_LINES = 512
_MAX_DEPTH = 4
_MAX_MISTAKES = 32
_MAX_ITEMS = 256
_FENCE = "---"
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,63}):(?: +|$)")
_BLOCK = re.compile(r"[|>][+-]?")
_QUOTED = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')""")
_NOT_IN_LIST = re.compile(r"""[][{}"'&*!|>%@`#]|: """)
_NOT_PLAIN = tuple("&*!|>%@`{}[]\"'#,?")
_REFUSED = {
    "&": "an anchor",
    "*": "an alias",
    "!": "a tag",
    "{": "a mapping in braces",
    "%": "a directive",
    "?": "a complex key",
}


class FrontMistake(NamedTuple):
    """One mistake, with its line in the file, from 1."""

    line: int
    problem: str


class _Line(NamedTuple):
    number: int
    indent: int
    text: str
    """Without indentation and blanks at its end."""


def split_front(text: str) -> tuple[str, str] | None:
    """Return the front matter and the text below it; None where a file has none that ends."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return None
    for number, line in enumerate(lines[1 : MAX_FRONT_LINES + 2], 1):
        if line.rstrip() == _FENCE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    return None


def read_front(text: str) -> tuple[dict[str, object], list[FrontMistake]]:
    """Return the values of a front matter, without its fences, and what is wrong with it.

    Values are texts, tuples of texts, and dicts of values.
    """
    if len(text.encode("utf-8", "replace")) > MAX_FRONT_BYTES or text.count("\n") >= MAX_FRONT_LINES:
        most = f"{MAX_FRONT_BYTES:,} bytes and {MAX_FRONT_LINES} lines"
        return {}, [FrontMistake(1, f"the front matter is over {most}")]
    reader = _Reader(text)
    values = reader.mapping(0, 1)
    while not reader.at_end:  # what stands further to the left than its mapping
        reader.wrong("is indented unlike the lines around it")
        reader.next()
    return values, reader.mistakes[:_MAX_MISTAKES]


class _Reader:
    """A recursive reader; each step takes at least one line, so that it ends."""

    def __init__(self, text: str) -> None:
        self._raw = text.split("\n")
        self._at = 0
        self.mistakes: list[FrontMistake] = []
        self._skip()

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._raw)

    def wrong(self, problem: str, number: int | None = None) -> None:
        self.mistakes.append(FrontMistake((self._at if number is None else number) + 2, problem))

    def next(self) -> None:
        self._at += 1
        self._skip()

    def mapping(self, indent: int, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        while not self.at_end and self._line.indent >= indent:
            line = self._line
            if line.indent > indent:
                self.wrong("is indented unlike the lines around it")
                self.next()
                continue
            key = _KEY.match(line.text)
            if key is None:
                self.wrong(_no_key(line.text))
                self.next()
                continue
            name, rest = key[1], line.text[key.end() :].strip()
            if name in found or (twice := next((k for k in found if k.casefold() == name.casefold()), None)):
                self.wrong(f"{name} stands there twice" if name in found else f"{name} is {twice} in other letters")
            number = line.number
            value = self._value(rest, indent, depth, number)
            found.setdefault(name, value)
        return found

    def _value(self, rest: str, indent: int, depth: int, number: int) -> object:
        if _BLOCK.fullmatch(rest):
            return self._block(rest, indent)
        self.next()
        if rest and not rest.startswith("#"):
            return self._inline(rest, indent, number)
        if self.at_end or self._line.indent < indent:
            return ""
        if self._line.text.startswith("- ") or self._line.text == "-":
            return self._items(self._line.indent, number)
        if self._line.indent == indent:
            return ""
        if depth >= _MAX_DEPTH:
            self.wrong(f"is nested more than {_MAX_DEPTH} deep")
            self._leave(indent)
            return ""
        return self.mapping(self._line.indent, depth + 1)

    def _items(self, indent: int, number: int) -> tuple[str, ...]:
        items: list[str] = []
        while not self.at_end and self._line.indent == indent and self._line.text[:2] in ("- ", "-"):
            line = self._line
            rest = line.text[1:].strip()
            self.next()
            value = self._inline(rest, indent, line.number)
            if isinstance(value, str) and value:
                items.append(value)
            else:
                self.wrong("a list holds texts alone", line.number)
        if len(items) > _MAX_ITEMS:
            self.wrong(f"a list has up to {_MAX_ITEMS} items", number)
        return tuple(items[:_MAX_ITEMS])

    def _block(self, mark: str, indent: int) -> str:
        """Read a text over several lines (YAML 1.2, 8.1): `|` keeps its lines, `>` joins them."""
        self._at += 1
        lines: list[str] = []
        while self._at < len(self._raw):
            raw = self._raw[self._at]
            if raw.strip() and len(raw) - len(raw.lstrip(" ")) <= indent:
                break
            lines.append(raw)
            self._at += 1
        self._skip()
        indents = [len(raw) - len(raw.lstrip(" ")) for raw in lines if raw.strip()]
        own = indents[0] if indents else 0
        if indents and min(indents) < own:
            self.wrong("has a text whose lines stand further to the left than its first", self._at - 1)
        cut = [raw[own:].rstrip() for raw in lines]
        text = "\n".join(cut) if mark[0] == "|" else re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(cut).strip("\n"))
        return text.rstrip("\n")

    def _inline(self, rest: str, indent: int, number: int) -> object:
        if rest[:1] == '"' or rest[:1] == "'":
            return self._quoted(rest, number)
        if rest[:1] == "[":
            return self._flow(rest, number)
        if rest[:1] in _REFUSED:
            self.wrong(f"has {_REFUSED[rest[0]]}, which is not read here: put the text in quotes", number)
            return ""
        if rest.startswith(_NOT_PLAIN):
            self.wrong(f"a text that begins with {rest[0]} stands in quotes", number)
            return ""
        parts = [_without_comment(rest)]
        while not self.at_end and self._line.indent > indent and not self._line.text.startswith("- "):
            parts.append(_without_comment(self._line.text))
            self.next()
        text = " ".join(parts)
        if ": " in text or text.endswith(":"):
            self.wrong('has a colon in its text: put the text in quotes ("...")', number)
        return text

    def _quoted(self, rest: str, number: int) -> str:
        body = _QUOTED.match(rest)
        if body is None or not re.fullmatch("(?: +#.*)?", rest[body.end() :]):
            self.wrong("has quotes that do not end on its line, or something behind them", number)
            return ""
        if rest[0] == "'":
            return body[0][1:-1].replace("''", "'")
        try:
            read: str = json.loads(body[0], strict=False)
            read.encode()
        except ValueError:
            self.wrong('has an escape in its quotes that is not one of JSON (\\n, \\", \\u00e9)', number)
            return ""
        return read

    def _flow(self, rest: str, number: int) -> tuple[str, ...]:
        """Read a list in brackets, on one line."""
        body = re.fullmatch(r"\[(.*)\](?: +#.*)?", rest)
        if body is None:
            self.wrong("has a list in brackets that does not end on its line", number)
            return ()
        items: list[str] = []
        rest = body[1].strip()
        while rest:
            quoted = _QUOTED.match(rest)
            item = quoted[0] if quoted is not None else rest.partition(",")[0].rstrip()
            rest = rest[len(item) :].lstrip()
            if not item or (quoted is None and _NOT_IN_LIST.search(item)) or (rest and rest[0] != ","):
                self.wrong("has a list in brackets that holds something else than texts", number)
                return ()
            items.append(self._quoted(item, number) if quoted is not None else item)
            rest = rest[1:].lstrip()
        if len(items) > _MAX_ITEMS:
            self.wrong(f"a list has up to {_MAX_ITEMS} items", number)
        return tuple(items[:_MAX_ITEMS])

    @property
    def _line(self) -> _Line:
        raw = self._raw[self._at]
        return _Line(self._at, len(raw) - len(raw.lstrip(" ")), raw.strip(" "))

    def _leave(self, indent: int) -> None:
        while not self.at_end and self._line.indent > indent:
            self.next()

    def _skip(self) -> None:
        """Go on to the next line that says something."""
        while self._at < len(self._raw):
            raw = self._raw[self._at]
            if "\t" in raw[: len(raw) - len(raw.lstrip())]:
                self.wrong("is indented with a tab: use blanks")
            elif raw.strip() and not raw.lstrip().startswith("#"):
                return
            self._at += 1


def _without_comment(text: str) -> str:
    return re.split(r" #", text, maxsplit=1)[0].rstrip()


def _no_key(text: str) -> str:
    mark = text[:1]
    if text.startswith(("--- ", "...", "---")):
        return "begins another document: there is one"
    if text.startswith("<<"):
        return "merges a mapping, which is not read here"
    if mark in _REFUSED:
        return f"has {_REFUSED[mark]}, which is not read here"
    return "is not written `key: value`"
