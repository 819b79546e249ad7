"""Two tiers of tests: the short run of README's test line, and the other tests, which `.ci/run` also runs.

`WASMRT_TESTS` selects the tier: `short` (default), `ci` (only the tests that the short run leaves out) or `all`. A test
is in the tier `ci` if it is marked `@pytest.mark.ci(KIND)` or uses a fixture of `KIND_BY_FIXTURE`. Property tests and
long tables of cases (`@pytest.mark.table`) belong to both: the short run tries fewer examples, and every tenth case.
Without `WASMRT_TESTS`, tests of files on the command line are not left out.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

_CHOSEN = os.environ.get("WASMRT_TESTS")
TIER = _CHOSEN or "short"
KINDS = {
    "toolchain": "compilers of guest languages",
    "browser": "Chromium",
    "peers": "registries, and MCP servers and clients, of other projects",
    "soak": "thousands of calls",
    "postgres": "stores in PostgreSQL",
    "kills": "processes killed again and again",
    "wheel": "sdist, wheel and container",
    "slow": "more than a second of processor time",
    "table": "cases of long tables",
}
KIND_BY_FIXTURE = {
    "desk_wasm": "toolchain",
    "guest": "toolchain",
    "elsewhere": "toolchain",
    "preview1_adapter": "toolchain",
    "postgres_server": "postgres",
    "node_peers": "peers",
    "python_peers": "peers",
}
_SHORT_SHARE = 10
_left_out: Counter[str] = Counter()


def examples(count: int) -> int:
    """Return the number of examples that a property test tries in this tier; `count` is the number in CI."""
    return max(min(count, 10), count // _SHORT_SHARE) if TIER == "short" else count


def kills(count: int = 20) -> int:
    """Return how many processes a test kills: `count`, or `WASMRT_KILLS` for a longer run."""
    return int(os.environ.get("WASMRT_KILLS", count))


def pytest_configure(config: pytest.Config) -> None:
    if TIER not in ("short", "ci", "all"):
        raise pytest.UsageError(f"WASMRT_TESTS must be short, ci or all, not {TIER!r}")
    config.addinivalue_line("markers", f"ci(kind): left to .ci/run; kinds: {', '.join(KINDS)}")
    config.addinivalue_line("markers", "table: a long table of cases; the short run tries every tenth")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if TIER == "all" or (not _CHOSEN and any(".py" in argument for argument in config.args)):
        return
    kept, deselected = [], []
    rows: Counter[tuple[object, str]] = Counter()
    for item in items:
        kind = _kind(item)
        if kind is None and item.get_closest_marker("table") is not None:
            row = (item.parent, getattr(item, "originalname", item.name))
            kind = "table" if TIER == "ci" or rows[row] % _SHORT_SHARE else None
            rows[row] += 1
        if kind is None if TIER == "short" else kind is not None or _is_property(item):
            kept.append(item)
        else:
            deselected.append(item)
            if kind is not None:
                _left_out[kind] += 1
    config.hook.pytest_deselected(items=deselected)
    items[:] = kept


def _kind(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("ci")
    if marker is not None:
        (kind,) = marker.args
        assert kind in KINDS, f"{item.nodeid}: unknown kind {kind!r}"
        return str(kind)
    fixtures = getattr(item, "fixturenames", ())
    return next((kind for fixture, kind in KIND_BY_FIXTURE.items() if fixture in fixtures), None)


def _is_property(item: pytest.Item) -> bool:
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)  # set by pytest-xdist in its workers
    if output is not None:
        output["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Add the counts of a worker; each worker has collected all tests."""
    _left_out.update(Counter(getattr(node, "workeroutput", {}).get("left_out", {})) - _left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _left_out:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(_left_out.items()))
        terminalreporter.write_line(f"left to .ci/run (or WASMRT_TESTS=ci): {_left_out.total()} tests: {kinds}")
