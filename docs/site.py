"""Build the documentation site: `python -m docs.site FOLDER`, with the packages of the dependency group `site`.

The pages are the Markdown files that README reaches by links, so their links work in the repository and on the site.
The page of the Python interface is generated from the docstrings of the public names.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import wasmrt

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")
_REFERENCE = "docs/python.md"


def linked_files(start: Path) -> Iterator[Path]:
    """Yield `start` and every file that it reaches by links, in the order of the links.

    Raises:
        FileNotFoundError: a link names no file.
    """
    seen, left = set(), [start.resolve()]
    while left:
        file = left.pop(0)
        if file in seen:
            continue
        seen.add(file)
        yield file
        if file.suffix == ".md":
            left += [(file.parent / link).resolve(strict=True) for link in _LINK.findall(file.read_text("utf-8"))]


def reference() -> str:
    """Return the page of the public names, which the generator fills from their docstrings."""
    names = "\n".join(f"::: wasmrt.{name}" for name in wasmrt.__all__)
    return f"# Python reference\n\nThe public names of `wasmrt`, generated from their docstrings.\n\n{names}\n"


def build(folder: Path) -> None:
    """Build the site into a folder; a broken link or an undocumented page is an error."""
    with tempfile.TemporaryDirectory(prefix="wasmrt-site-") as made:
        pages = Path(made) / "pages"
        for file in linked_files(ROOT / "README.md"):
            copy = pages / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        (pages / _REFERENCE).write_text(reference(), "utf-8")
        config = Path(made) / "mkdocs.yml"
        shutil.copyfile(ROOT / "docs/mkdocs.yml", config)
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(config)]
        env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
        subprocess.run([*command, "--site-dir", str(folder.resolve())], env=env, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder that the site is written to")
    build(parser.parse_args().folder)


if __name__ == "__main__":
    main()
