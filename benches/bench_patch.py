"""Apply real commits as damaged diffs: right, refused and wrong, next to GNU patch and git apply.

The damage is what models do to diffs. Sources: the tolerances that Aider documents for unified diffs (line numbers are
ignored, blank context lines lose their space), the omitted line numbers of Codex patches, and Markdown code blocks.

Run: python -m benches.bench_patch REPOSITORY ... [--commits 100] [--more]
With clones of psf/requests, pallets/click, BurntSushi/ripgrep, expressjs/express and gin-gonic/gin, of 4,000 diffs:
wasmrt 4,000 right; patch 2,703 right and 742 wrong; git apply 1,538 right and 0 wrong.
With --more --commits 20, of 2,064 texts in 42 forms: 731 right, 1,333 refused, 0 wrong.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benches._patch_forms import FORMS as MORE_FORMS
from benches._patch_forms import OTHER_CONTENT, Change
from wasmrt import PreparedTool, ToolError, WasmRuntimeConfig, WasmToolRuntime

_HEAD = re.compile(r"(?m)^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_MAX_DIFF = 40_000


class Commit(NamedTuple):
    """The diff of a commit, and the files before and after it."""

    diff: str
    before: dict[str, str]
    after: dict[str, str]


def _with_heads(diff: str, line: int, old: int, new: int) -> str:
    def head(match: re.Match[str]) -> str:
        first, olds, second, news = (int(part or 1) for part in match.groups())
        return f"@@ -{max(1, first + line)},{max(0, olds + old)} +{max(1, second + line)},{max(0, news + new)} @@"

    return _HEAD.sub(head, diff)


FORMS: dict[str, Callable[[str], str]] = {
    "no last newline": lambda diff: diff.removesuffix("\n"),
    "counts too high": lambda diff: _with_heads(diff, 0, 2, 3),
    "counts too low": lambda diff: _with_heads(diff, 0, -1, -1),
    "bare @@": lambda diff: re.sub(r"(?m)^@@ -.*$", "@@", diff),
    "CRLF": lambda diff: diff.replace("\n", "\r\n"),
    "40 lines lower": lambda diff: _with_heads(diff, -40, 0, 0),
    "code block": lambda diff: f"The change:\n\n```diff\n{diff}```\n\nDone.\n",
    "blank lines cut": lambda diff: re.sub(r"(?m)^ $", "", diff),
}


def _git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", repository, *arguments], capture_output=True, check=True).stdout


def commits(repository: Path, most: int) -> Iterator[Commit]:
    """Yield commits that only change text files, spread over the history."""
    for name in _git(repository, "rev-list", "--no-merges", "HEAD").decode().split()[::3]:
        rows = (
            _git(repository, "diff-tree", "-r", "--no-commit-id", "--no-renames", "--raw", name).decode().splitlines()
        )
        parts = [(*row.split("\t")[0].split(), row.split("\t")[1]) for row in rows]
        if not 0 < len(parts) <= 8 or any(part[:2] != (":100644", "100644") or part[4] != "M" for part in parts):
            continue
        try:
            before, after = (
                {part[5]: _git(repository, "cat-file", "blob", part[side]).decode() for part in parts}
                for side in (2, 3)
            )
            diff = _git(repository, "diff-tree", "-p", "-r", "--no-commit-id", "--no-renames", name).decode()
        except UnicodeDecodeError:
            continue
        if len(diff) < _MAX_DIFF and "\r" not in diff:
            yield Commit(diff, before, after)
            most -= 1
        if not most:
            return


def judge(folder: Path, commit: Commit, apply: Callable[[], bool]) -> str:
    """Write the files of a commit, apply its diff, and compare the result."""
    for path, content in commit.before.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content.encode())
    applied = apply()
    found = {path: (folder / path).read_bytes().decode() for path in commit.before}
    if found == commit.after:
        return "right"
    return "wrong" if applied or found != commit.before else "refused"


def _apply_with(tool: PreparedTool, diff: str) -> bool:
    try:
        tool.execute({"diff": diff})
    except ToolError:
        return False
    return True


def _run(folder: Path, diff: str, *command: str) -> bool:
    return subprocess.run(command, cwd=folder, input=diff.encode(), capture_output=True).returncode == 0


def try_more(chosen: list[Commit]) -> int:
    """Print the results of other forms; return 1 if a result is not what the text says."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name, WasmToolRuntime(WasmRuntimeConfig(workspace=Path(name))) as runtime:
        folder, tool = Path(name), runtime.prepare_installed("apply_diff")
        for form, damage in MORE_FORMS.items():
            counts: Counter[str] = Counter()
            for commit in chosen:
                ((path, before),) = commit.before.items()
                diff = damage(Change(path, before, commit.after[path], commit.diff))
                if diff is not None:
                    counts[judge(folder, commit, lambda diff=diff: _apply_with(tool, diff))] += 1  # type: ignore[misc]
            wrong += counts["wrong"] * (form not in OTHER_CONTENT)
            print(f"{form}: {dict(counts)}" + (" (the text says something else)" if form in OTHER_CONTENT else ""))
    return 1 if wrong else 0


def main(arguments: list[str]) -> int:
    """Print a table of all forms; return 1 if a result of wasmrt is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--commits", type=int, default=100, help="of each repository")
    parser.add_argument("--more", action="store_true", help="other forms and formats, for wasmrt alone")
    options = parser.parse_args(arguments)
    chosen = [each for repository in options.repositories for each in commits(repository, options.commits)]
    if options.more:
        return try_more([commit for commit in chosen if len(commit.before) == 1])
    wrong = 0
    with tempfile.TemporaryDirectory() as name, WasmToolRuntime(WasmRuntimeConfig(workspace=Path(name))) as runtime:
        folder, tool = Path(name), runtime.prepare_installed("apply_diff")
        for form, damage in FORMS.items():
            counts: dict[str, Counter[str]] = {"wasmrt": Counter(), "patch": Counter(), "git": Counter()}
            for commit in chosen:
                diff = damage(commit.diff)
                counts["wasmrt"][judge(folder, commit, lambda diff=diff: _apply_with(tool, diff))] += 1  # type: ignore[misc]
                for program, command in (
                    ("patch", ("patch", "-p1", "-s", "-f", "--no-backup-if-mismatch", "-r", "-")),
                    ("git", ("git", "apply", "-")),
                ):
                    run = lambda diff=diff, command=command: _run(folder, diff, *command)  # noqa: E731
                    counts[program][judge(folder, commit, run)] += 1
            wrong += counts["wasmrt"]["wrong"]
            print(f"{form}: " + "; ".join(f"{program} {dict(found)}" for program, found in counts.items()))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
