"""Fixtures of every test: components built by the toolchains of this machine, servers on loopback, and a Redis."""

import pytest

pytest_plugins = ["tests.guests.fixtures", "tests.egress.world", "tests.rates.redis_server"]


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the test starts are not measured: coverage loads modules of its own, and traces every line."""
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
