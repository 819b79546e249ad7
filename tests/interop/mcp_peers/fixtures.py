"""Fixtures with MCP programs by other authors. Tests skip without them, and the run's summary reports that."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.interop.mcp_peers import install
from tests.skips import skips

_SKIPPED = "not tried with programs of others, missing: "


@dataclass(frozen=True, slots=True)
class NodePeers:
    """The packages from npm, and the Node that runs them."""

    node: Path
    modules: Path

    def command(self, script: str) -> list[str]:
        """Return the command of a script below `node_modules`, or of a program that npm links in `.bin`."""
        return [str(self.node), str((self.modules / script).resolve(strict=True))]


@pytest.fixture(scope="session")
def node_peers() -> NodePeers:
    return NodePeers(_found(install.node), _found(install.modules))


@pytest.fixture(scope="session")
def python_peers() -> Path:
    """The folder of the programs from PyPI."""
    return _found(install.programs) / "bin"


def sdk_python(version: str) -> Path:
    """Return the Python that has a version of the official SDK; skip the test if it is not installed."""
    return _found(partial(install.sdk, version)) / "bin" / "python"


def _found(what: Callable[..., Path]) -> Path:
    try:
        return what(prepare=os.environ.get("WASMRT_PEERS_PREPARE") == "1")
    except install.NotHere as absent:
        pytest.skip(f"{_SKIPPED}{absent}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for why in sorted(skips(terminalreporter, _SKIPPED)):
        terminalreporter.write_line(why, red=True)
