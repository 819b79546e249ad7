"""Count the ordinary files that a response to a request with a credential would not be allowed to contain.

Run: python -m benches.ordinary_files [--files 10000] [FOLDER ...]

A file that has nothing to do with the credential must not be withheld. The files are a repeatable sample of the given
folders, by default of the standard library and the installed packages, and random bytes. Files over 1 MiB are cut.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

from wasmrt.egress.leaks import DECODE_LIMIT_RULE, SECRET_RULE, LeakDetector

MIB = 1 << 20
KINDS = {
    "source": ".c .cpp .css .go .h .html .ini .java .js .json .md .pl .py .pyi .rs .rst .sh .toml .ts .txt .xml .yaml",
    "image": ".bmp .gif .ico .jpeg .jpg .png .svg .tif .tiff .webp",
    "font": ".otf .ttf .woff .woff2",
    "sound": ".flac .mp3 .oga .ogg .wav",
    "archive": ".gz .jar .npz .tgz .whl .xz .zip",
    "office": ".docx .odp .ods .odt .pdf .pptx .xlsx",
    "program": ".a .exe .o .pyc .so .wasm",
}
SUFFIXES = {suffix: kind for kind, suffixes in KINDS.items() for suffix in suffixes.split()}
RANDOM_SIZES = (64, 1000, 10_000, 100_000, MIB)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.ordinary_files")
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--files", type=int, default=10_000)
    options = parser.parse_args()
    folders = options.folders or [Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib")]
    random = Random(37)
    secret = "".join(random.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=40))
    scanner = LeakDetector().scanner({"token": secret}).partial
    tried, wrong, seconds, size = Counter[str](), Counter[str](), 0.0, 0
    for kind, name, data in contents(folders, options.files, random):
        start = time.process_time()
        rules = {match.rule for match in scanner.scan_bytes(data).matches}
        seconds, size = seconds + time.process_time() - start, size + len(data)
        tried[kind] += 1
        if DECODE_LIMIT_RULE in rules or any(rule.startswith(SECRET_RULE) for rule in rules):
            wrong[kind] += 1
            print(f"  withheld: {name} ({len(data)} bytes)", flush=True)
    for kind in sorted(tried):
        print(f"{kind:8} {wrong[kind]:5} of {tried[kind]:6} withheld")
    share = wrong.total() / max(1, tried.total())
    print(f"all      {wrong.total():5} of {tried.total():6} withheld, {share:.3%}; {size / 1e6 / seconds:.1f} MB/s")
    return int(share >= 0.001)


def contents(folders: list[Path], count: int, random: Random) -> Iterator[tuple[str, str, bytes]]:
    """Yield the kind, the name and the bytes of each file. Every kind gets an equal share, as far as it has files."""
    found = defaultdict[str, list[Path]](list)
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            kind = "program" if ".so." in path.name else SUFFIXES.get(path.suffix.lower())
            if kind and path.is_file() and not path.is_symlink():
                found[kind].append(path)
    share = count // (len(KINDS) + 1)
    for kind in sorted(found, key=lambda kind: len(found[kind])):
        for path in random.sample(found[kind], min(share, len(found[kind]))):
            with path.open("rb") as file:
                yield kind, str(path), file.read(MIB)
    for number in range(share):
        size = RANDOM_SIZES[number % len(RANDOM_SIZES)]
        yield "random", f"random bytes, number {number}", random.randbytes(size)


if __name__ == "__main__":
    sys.exit(main())
