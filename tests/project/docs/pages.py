"""The project's pages, and the code blocks in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGES = tuple(
    sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY"))])
)
CHANGELOG = ROOT / "CHANGELOG.md"
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"^ *<!-- (?P<kind>file|not run|exits|test)(?:: (?P<value>.+?))? -->$")
_SPAN = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """A code block of a page."""

    page: Path
    line: int
    language: str
    text: str
    marks: dict[str, str]
    """Comments directly above: `file` is its name, `not run` a reason, `exits` the code of its last command."""

    @property
    def place(self) -> str:
        return f"{named(self.page)}:{self.line}"


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return a page's code blocks, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()].splitlines()
        indent = len(match["indent"])
        code = "".join(line[indent:] if line.strip() else "\n" for line in match["text"].splitlines(keepends=True))
        found.append(Block(page, len(before) + 1, match["language"], code, _marks(before)))
    return found


def prose(page: Path) -> str:
    """Return a page's text without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def spans(page: Path) -> list[str]:
    """Return the inline code of a page's prose."""
    return _SPAN.findall(prose(page))


def _marks(before: list[str]) -> dict[str, str]:
    marks: dict[str, str] = {}
    for line in reversed(before):
        mark = _MARK.match(line)
        if mark is None:
            break
        marks[mark["kind"]] = mark["value"] or ""
    return marks
