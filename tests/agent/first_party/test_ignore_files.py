"""Ignore files: `file_search` finds the files that git lists, for random rules and folders."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt import PreparedTool

NAMES = ("a", "b", "ab", "a{b}", "{a,b}", ".x", "c d", "#a", "!b")
FOLDERS = ("", "a", "b", "a/b", "a/b/ab")
PATHS = st.lists(
    st.builds(lambda folder, name: f"{folder}/{name}.t".lstrip("/"), st.sampled_from(FOLDERS), st.sampled_from(NAMES)),
    min_size=1,
    max_size=12,
)
PIECES = (
    *("a", "b", "ab", "*", "**", "?", "[ab]", "[!a]", "[^b]", "[a-c]", "{a,b}", "a{b}", "{", "}", "\\{", ".x", "c d"),
    *("/", "/", "**/", "/**", "\\#a", "\\!b", "#", "\\", "\\\\", "[", "]", "[]a]", "[!]b]", "[^-b]", ".t", "*.t"),
    *(" ", "\\ ", "\t", "[[:alpha:]]", "[^[:punct:]]", "[[:other:]]"),
)
LINE = st.builds(
    lambda negated, pieces, end: f"{'!' if negated else ''}{''.join(pieces)}{end}",
    st.integers(0, 3).map(lambda number: number == 0),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4),
    st.sampled_from(["", "", "", "/", " ", ".t", "\r"]),
)
RULES = st.lists(LINE, max_size=5).map(lambda lines: "".join(f"{line}\n" for line in lines))


def listed_by_git(root: Path) -> set[str]:
    """Return the files that git does not ignore."""
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, check=True)
    return {name for name in done.stdout.decode().split("\0") if name}


@pytest.mark.ci("slow")
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths=PATHS, rules=st.dictionaries(st.sampled_from(FOLDERS), RULES, max_size=3), exclude=RULES)
def test_search_finds_the_files_that_git_does_not_ignore(
    root: Path, prepared: Callable[[str], PreparedTool], paths: list[str], rules: dict[str, str], exclude: str
) -> None:
    for old in root.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for folder in (".git/objects", ".git/refs", ".git/info"):
        (root / folder).mkdir(parents=True)
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git/info/exclude").write_bytes(exclude.encode())
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    for folder, text in rules.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / ".gitignore").write_bytes(text.encode())
    found = prepared("file_search").execute({"glob": "**", "max_results": 1000}).result
    assert {match["path"] for match in found["matches"]} == listed_by_git(root)
