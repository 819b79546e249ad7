"""The official conformance suite against the client, in both eras; skipped if the suite is not installed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.mcp_peers.fixtures import NodePeers

ROOT = Path(__file__).resolve().parents[3]
FORWARD = Path(__file__).with_name("forward.py")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command of a client that has already imported its modules."""
    place = tmp_path_factory.mktemp("suite") / "client"
    serving = [sys.executable, "-m", "tests.interop.mcp_client.conformance_client", "--serve", str(place)]
    with subprocess.Popen(serving, cwd=ROOT, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield shlex.join([sys.executable, "-I", "-S", str(FORWARD), str(place)])
        server.terminate()


@pytest.mark.parametrize("requirements", ["2026-07-28", "2025-11-25"])
def test_the_client_meets_every_requirement_of_the_suite(
    requirements: str, client: str, node_peers: NodePeers, tmp_path: Path
) -> None:
    suite = node_peers.command(".bin/conformance")
    command = [*suite, "client", "--command", client, "--requirements", requirements, "-o", str(tmp_path)]
    command += ["--timeout", "240000"]  # all scenarios start at once and wait for each other
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
