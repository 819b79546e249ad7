"""Fixtures of every test: components built by the toolchains of this machine, servers on loopback, and a Redis."""

from collections.abc import Generator, Iterator

import pytest
from coverage import Coverage

from wasmrt.sandbox.isolation.pool import launcher

pytest_plugins = [
    "tests.compiled", "tests.tiers", "tests.egress.gateway.world", "tests.egress.rates.redis_server",
    "tests.sandbox.guests.fixtures", "tests.interop.mcp_peers.fixtures",
]  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Coverage counts what every run tries: a property test takes other values each time, and thrice as long."""
    is_law = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    is_measured = not is_law and "unmeasured" not in getattr(item, "fixturenames", ())
    coverage = None if is_measured else Coverage.current()
    if coverage is None:
        return (yield)
    coverage.stop()
    try:
        return (yield)
    finally:
        coverage.start()


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the test nor its processes are measured: coverage loads modules of its own, and traces every line."""
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session", autouse=True)
def _one_zygote() -> Iterator[None]:
    """Runtimes of a test run share one zygote: each that starts its own takes a tenth of a second."""
    zygote = launcher.retain()
    yield
    launcher.release(zygote)
