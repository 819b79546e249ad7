"""file_search next to `grep -r` in a tree of 50,000 small files, in one run.

Run: python -m benches.bench_search [FOLDER]

FOLDER is searched instead of a generated tree. grep runs first, so that both read files from the page cache.
file_search reads files for at most 30 seconds, at most 20,000, and returns the number of the others (`not_searched`).
On two busy cores it took about 50 times as long as grep for each file: every file is a request to the host.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from wasmrt import WasmRuntimeConfig, WasmToolRuntime

_FOLDERS = 1_000
_FILES = 50
_PATTERN = "needle_here"
_ROUNDS = 3
_WORDS = [f"{verb}_{noun}" for verb in ("read", "write", "parse", "close") for noun in ("node", "file", "line", "path")]


def generate(root: Path) -> None:
    """Write source-like files of 5 to 60 lines; one in a thousand contains the pattern."""
    chance = random.Random(5)
    for number in range(_FOLDERS):
        folder = root / f"module{number // 40:02}" / f"part{number % 40:02}"
        folder.mkdir(parents=True)
        for index in range(_FILES):
            lines = ["    " + " ".join(chance.choices(_WORDS, k=6)) for _ in range(chance.randint(5, 60))]
            if not chance.randrange(1000):
                lines.append(f"    {_PATTERN} = 1")
            (folder / f"file{index:02}.py").write_text("\n".join(lines) + "\n")


def compare(root: Path) -> None:
    """Print the time and the matches of both, and their ratio for each file read."""
    command = ["grep", "-rn", _PATTERN, "."]
    subprocess.run(command, cwd=root, capture_output=True, check=False)
    files = sum(path.is_file() for path in root.rglob("*"))
    with WasmToolRuntime(WasmRuntimeConfig(workspace=root)) as runtime:
        search = runtime.prepare_installed("file_search")
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            grep = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
            middle = time.perf_counter()
            found = search.execute({"pattern": _PATTERN, "max_results": 1000}).result
            theirs, ours = middle - start, time.perf_counter() - middle
            read = found["files_searched"]
            left = found.get("not_searched", found.get("not_searched_at_least", 0))
            print(
                f"grep {theirs:.2f} s, {files} files, {len(grep.stdout.splitlines())} matches; "
                f"file_search {ours:.2f} s, {read} files, {len(found['matches'])} matches, {left} not searched: "
                f"{ours / read / (theirs / files):.0f} times a file"
            )


def main(arguments: list[str]) -> int:
    """Compare both in the given folder, or in a generated one."""
    if arguments:
        compare(Path(arguments[0]))
        return 0
    with tempfile.TemporaryDirectory() as name:
        generate(Path(name))
        compare(Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
