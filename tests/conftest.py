"""Fixtures for all tests: components built with this machine's toolchains, and loopback servers."""

from collections.abc import Generator

import pytest
from coverage import Coverage
from hypothesis import settings

pytest_plugins = [
    "tests.compiled", "tests.tiers", "tests.egress.gateway.world", "tests.egress.rates.redis_server",
    "tests.postgres_server", "tests.shared_zygote",
    "tests.sandbox.guests.fixtures", "tests.interop.mcp_peers.fixtures",
]  # fmt: skip

settings.register_profile("without deadline", settings.default, deadline=None)  # of one example, on a busy machine
settings.load_profile("without deadline")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Exclude property tests from coverage: they try other values in each run, and would take three times as long."""
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
    """Exclude the test and its processes from coverage, which imports additional modules and traces every line."""
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
