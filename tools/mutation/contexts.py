"""A pytest plugin that records which test runs which line, in the test's own process and in child processes.

    COVERAGE_PROCESS_START=pyproject.toml python -m pytest -p tools.mutation.contexts

Coverage gets the test's node ID as its context. The duration of each test is written to the file in
WASMRT_TEST_SECONDS.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

_CONFIG = "COVERAGE_PROCESS_CONFIG"
_seconds: dict[str, float] = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    measured = coverage.Coverage.current()
    before = os.environ.get(_CONFIG)
    if measured is not None:
        measured.switch_context(item.nodeid)
    if before is not None:
        os.environ[_CONFIG] = _with_context(before, item.nodeid)
    yield
    if measured is not None:
        measured.switch_context("")
    if before is not None:
        os.environ[_CONFIG] = before


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _seconds[report.nodeid] = float("inf")  # a failing test cannot kill a mutant


def pytest_sessionfinish() -> None:
    Path(os.environ["WASMRT_TEST_SECONDS"]).write_text(json.dumps(_seconds))


def _with_context(config: str, context: str) -> str:
    settings = json.loads(base64.b64decode(config))
    settings["context"] = context
    return base64.b64encode(json.dumps(settings).encode()).decode()
