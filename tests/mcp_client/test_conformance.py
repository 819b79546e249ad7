"""The official conformance suite against the client, in both eras, where the suite is there."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = os.environ.get("WASMRT_MCP_CONFORMANCE", "")
"""The command of `@modelcontextprotocol/conformance`, such as `node node_modules/.bin/conformance`."""
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("requirements", ["2026-07-28", "2025-11-25"])
def test_the_client_meets_every_requirement_of_the_suite(requirements: str, tmp_path: Path) -> None:
    if not SUITE:
        pytest.skip("WASMRT_MCP_CONFORMANCE names no conformance suite")
    client = f"{sys.executable} -m tests.mcp_client.conformance_client"
    command = [*shlex.split(SUITE), "client", "--command", client, "--requirements", requirements, "-o", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
