"""Run the tests of mutants one after the other, each in a separate process, on a copy of the project.

Only the copy is changed, so that an interrupted run does not affect the checkout.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

from tools.mutation.children import outcome_of
from tools.mutation.mutants import Mutant
from tools.mutation.selection import Selection

_START_SECONDS = 30.0
_REWRITTEN = "ignore:Module already imported"  # imported here before pytest rewrites its assertions
# Imported once, before the processes are forked. No wasmrt modules, because the mutated module must be imported later.
_PRELOADED = (
    "hypothesis",
    "trustme",
    "wasmtime",
    "h11",
    "click",
    "cryptography.fernet",
    "jsonschema_rs",
    "re2",
    "rich",
)


class Runner:
    """A copy of the project in `folder`, for one mutant at a time."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._tree = folder / "tree"
        self.log = folder / "log"
        shutil.rmtree(folder, ignore_errors=True)
        self._tree.mkdir(parents=True)
        _copy(root, self._tree)
        os.chdir(self._tree)
        sys.path[0] = str(self._tree)
        sys.dont_write_bytecode = True
        os.environ |= {"PYTHONPATH": str(self._tree), "PYTHONDONTWRITEBYTECODE": "1"}
        for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
            os.environ.pop(name, None)
        subprocess.run([sys.executable, "-m", "compileall", "-q", "wasmrt", "tests"], check=False)
        importlib.import_module("pytest")
        for module in _PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)

    def run(self, mutant: Mutant, selection: Selection) -> str:
        """Return `killed`, `survived`, `timeout`, `memory`, or `untested` if no test runs the line."""
        if not selection.tests:
            return "untested"
        path = self._tree / mutant.module
        original = path.read_text()
        _forget_compiled(path)
        try:
            path.write_text(mutant.source)
            return self._tests(selection)
        finally:
            path.write_text(original)

    def passes(self, selection: Selection) -> bool:
        """Return whether these tests pass without a mutant."""
        return self._tests(selection) == "survived"

    def _tests(self, selection: Selection) -> str:
        child = os.fork()
        if child == 0:
            _be_pytest(selection.tests, self.log)
        return outcome_of(child, _START_SECONDS + 4 * selection.seconds)


def _be_pytest(tests: tuple[str, ...], log: Path) -> None:
    os.setsid()
    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    import pytest

    code = 3
    try:
        code = int(
            pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line", "-W", _REWRITTEN, *tests])
        )
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _copy(root: Path, tree: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source = root / name
        if source.is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / name)
    built = root / "tests/sandbox/guests/.built"
    if built.exists():
        (tree / "tests/sandbox/guests/.built").symlink_to(built)
    beside = root.parent / "shared"
    if beside.exists():
        (tree.parent / "shared").symlink_to(beside.resolve())


def _forget_compiled(path: Path) -> None:
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
