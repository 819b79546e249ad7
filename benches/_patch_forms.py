"""More damaged forms of diffs, and other formats, for `benches.bench_patch --more`. Only wasmrt reads most of them.

A form returns the text, or None if it does not apply to the commit. The result must be the commit's files or, if the
text does not determine them, a refusal.
"""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Callable, Iterator, Sequence
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
    is_body = re.compile(r"(?![+-]{3})[-+ ]").match
    return "\n".join(edit(line) if is_body(line) else line for line in change.diff.split("\n"))


def _lines(change: Change) -> tuple[list[str], list[str]]:
    return change.before.splitlines(True), change.after.splitlines(True)


def _without_ends(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _named(change: Change, old: str, new: str) -> str:
    return f"--- {old}\n+++ {new}\n" + "".join(change.hunks)


def _without_context(change: Change) -> str | None:
    if not change.before.endswith("\n") or not change.after.endswith("\n"):
        return None
    return "".join(difflib.unified_diff(*_lines(change), f"a/{change.path}", f"b/{change.path}", n=0))


def _git(change: Change, rest: str) -> str:
    return f"diff --git a/{change.path} b/{change.path}\n{rest}"


def _mixed_ends(change: Change) -> str:
    return "".join(line + ("\r\n" if n % 2 else "\n") for n, line in enumerate(change.diff.split("\n")))


def _in_code_blocks(change: Change) -> str:
    return re.sub(r"(?ms)^(<<<<<<< .*?>>>>>>> REPLACE\n)", r"```python\n\1```\n", _search_replace(change, _MARKS))


def _blocks(change: Change, context: int = 3) -> Iterator[tuple[str, str]]:
    """Yield the old and the new text of each hunk."""
    old, new = _lines(change)
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(context):
        yield "".join(old[group[0][1] : group[-1][2]]), "".join(new[group[0][3] : group[-1][4]])


def _search_replace(change: Change, fences: Sequence[str], context: int = 3, named: bool = True) -> str:
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
    "trailing spaces lost": lambda c: _without_ends(c.diff),
    "no file headers": lambda c: "".join(c.hunks),
    "only +++": lambda c: f"+++ b/{c.path}\n" + "".join(c.hunks),
    "wrong old name": lambda c: _named(c, "a/wrong/name.txt", f"b/{c.path}"),
    "wrong new name": lambda c: _named(c, f"a/{c.path}", "b/wrong/name.txt"),
    "names without a/ and b/": lambda c: _named(c, c.path, c.path),
    "names with ./": lambda c: _named(c, f"./{c.path}", f"./{c.path}"),
    "names with dates": lambda c: _named(c, f"a/{c.path}\t2024-01-01 00:00:00", f"b/{c.path}\t2024-01-02 00:00:00"),
    "CRLF on every second line": _mixed_ends,
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
    "without context": _without_context,
    "context diff": lambda c: "".join(difflib.context_diff(*_lines(c), c.path, c.path)),
    "mode lines": lambda c: _git(c, "old mode 100644\nnew mode 100755\n" + c.diff[c.diff.index("--- ") :]),
    "binary patch": lambda c: _git(c, "index 11..22 100644\nGIT binary patch\nliteral 3\nKcmZQzU|<Y@\n\n"),
    "binary files differ": lambda c: _git(c, f"Binary files a/{c.path} and b/{c.path} differ\n"),
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
    "SEARCH/REPLACE in code blocks": _in_code_blocks,
    "SEARCH/REPLACE with nine marks": lambda c: _search_replace(c, [m.replace(m[0] * 7, m[0] * 9) for m in _MARKS]),
    "SEARCH/REPLACE without a name": lambda c: _search_replace(c, _MARKS, named=False),
    "SEARCH/REPLACE without the end": lambda c: _search_replace(c, _MARKS).rstrip()[:-16],
    "SEARCH/REPLACE with one line": lambda c: _search_replace(c, _MARKS, context=0),
    "SEARCH/REPLACE, trailing spaces lost": lambda c: _without_ends(_search_replace(c, _MARKS)),
    "SEARCH/REPLACE with an empty SEARCH": lambda c: f"{c.path}\n{_MARKS[0]}\n{_MARKS[1]}\n{c.after}{_MARKS[2]}\n",
    "SEARCH/REPLACE named DIFF": lambda c: _search_replace(c, ("<<<<<<< ORIGINAL", "=======", ">>>>>>> UPDATED")),
}  # fmt: skip


OTHER_CONTENT = (
    "tabs become spaces", "spaces become tabs", "escaped for HTML", "added lines with a space",
    "last line cut in the middle", "first half only",
)  # fmt: skip
"""Forms whose added lines differ from the commit's. Such a text can be a complete diff of its own."""


def _reverse(change: Change) -> str:
    old, new = _lines(change)
    return "".join(difflib.unified_diff(new, old, f"a/{change.path}", f"b/{change.path}"))
