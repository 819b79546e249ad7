"""The `guest` fixture: a component's bytes by name, or a skip that names the toolchain; tests/conftest.py loads it."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.guests.build import Missing, build
from tests.skips import skips

_SKIPPED = "guest not built: "


@pytest.fixture(scope="session")
def guest() -> Callable[[str], bytes]:
    """`guest("rust")` is the component's bytes. Names are the keys of `tests.guests.build.GUESTS`.

    With WASMRT_GUESTS_PREPARE=1, as in CI, toolchains that the registries have are fetched first.
    """

    def component(name: str) -> bytes:
        made = build(name, prepare=os.environ.get("WASMRT_GUESTS_PREPARE") == "1")
        if isinstance(made, Missing):
            pytest.skip(f"{_SKIPPED}{name}, toolchain {made.toolchain} missing: {made.reason}")
        return made.read_bytes()

    return component


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for why in sorted(skips(terminalreporter, _SKIPPED)):
        terminalreporter.write_line(why, red=True)
