"""More damaged forms of diffs, and other formats, for `benches.bench_patch --more`. Only wasmrt reads most of them.

A form returns the text, or None if it does not apply to the commit. The result must be the commit's files or, if the
text does not determine them, a refusal.
"""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

Form = Callable[["Change"], str | None]


class Change(NamedTuple):
    """The first file of a commit that has one file, and its diff."""

    path: str
    before: str
    after: str
    diff: str

    @property
    def hunks(self) -> list[str]:
        return re.split(r"(?m)^(?=@@ )", self.diff)[1:]

    @property
    def head(self) -> str:
        return self.diff[: self.diff.index("@@ ")]

    def with_hunks(self, hunks: list[str]) -> str:
        return self.head + "".join(hunks)


def _body(change: Change, edit: Callable[[str], str]) -> str:
    lines = change.with_hunks(change.hunks).split("\n")
    return "\n".join(
        edit(line) if line[:1] in ("+", "-", " ") and line[:3] not in ("+++", "---") else line for line in lines
    )


def _blocks(change: Change, context: int = 3) -> Iterator[tuple[str, str]]:
    """Yield the old and the new text of each hunk."""
    old, new = change.before.splitlines(True), change.after.splitlines(True)
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(context):
        yield "".join(old[group[0][1] : group[-1][2]]), "".join(new[group[0][3] : group[-1][4]])


def _search_replace(change: Change, fences: tuple[str, str, str], context: int = 3, named: bool = True) -> str:
    first, middle, last = fences
    name = f"{change.path}\n" if named else ""
    return "".join(f"{name}{first}\n{old}{middle}\n{new}{last}\n\n" for old, new in _blocks(change, context))


def _codex(change: Change, action: str = "Update", moved: str = "", end: bool = True, context: int = 3) -> str:
    if action == "Add":
        body = "".join(f"+{line}\n" for line in change.after.splitlines())
    elif action == "Delete":
        body = ""
    else:
        lines = difflib.unified_diff(change.before.splitlines(), change.after.splitlines(), n=context, lineterm="")
        body = "".join(("@@" if line.startswith("@@") else line) + "\n" for line in list(lines)[2:])
    move = f"*** Move to: {moved}\n" if moved else ""
    return f"*** Begin Patch\n*** {action} File: {change.path}\n{move}{body}" + ("*** End Patch\n" if end else "")


def _drop_marker(change: Change) -> str | None:
    return change.diff.replace("\\ No newline at end of file\n", "") if "\\ No newline" in change.diff else None


def _two(change: Change, order: Callable[[list[str]], list[str]]) -> str | None:
    return change.with_hunks(order(change.hunks)) if len(change.hunks) > 1 else None


