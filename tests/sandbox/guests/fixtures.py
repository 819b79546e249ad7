"""The `guest` fixture: a component's bytes by name, or a skip that names the toolchain; tests/conftest.py loads it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.sandbox.guests.build import Missing, build
from tests.skips import skips

_SKIPPED = "guest not built: "
_PREPARES = os.environ.get("WASMRT_GUESTS_PREPARE") == "1"
_BUILDS = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build every guest beside the first tests, where all are built anyway: compilers would hold up those that ask."""
    if _PREPARES and not hasattr(session.config, "workerinput") and not session.config.option.collectonly:
        session.config.stash[_BUILDS] = subprocess.Popen(
            [sys.executable, "-m", "tests.sandbox.guests.build", "--prepare"],
            cwd=Path(__file__).parents[3], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
        )  # fmt: skip


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the builds that go on, with their compilers."""
    builds = session.config.stash.get(_BUILDS, None)
    if builds is not None:
        with suppress(ProcessLookupError):
            os.killpg(builds.pid, signal.SIGKILL)
        builds.wait()


@pytest.fixture(scope="session")
def guest() -> Callable[[str], bytes]:
    """`guest("rust")` is the component's bytes. Names are the keys of `tests.sandbox.guests.build.GUESTS`.

    With WASMRT_GUESTS_PREPARE=1, as in CI, toolchains that the registries have are fetched first.
    """

    def component(name: str) -> bytes:
        made = build(name, prepare=_PREPARES)
        if isinstance(made, Missing):
            pytest.skip(f"{_SKIPPED}{name}, toolchain {made.toolchain} missing: {made.reason}")
        return made.read_bytes()

    return component


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for why in sorted(skips(terminalreporter, _SKIPPED)):
        terminalreporter.write_line(why, red=True)
