"""Change the code by small mistakes, one at a time, and see whether a test fails: what survives is not tested.

python -m tools.mutation [PATH ...]       try every mutant of these modules, or of those in pyproject.toml
python -m tools.mutation --map            note anew which test runs which line, when tests have changed
python -m tools.mutation --again [PATH]   try those anew that have survived
python -m tools.mutation --thorough ...   with every test that runs the line, however long they take
python -m tools.mutation --cold ...       with everything loaded anew: tests that start processes count, too
python -m tools.mutation --tests TEST ... with these tests and no others
python -m tools.mutation --report         tell what earlier runs found

Fails where a mutant survives that tools/mutation/survivors.toml does not list with its reason, and where it lists one
that does not survive. What was found is kept in .mutation/, so that a run can be ended and taken up again.
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
    """Return what pyproject.toml says: the modules to change, and the tests that may find it."""
    table: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutation"]
    return table


def chosen_mutants(paths: Sequence[str]) -> list[Mutant]:
    """Every mutant of the modules below `paths`, or of those in pyproject.toml."""
    found: dict[str, Path] = {}
    for path in paths or settings()["modules"]:
        place = ROOT / path
        if not place.exists():
            raise SystemExit(f"there is no {path}")
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            found[str(file.relative_to(ROOT))] = file
    return [mutant for name, file in found.items() for mutant in mutants_of(file, name)]


def known_results() -> dict[str, str]:
    """The outcome of each mutant that was tried, by its id; of several runs the last."""
    if not RESULTS.exists():
        return {}
    return {row["id"]: row["outcome"] for row in map(json.loads, RESULTS.read_text().splitlines())}


def try_all(mutants: Sequence[Mutant], asked: argparse.Namespace) -> None:
    """Try mutants in `asked.jobs` processes and write every outcome down."""
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
        raise SystemExit("a worker broke")


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
                raise SystemExit(f"the tests of {mutant.module} do not pass without a mutant: {runner.log}")
        started = time.monotonic()
        outcome = runner.run(mutant, given or tests.select(mutant, **bounds))
        if not tell(mutant, outcome, time.monotonic() - started):
            break


def listed_survivors() -> dict[Key, str]:
    """The survivors that somebody has looked at, with the reason why they may."""
    modules = tomllib.loads(LISTED.read_text()) if LISTED.exists() else {}
    return {
        (module, row["function"], row["change"], row.get("nth", 1)): row["reason"]
        for module, rows in modules.items()
        for row in rows["survivors"]
    }


def report(mutants: Iterable[Mutant]) -> int:
    """Tell what is known of these mutants; 1 where the list of survivors is not what survives."""
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
        print(f"listed, and does not survive: {module} {function}: {change} (no. {nth})")
    return 1 if unlisted or stale else 0


def _is_stale() -> bool:
    """Return True where a file is newer than the map: its lines may be others by now."""
    made = (KEPT / ".coverage").stat().st_mtime
    files = (file for folder in ("wasmrt", "tests") for file in (ROOT / folder).rglob("*.py"))
    return any(file.stat().st_mtime > made for file in files)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", help="modules or packages; with --map, tests")
    parser.add_argument("--map", action="store_true", help="note which test runs which line")
    parser.add_argument("--again", action="store_true", help="try those anew that have survived")
    parser.add_argument("--thorough", action="store_true", help="run every test of a line")
    parser.add_argument("--tests", action="append", default=[], help="tests to run instead of those that run the line")
    parser.add_argument("--cold", action="store_true", help="load everything anew: tests of commands count")
    parser.add_argument("--minutes", type=float, default=600, help="then begin no more; the next run goes on")
    parser.add_argument("--report", action="store_true", help="try none")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    KEPT.mkdir(exist_ok=True)
    if asked.map or not (KEPT / ".coverage").exists():
        make_map(ROOT, KEPT, *((asked.paths if asked.map else ()) or settings()["tests"]))
    if asked.map:
        return 0
    if _is_stale():
        print("code or tests have changed since the map was made: --map makes it anew", file=sys.stderr)
    mutants = chosen_mutants(asked.paths)
    if not asked.report:
        results = known_results()
        wanted = ("not tried", NOT_WARM, *(SURVIVED if asked.again else ()))
        try_all([m for m in mutants if results.get(m.id, "not tried") in wanted], asked)
    return report(mutants)


if __name__ == "__main__":
    sys.exit(main())
