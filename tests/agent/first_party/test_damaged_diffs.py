"""Damaged diffs of random files: `apply_diff` makes exactly the intended file, or refuses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt import PreparedTool
from wasmrt.core.errors import ToolError

_HEAD = re.compile(r"(?m)^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def _with_heads(diff: str, line: int, old: int, new: int) -> str:
    def head(match: re.Match[str]) -> str:
        first, olds, second, news = (int(part or 1) for part in match.groups())
        return f"@@ -{max(0, first + line)},{max(0, olds + old)} +{max(0, second + line)},{max(0, news + new)} @@"

    return _HEAD.sub(head, diff)


_off = st.integers(-9, 9)
DAMAGES: st.SearchStrategy[Callable[[str], str]] = st.one_of(
    st.sampled_from(
        [
            lambda diff: diff,
            lambda diff: diff.removesuffix("\n"),
            lambda diff: re.sub(r"(?m)^@@ -.*@@$", "@@", diff),
            lambda diff: diff.replace("\n", "\r\n"),
            lambda diff: f"Done:\n```diff\n{diff}```\n",
            lambda diff: re.sub(r"(?m)^ $", "", diff),
        ]
    ),
    st.builds(lambda line, old, new: lambda diff: _with_heads(diff, line, old, new), _off, _off, _off),
)
LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-- x", "++ y", "@@ q", "def f():"]), min_size=1, max_size=20)


@pytest.mark.ci("slow")
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    old=LINES,
    new=LINES,
    above=st.lists(st.sampled_from("abz"), max_size=3),
    damage=DAMAGES,
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_damaged_diff_makes_the_intended_file_or_is_refused(
    root: Path,
    prepared: Callable[[str], PreparedTool],
    old: list[str],
    new: list[str],
    above: list[str],
    damage: Callable[[str], str],
    end: str,
) -> None:
    diff = "\n".join(difflib.unified_diff(old, new, "a/f", "b/f", lineterm="")) + "\n"
    before, after = ("".join(line + end for line in (*above, *lines)).encode() for lines in (old, new))
    (root / "f").write_bytes(before)
    try:
        prepared("apply_diff").execute({"diff": damage(diff)})
    except ToolError:
        after = before
    assert (root / "f").read_bytes() == after
