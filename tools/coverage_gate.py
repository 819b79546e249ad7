"""Combine the coverage data of a test run, and fail if a package is below its floor.

python tools/coverage_gate.py            combine, report every package, fail below a floor
python tools/coverage_gate.py --missing  also list the uncovered lines and branches of the whole package
python tools/coverage_gate.py --without wasmrt/egress/rates/_redis.py
                                         ignore a file whose tests could not run here

The floors are in pyproject.toml, under [tool.coverage-gate]; the settings are under [tool.coverage].
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Part:
    """A package with its subpackages: the number of lines and branches, and the uncovered ones."""

    name: str
    floor: float | None
    total: int = 0
    covered: int = 0
    missing: list[str] = field(default_factory=list)

    @property
    def percent(self) -> float:
        return 100.0 if not self.total else 100 * self.covered / self.total

    @property
    def holds(self) -> bool:
        return self.floor is None or (self.total > 0 and self.percent >= self.floor)

    def add(self, path: str, file: dict[str, Any]) -> None:
        """Add one file of coverage's JSON report."""
        summary = file["summary"]
        self.total += summary["num_statements"] + summary["num_branches"]
        self.covered += summary["covered_lines"] + summary["covered_branches"]
        self.missing += [f"{path}:{line}" for line in file["missing_lines"]]
        seen = set(file["missing_lines"])
        self.missing += [
            f"{path}:{start} never goes to {'its end' if end <= 0 else end}"
            for start, end in file["missing_branches"]
            if start not in seen
        ]


def measured(data_file: str | None) -> dict[str, dict[str, Any]]:
    """Return the files of coverage's JSON report, for the data of all processes together."""
    cov = coverage.Coverage(data_file or ".coverage", config_file="pyproject.toml")
    cov.combine()  # deletes the combined files, so that the next run starts empty
    cov.save()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        cov.json_report(outfile=str(report))
        files: dict[str, dict[str, Any]] = json.loads(report.read_text())["files"]
    return files


def parts(files: dict[str, dict[str, Any]], gate: dict[str, Any]) -> list[Part]:
    """Return the whole package, every package with a floor, and every other package."""
    whole = Part("all of it", gate["overall"])
    floors: dict[str, float] = gate["packages"]
    found = {name: Part(name, floor) for name, floor in floors.items()}
    for path, file in sorted(files.items()):
        whole.add(path, file)
        # The module itself, or the nearest parent package, with a floor.
        name = max(
            (known for known in floors if f"{path}/".startswith(f"{known}/")), key=len, default=str(Path(path).parent)
        )
        found.setdefault(name, Part(name, None)).add(path, file)
    return [*found.values(), whole]


def told(found: Iterable[Part]) -> Iterator[str]:
    """Yield one line for each part."""
    for part in found:
        floor = "" if part.floor is None else f"floor {part.floor:g} %"
        verdict = "" if part.holds else "  TOO LOW" if part.total else "  NOT MEASURED"
        yield f"{part.percent:7.2f} %  {part.name:<32} {part.total:>6} lines and branches  {floor}{verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--missing", action="store_true", help="list everything that is not covered")
    parser.add_argument("--without", action="append", default=[], help="a file to ignore")
    parser.add_argument("--data-file", help="the data file; .coverage by default")
    asked = parser.parse_args()
    os.chdir(ROOT)
    gate = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage-gate"]
    files = measured(asked.data_file)
    for path in asked.without:
        del files[path]
    found = parts(files, gate)
    print("\n".join(told(found)))
    shown = found[-1:] if asked.missing else [part for part in found[:-1] if not part.holds]
    for part in shown:
        print("\n".join(part.missing))
    return 0 if all(part.holds for part in found) else 1


if __name__ == "__main__":
    sys.exit(main())
