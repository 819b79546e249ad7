"""Fixtures of every test: components built by the toolchains of this machine, servers on loopback, and a Redis."""

from collections.abc import Iterator

import pytest

from wasmrt.guest.settings import EngineConfig
from wasmrt.isolation.pool import launcher

pytest_plugins = ["tests.guests.fixtures", "tests.egress.world", "tests.rates.redis_server"]


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the test starts are not measured: coverage loads modules of its own, and traces every line."""
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session", autouse=True)
def _one_zygote() -> Iterator[None]:
    """Runtimes of a test run share one zygote: each that starts its own takes a tenth of a second."""
    engine = EngineConfig()
    zygote = launcher.retain(engine)
    yield
    launcher.release(engine, zygote)
