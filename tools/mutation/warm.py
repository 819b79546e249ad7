"""Try mutants of functions in forks of one process that has imported the project and collected its tests.

A fork replaces the code of the mutated function and runs the selected tests, without imports and collection for each
mutant. Code that runs on import, such as constants, cannot be changed in this way, and tests that start processes do
not see the change. `runner` handles both cases.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Protocol

import pytest
from _pytest.main import pytest_runtestloop as run_tests

from tools.mutation.children import outcome_of
from tools.mutation.mutants import Mutant
from tools.mutation.selection import Bounds, TestMap
from tools.mutation.swap import changed_functions, live_functions

_BOUNDS = Bounds(most_seconds=5.0, most_tests=60)
_THOROUGH = Bounds(most_seconds=120.0, most_tests=3000)
_START_SECONDS = 5.0
_TEST_SECONDS = 6
_GIVEN_SECONDS = 30.0
_CHECKED = "checked.json"
NOT_WARM = "not for a fork"


class Asked(Protocol):
    """The options of the command line."""

    tests: Sequence[str]
    thorough: bool


Tell = Callable[[Mutant, str, float], bool]
"""Takes a mutant's outcome and duration; returns False to stop."""


def try_warm(root: Path, kept: Path, mutants: Sequence[Mutant], number: int, tell: Tell, asked: Asked) -> None:
    """Try the mutants that forks support, with given or recorded tests; report the others as `NOT_WARM`."""
    tests, given = TestMap(root, kept), asked.tests
    folder = Path(tempfile.mkdtemp(prefix="wasmrt-mutation-"))
    os.environ |= {"TMPDIR": str(folder), "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis")}
    tempfile.tempdir = None  # otherwise the module would keep this value
    loop = _Loop(root, kept / f"{number}-{_CHECKED}", folder, tests, mutants, tell, asked)
    before = os.dup(1), os.dup(2)
    log = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        files = given or sorted({test.partition("::")[0] for mutant in mutants for test in tests.select(mutant).tests})
        longest = _GIVEN_SECONDS if given else _TEST_SECONDS
        options = ["-q", "-p", "no:cacheprovider", "--tb=line", f"--timeout={longest}", f"--basetemp={folder}/t"]
        code = pytest.main([*options, *files], plugins=[loop])
    finally:
        os.dup2(before[0], 1)
        os.dup2(before[1], 2)
        shutil.rmtree(folder, ignore_errors=True)
    if not loop.ended:
        raise SystemExit(f"the tests could not be collected ({code}): {folder.with_suffix('.log')}")


def _load_all() -> None:
    """Import every module of the project, because code that a test imports later could not be changed before."""
    package = importlib.import_module("wasmrt")
    for module in pkgutil.walk_packages(package.__path__, "wasmrt."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


class _Loop:
    """Replaces pytest's loop over its tests."""

    def __init__(
        self,
        root: Path,
        checked: Path,
        folder: Path,
        tests: TestMap,
        mutants: Sequence[Mutant],
        tell: Tell,
        asked: Asked,
    ) -> None:
        self._root, self._checked, self._folder, self._tests, self._tell = root, checked, folder, tests, tell
        self._mutants = mutants
        self._given = asked.tests
        self._bounds = _THOROUGH if asked.thorough else _BOUNDS
        self._sources = {mutant.module: (root / mutant.module).read_text() for mutant in mutants}  # the imported source
        self.ended = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            return True
        items = {item.nodeid: item for item in session.items}
        _load_all()
        functions = live_functions()
        gc.collect()
        gc.freeze()
        if not self._given:
            self._check(session, items)
        elif self._try(session, list(items.values()), (), _GIVEN_SECONDS) != "survived":
            raise pytest.UsageError("the given tests fail or take too long without a mutant")
        for mutant in self._mutants:
            changed = changed_functions(
                str(self._root / mutant.module), self._sources[mutant.module], mutant.source, functions
            )
            if changed is None:
                self._tell(mutant, NOT_WARM, 0.0)
                continue
            started = time.monotonic()
            selection = self._tests.select(mutant, **self._bounds)
            chosen = [items[test] for test in selection.tests if test in items]
            seconds = selection.seconds
            if self._given:
                chosen, seconds = list(items.values()), _GIVEN_SECONDS
            outcome = "untested" if not chosen else self._try(session, chosen, changed, seconds)
            if not self._tell(mutant, outcome, time.monotonic() - started):
                break
        self.ended = True
        return True

    def _try(
        self,
        session: pytest.Session,
        chosen: list[pytest.Item],
        changed: Sequence[tuple[FunctionType, CodeType]],
        seconds: float,
    ) -> str:
        child = os.fork()
        if child == 0:
            _run(session, chosen, changed)
        outcome = outcome_of(child, _START_SECONDS + 2 * seconds)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        return outcome

    def _check(self, session: pytest.Session, items: dict[str, pytest.Item]) -> None:
        """Run each new test once without a change, because a test that fails in a fork cannot kill a mutant."""
        known: dict[str, float | None] = json.loads(self._checked.read_text()) if self._checked.exists() else {}
        wanted = {test for mutant in self._mutants for test in self._tests.select(mutant, **self._bounds).tests}
        new = [items[test] for test in sorted(wanted & items.keys()) if test not in known]
        for at in range(0, len(new), 200):
            part = new[at : at + 200]
            known |= dict.fromkeys(item.nodeid for item in part)
            told = self._checked.with_suffix(".now")
            told.write_text("")
            child = os.fork()
            if child == 0:
                session.config.pluginmanager.register(_Recorder(told))
                _run(session, part, ())
            outcome_of(child, 600)
            for line in told.read_text().splitlines():
                test, seconds = json.loads(line)
                known[test] = seconds
            self._checked.write_text(json.dumps(known))
        self._tests.use({test: float("inf") if known.get(test) is None else float(known[test] or 0) for test in wanted})


class _Recorder:
    """Records the durations of passing tests."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        taken = self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.outcome != "passed":
            self._seconds[report.nodeid] = float("-inf")
        elif report.when == "teardown" and taken >= 0:
            with self._path.open("a") as file:
                file.write(json.dumps([report.nodeid, taken]) + "\n")


def _run(session: pytest.Session, chosen: list[pytest.Item], changed: Sequence[tuple[FunctionType, CodeType]]) -> None:
    """Run tests in a fork, up to the first failure if there is a change. Never returns."""
    code = 3
    try:
        os.setsid()
        for function, mutated in changed:
            function.__code__ = mutated
        session.items = chosen
        session.config.option.maxfail = 1 if changed else 0
        with contextlib.suppress(session.Failed):
            run_tests(session)
        code = 1 if session.testsfailed else 0
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        os._exit(code)
