"""HTML from parts, in which no text can become markup, and none can hide or turn around what stands beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from wasmrt.core.terminal import printable

_JSON_TEXT = re.compile(r'("(?:[^"\\]|\\.)*"?)')
_EMPTY = frozenset(("br", "hr", "input", "link", "meta"))


class Html(str):
    """Text that is HTML already. Only this module makes it, from parts that it has escaped."""

    __slots__ = ()


Part = str | None
"""A child: `Html` as it is, any other text escaped, nothing for None."""


def tag(name: str, /, *children: Part, **attributes: str | bool | None) -> Html:
    """Return an element. Names are ours; a `_` in an attribute's name stands for a hyphen, one at its end for nothing.

    Attributes that are None or False are left out, those that are True have no value.
    """
    given = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _EMPTY:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{together(*children)}</{name}>")


def together(*children: Part) -> Html:
    """Return parts one after the other."""
    return Html("".join(child if isinstance(child, Html) else _escaped(child) for child in children if child))


def drawing(svg: str) -> Html:
    """Return a drawing that a package of ours has made: SVG without styles and scripts, whose texts are escaped."""
    return Html(svg)


def foreign(text: str) -> Html:
    """Return a text of strangers in a line of ours. Letters that run from right to left stay within it."""
    return tag("bdi", text.replace("\n", " "))


def foreign_lines(lines: list[str], *, kind: str, label: str) -> Html:
    """Return a block of strangers' lines, from left to right; it can be scrolled by keyboard.

    SECURITY: letters that run from right to left turn what stands between them around. A line end ends that (Unicode
    Standard Annex 9, P1), and so does each text of JSON here, so that a value does not change places with its name.
    """
    marks = {"+": "added", "-": "removed"} if kind == "changes" else {}
    body = Html("\n".join(_line(line, marks.get(line[:1])) for line in lines))
    return tag("pre", body, class_=kind, tabindex="0", role="region", aria_label=label, dir="ltr")


def _line(line: str, mark: str | None) -> Html:
    return tag("span", *_texts(line), class_=mark) if mark else together(*_texts(line))


def _texts(line: str) -> Iterator[Part]:
    if line.isascii():
        yield line
        return
    for piece in _JSON_TEXT.split(line):
        yield tag("bdi", piece, dir="ltr") if piece.startswith('"') else piece


def _escaped(text: str) -> str:
    """SECURITY: invisible and reordering characters are shown as at the terminal, `\\u202e`, and markup as text."""
    return escape(printable(text), quote=True)


def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")
