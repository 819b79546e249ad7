"""Diffs that may be incomplete or repeated: `apply_diff` refuses them, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wasmrt import PreparedTool
from wasmrt.core.errors import ToolError

TEXT = "".join(f"line {number}\n" for number in range(1, 9))
HEAD = "--- a/f\n+++ b/f\n"
HUNK = "@@ -2,2 +2,3 @@\n line 2\n+new\n line 3\n"
# After this hunk, its context is in the file again.
REPEATING = "@@ -7,2 +7,4 @@\n line 7\n line 8\n+line 7\n+line 8\n"


@pytest.fixture
def apply(root: Path, prepared: Callable[[str], PreparedTool]) -> Callable[[str], str]:
    def result(diff: str) -> str:
        (root / "f").write_text(TEXT)
        try:
            prepared("apply_diff").execute({"diff": diff})
        except ToolError as error:
            assert (root / "f").read_text() == TEXT
            return error.message
        return (root / "f").read_text()

    return result


def test_the_same_hunk_twice_is_refused(apply: Callable[[str], str]) -> None:
    assert apply(HEAD + REPEATING) == TEXT + "line 7\nline 8\n"
    for hunks in (REPEATING * 2, HUNK + REPEATING + HUNK, HUNK * 2):
        assert "are the same: remove one" in apply(HEAD + hunks)


def test_a_diff_that_ends_within_its_added_lines_is_refused(apply: Callable[[str], str]) -> None:
    whole = "@@ -2,2 +2,4 @@\n line 2\n+one\n+two\n line 3\n"
    assert "one\ntwo\n" in apply(HEAD + whole)
    assert "one\ntwo\n" in apply((HEAD + whole).removesuffix("\n"))
    for cut in ("@@ -2,2 +2,4 @@\n line 2\n+one\n+t", "@@ -2,2 +2,4 @@\n line 2\n+one"):
        assert "seems cut off in the hunk at line 3" in apply(HEAD + cut)


def test_wrong_counts_alone_do_not_refuse_a_diff(apply: Callable[[str], str]) -> None:
    for counts in ("-2,9 +2,9", "-2,1 +2,1"):
        assert "new\n" in apply(HEAD + HUNK.replace("-2,2 +2,3", counts))
    assert "one\n" in apply(HEAD + "@@ -8,9 +8,9 @@\n line 8\n+one\n")
    assert "one\n" in apply(f"```diff\n{HEAD}@@ -8,9 +8,9 @@\n line 8\n+one\n```")