_MARKS = ("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE")
FORMS: dict[str, Form] = {
    "tabs become spaces": lambda c: _body(c, lambda x: x.replace("\t", "    ")) if "\t" in c.diff else None,
    "spaces become tabs": lambda c: _body(c, lambda x: x.replace("    ", "\t")) if "    " in c.diff else None,
    "trailing spaces lost": lambda c: "\n".join(line.rstrip() for line in c.diff.split("\n")),
    "no file headers": lambda c: "".join(c.hunks),
    "only +++": lambda c: f"+++ b/{c.path}\n" + "".join(c.hunks),
    "wrong old name": lambda c: f"--- a/wrong/name.txt\n+++ b/{c.path}\n" + "".join(c.hunks),
    "wrong new name": lambda c: f"--- a/{c.path}\n+++ b/wrong/name.txt\n" + "".join(c.hunks),
    "names without a/ and b/": lambda c: f"--- {c.path}\n+++ {c.path}\n" + "".join(c.hunks),
    "names with ./": lambda c: f"--- ./{c.path}\n+++ ./{c.path}\n" + "".join(c.hunks),
    "names with dates": lambda c: f"--- a/{c.path}\t2024-01-01 00:00:00\n+++ b/{c.path}\t2024-01-02 00:00:00\n" + "".join(c.hunks),
    "CRLF on every second line": lambda c: "".join(x + ("\r\n" if n % 2 else "\n") for n, x in enumerate(c.diff.split("\n"))),
    "no newline markers lost": _drop_marker,
    "each hunk twice": lambda c: c.with_hunks([hunk for hunk in c.hunks for _ in range(2)]),
    "hunks in reverse order": lambda c: _two(c, lambda hunks: hunks[::-1]),
    "first hunk missing": lambda c: _two(c, lambda hunks: [*hunks[1:], hunks[0]]),
    "all changes twice": lambda c: c.diff + c.diff,
    "code block in text": lambda c: f"I changed it:\n\n~~~patch\n{c.diff}~~~\n\n- It works.\n+ Really.\n",
    "indented code block": lambda c: "1. Apply:\n\n" + "".join(f"    {line}\n" for line in c.diff.splitlines()),
    "quoted": lambda c: "".join(f"> {line}\n" for line in c.diff.splitlines()),
    "escaped for HTML": lambda c: html.escape(c.diff) if html.escape(c.diff) != c.diff else None,
    "context lines without their space": lambda c: "\n".join(x[1:] if x[:1] == " " else x for x in c.diff.split("\n")),
    "context ends with ...": lambda c: c.with_hunks([re.sub(r"\n .*\n$", "\n ...\n", hunk) for hunk in c.hunks]),
    "added lines with a space": lambda c: _body(c, lambda x: f"+ {x[1:]}" if x[:1] == "+" else x),
    "removed lines left out": lambda c: "\n".join(x for x in c.diff.split("\n") if x[:1] != "-" or x[:3] == "---"),
    "without context": lambda c: "".join(list(difflib.unified_diff(c.before.splitlines(True), c.after.splitlines(True), f"a/{c.path}", f"b/{c.path}", n=0))) if c.before.endswith("\n") and c.after.endswith("\n") else None,
    "context diff": lambda c: "".join(difflib.context_diff(c.before.splitlines(True), c.after.splitlines(True), c.path, c.path)),
    "mode lines": lambda c: f"diff --git a/{c.path} b/{c.path}\nold mode 100644\nnew mode 100755\n" + c.diff[c.diff.index("--- "):],
    "binary patch": lambda c: f"diff --git a/{c.path} b/{c.path}\nindex 1111111..2222222 100644\nGIT binary patch\nliteral 3\nKcmZQzU|<Y@\n\n",
    "binary files differ": lambda c: f"diff --git a/{c.path} b/{c.path}\nBinary files a/{c.path} and b/{c.path} differ\n",
    "line numbers before lines": lambda c: _body(c, lambda x: f"{x[:1]}12: {x[1:]}"),
    "last line cut in the middle": lambda c: c.diff.rstrip("\n")[:-3],
    "first half only": lambda c: c.diff[: len(c.diff) // 2],
    "overlapping hunks": lambda c: c.with_hunks([*c.hunks, *c.hunks[:1]]),
    "reversed": lambda c: _reverse(c),
    "Codex": _codex,
    "Codex without end": lambda c: _codex(c, end=False),
    "Codex in a code block": lambda c: f"```\n{_codex(c)}```\n",
    "Codex with little context": lambda c: _codex(c, context=1),
    "Codex delete and add": lambda c: _codex(c, "Delete", end=False) + _codex(c, "Add").partition("\n")[2],
    "SEARCH/REPLACE": lambda c: _search_replace(c, _MARKS),
    "SEARCH/REPLACE in code blocks": lambda c: re.sub(r"(?ms)^(<<<<<<< .*?>>>>>>> REPLACE\n)", r"```python\n\1```\n", _search_replace(c, _MARKS)),
    "SEARCH/REPLACE with nine marks": lambda c: _search_replace(c, ("<<<<<<<<< SEARCH", "=========", ">>>>>>>>> REPLACE")),
    "SEARCH/REPLACE without a name": lambda c: _search_replace(c, _MARKS, named=False),
    "SEARCH/REPLACE without the end": lambda c: _search_replace(c, _MARKS).rstrip()[:-16],
    "SEARCH/REPLACE with one line": lambda c: _search_replace(c, _MARKS, context=0),
    "SEARCH/REPLACE, trailing spaces lost": lambda c: "\n".join(x.rstrip() for x in _search_replace(c, _MARKS).split("\n")),
    "SEARCH/REPLACE with an empty SEARCH": lambda c: f"{c.path}\n{_MARKS[0]}\n{_MARKS[1]}\n{c.after}{_MARKS[2]}\n",
    "SEARCH/REPLACE named DIFF": lambda c: _search_replace(c, ("<<<<<<< ORIGINAL", "=======", ">>>>>>> UPDATED")),
}  # fmt: skip


OTHER_CONTENT = (
    "tabs become spaces", "spaces become tabs", "escaped for HTML", "added lines with a space",
    "last line cut in the middle", "first half only",
)  # fmt: skip
"""Forms whose added lines differ from the commit's. Such a text can be a complete diff of its own."""


def _reverse(change: Change) -> str:
    return "".join(
        difflib.unified_diff(
            change.after.splitlines(True), change.before.splitlines(True), f"a/{change.path}", f"b/{change.path}"
        )
    )
