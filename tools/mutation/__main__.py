"""Change the code by small mistakes, one at a time, and check that a test fails. Surviving mutants are untested code.

python -m tools.mutation [PATH ...]       try every mutant of these modules, or of the modules in pyproject.toml
python -m tools.mutation --map            record again which test runs which line, after tests have changed
python -m tools.mutation --again [PATH]   try the surviving mutants again
python -m tools.mutation --thorough ...   with every test that runs the line, regardless of duration
python -m tools.mutation --cold ...       in fresh processes, which includes tests that start processes
python -m tools.mutation --tests TEST ... only with these tests
python -m tools.mutation --report         report the results of earlier runs

Fails if a surviving mutant is not listed with a reason in tools/mutation/survivors.toml, and if a listed mutant does
not survive. Results are stored in .mutation/, so that an interrupted run can be continued.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tools.mutation.mutants import Mutant, mutants_of
from tools.mutation.runner import Runner
from tools.mutation.selection import MOST_SECONDS, MOST_TESTS, Bounds, Selection, TestMap, make_map
from tools.mutation.warm import NOT_WARM, Tell, try_warm

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".mutation"
RESULTS = KEPT / "results.jsonl"
LISTED = Path(__file__).with_name("survivors.toml")
THOROUGH_SECONDS, THOROUGH_TESTS = 600.0, 3000
GIVEN_SECONDS = 60.0
SURVIVED = ("survived", "untested")
DEAD = ("killed", "timeout", "memory")

Key = tuple[str, str, str, int]


def settings() -> dict[str, list[str]]:
    """Return the settings in pyproject.toml: the modules to change, and the tests to run."""
    table: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutation"]
    return table


def chosen_mutants(paths: Sequence[str]) -> list[Mutant]:
    """Return every mutant of the modules below `paths`, or of the modules in pyproject.toml."""
    found: dict[str, Path] = {}
    for path in paths or settings()["modules"]:
        place = ROOT / path
        if not place.exists():
            raise SystemExit(f"there is no {path}")
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            found[str(file.relative_to(ROOT))] = file
    return [mutant for name, file in found.items() for mutant in mutants_of(file, name)]


def known_results() -> dict[str, str]:
    """Return the most recent outcome of each tried mutant, by its ID."""
    if not RESULTS.exists():
        return {}
    return {row["id"]: row["outcome"] for row in map(json.loads, RESULTS.read_text().splitlines())}


def try_all(mutants: Sequence[Mutant], asked: argparse.Namespace) -> None:
    """Try mutants in `asked.jobs` processes and record every outcome."""
    until = time.monotonic() + 60 * asked.minutes
    if not asked.cold:
        known = known_results()
        _in_processes(_work_warm, [m for m in mutants if known.get(m.id) != NOT_WARM], asked, until)
        known = known_results()
        mutants = [m for m in mutants if known.get(m.id) == NOT_WARM]
    _in_processes(_work_cold, mutants, asked, until)


def _in_processes(
    work: Callable[[Sequence[Mutant], int, argparse.Namespace, Tell], None],
    mutants: Sequence[Mutant],
    asked: argparse.Namespace,
    until: float,
) -> None:
    processes = [
        multiprocessing.Process(target=_work, args=(work, mutants[at :: asked.jobs], at, asked, until))
        for at in range(min(asked.jobs, len(mutants)))
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a worker process failed")


def _work(
    work: Callable[[Sequence[Mutant], int, argparse.Namespace, Tell], None],
    mutants: Sequence[Mutant],
    number: int,
    asked: argparse.Namespace,
    until: float,
) -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)

    def tell(mutant: Mutant, outcome: str, seconds: float) -> bool:
        with RESULTS.open("a") as file:
            file.write(json.dumps({"id": mutant.id, "outcome": outcome, "seconds": round(seconds, 2)}) + "\n")
        if outcome in SURVIVED:
            print(outcome, mutant, file=out)
        return time.monotonic() < until

    work(mutants, number, asked, tell)


def _work_warm(mutants: Sequence[Mutant], number: int, asked: argparse.Namespace, tell: Tell) -> None:
    try_warm(ROOT, KEPT, mutants, number, tell, asked)


def _work_cold(mutants: Sequence[Mutant], number: int, asked: argparse.Namespace, tell: Tell) -> None:
    tests = TestMap(ROOT, KEPT)
    folder = Path(tempfile.gettempdir()) / f"wasmrt-mutation-{os.getuid()}-{number}"
    runner = Runner(ROOT, folder)
    bounds = Bounds(
        most_seconds=THOROUGH_SECONDS if asked.thorough else MOST_SECONDS,
        most_tests=THOROUGH_TESTS if asked.thorough else MOST_TESTS,
    )
    given = Selection(tuple(asked.tests), GIVEN_SECONDS) if asked.tests else None
    checked: set[str] = set()
    for mutant in mutants:
        if mutant.module not in checked:
            checked.add(mutant.module)
            of_module = [other for other in mutants if other.module == mutant.module]
            if not runner.passes(given or tests.select_for(of_module)):
                raise SystemExit(f"the tests of {mutant.module} fail without a mutant: {runner.log}")
        started = time.monotonic()
        outcome = runner.run(mutant, given or tests.select(mutant, **bounds))
        if not tell(mutant, outcome, time.monotonic() - started):
            break


def listed_survivors() -> dict[Key, str]:
    """Return the reviewed survivors with the reasons why they are accepted."""
    modules = tomllib.loads(LISTED.read_text()) if LISTED.exists() else {}
    return {
        (module, row["function"], row["change"], row.get("nth", 1)): row["reason"]
        for module, rows in modules.items()
        for row in rows["survivors"]
    }


def report(mutants: Iterable[Mutant]) -> int:
    """Report the results of these mutants; return 1 if the list of survivors differs from the survivors."""
    results, listed = known_results(), listed_survivors()
    counted: Counter[str] = Counter()
    by_module: dict[str, Counter[str]] = {}
    unlisted: list[Mutant] = []
    modules: set[str] = set()
    surviving: set[Key] = set()
    for mutant in mutants:
        outcome = results.get(mutant.id, "not tried")
        modules.add(mutant.module)
        counted[outcome] += 1
        by_module.setdefault(mutant.module, Counter())[outcome] += 1
        if outcome not in DEAD:
            surviving.add(mutant.key)
            if outcome in SURVIVED and mutant.key not in listed:
                unlisted.append(mutant)
    for module, outcomes in by_module.items():
        print(f"{module}: {', '.join(f'{count} {outcome}' for outcome, count in sorted(outcomes.items()))}")
    print("all:", ", ".join(f"{count} {outcome}" for outcome, count in sorted(counted.items())))
    for mutant in unlisted:
        print("not listed:", mutant)
    stale = [key for key in listed if key[0] in modules and key not in surviving]
    for module, function, change, nth in stale:
        print(f"listed, but does not survive: {module} {function}: {change} (no. {nth})")
    return 1 if unlisted or stale else 0


def _is_stale() -> bool:
    """Return whether a file is newer than the map, whose line numbers may then be wrong."""
    made = (KEPT / ".coverage").stat().st_mtime
    files = (file for folder in ("wasmrt", "tests") for file in (ROOT / folder).rglob("*.py"))
    return any(file.stat().st_mtime > made for file in files)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", help="modules or packages; with --map, tests")
    parser.add_argument("--map", action="store_true", help="record which test runs which line")
    parser.add_argument("--again", action="store_true", help="try the surviving mutants again")
    parser.add_argument("--thorough", action="store_true", help="run every test of a line")
    parser.add_argument("--tests", action="append", default=[], help="tests to run instead of the recorded ones")
    parser.add_argument("--cold", action="store_true", help="use fresh processes, which includes tests of commands")
    parser.add_argument("--minutes", type=float, default=600, help="stop after this time; the next run continues")
    parser.add_argument("--report", action="store_true", help="only report earlier results")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    KEPT.mkdir(exist_ok=True)
    if asked.map or not (KEPT / ".coverage").exists():
        make_map(ROOT, KEPT, *((asked.paths if asked.map else ()) or settings()["tests"]))
    if asked.map:
        return 0
    if _is_stale():
        print("code or tests have changed since the map was recorded; record it again with --map", file=sys.stderr)
    mutants = chosen_mutants(asked.paths)
    if not asked.report:
        results = known_results()
        wanted = ("not tried", NOT_WARM, *(SURVIVED if asked.again else ()))
        try_all([m for m in mutants if results.get(m.id, "not tried") in wanted], asked)
    return report(mutants)


if __name__ == "__main__":
    sys.exit(main())
