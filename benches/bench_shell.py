"""The share of everyday command lines that the shell runs, asks about and refuses under a rule that allows it.

The lines are the examples of the tldr pages in `shell_pages.txt`, read from a copy of https://github.com/tldr-pages/tldr:
programs that agents use every day, and their usual subcommands. Placeholders for a program become `make`.

Run: python -m benches.bench_shell TLDR_FOLDER [--list]
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from wasmrt.agent.builtin.shell import Action
from wasmrt.agent.builtin.shell._decide import decide_command

PAGES = Path(__file__).with_name("shell_pages.txt").read_text().split()
FOLDERS = ("pages/common", "pages/linux")
MOST = {Action.REFUSE: 0.01, Action.ASK: 0.10}
_CHOICE = re.compile(r"\{\{\[[^|\]}]*\|([^\]}]*)\]\}\}")
_PLACEHOLDER = re.compile(r"\{\{([^{}|]*)[^{}]*\}\}")
_PROGRAM = re.compile(r"\b(program|command_name)\b|(?<= )command(?= |$)")
_KEY = re.compile("<[^<> ]+>")


def lines(folder: Path) -> Iterator[str]:
    """Yield the example lines of the pages; keys to press are omitted."""
    for page in PAGES:
        for file in (folder / below / f"{page}.md" for below in FOLDERS):
            if not file.exists():
                continue
            for line in file.read_text("utf-8").splitlines():
                if line.startswith("`") and line.endswith("`") and not _KEY.match(line[1:]):
                    text = _PLACEHOLDER.sub(r"\1", _CHOICE.sub(r"\1", line[1:-1]))
                    yield _PROGRAM.sub("make", text)


def main() -> int:
    """Print the shares; return 1 if more lines than allowed are refused or require an approval."""
    parser = argparse.ArgumentParser(prog="python -m benches.bench_shell")
    parser.add_argument("folder", type=Path, help="a copy of the tldr pages")
    parser.add_argument("--list", action="store_true", help="print each line that does not run")
    options = parser.parse_args()
    found = list(lines(options.folder))
    if not found:
        print(f"no pages in {options.folder}: name the folder of a copy of the tldr pages", file=sys.stderr)
        return 2
    counts: Counter[Action] = Counter()
    seconds = []
    for line in found:
        started = time.perf_counter()
        verdict = decide_command(line)
        seconds.append(time.perf_counter() - started)
        counts[verdict.action] += 1
        if options.list and verdict.action is not Action.RUN:
            print(f"{verdict.action:7}{line}  ({verdict.sentence})")
    print(f"{len(found):,} lines; a decision takes {statistics.median(seconds) * 1000:.1f} ms (median)")
    for action in Action:
        limit = f" (target: at most {MOST[action]:.0%})" if action in MOST else ""
        print(f"{action}: {counts[action] / len(found):.2%}{limit}")
    return any(counts[action] > most * len(found) for action, most in MOST.items())


if __name__ == "__main__":
    sys.exit(main())
