"""The official conformance suite against wasmrt's server, in both eras.

A scenario that fails and is not listed, and one that is listed and passes, both fail the test.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.mcp_peers.fixtures import NodePeers

ROOT = Path(__file__).resolve().parents[3]
# Features that a server with only tools does not have: resources, prompts, completion, logging, sampling, roots.
_GOT = ("get-simple", "get-with-args", "get-embedded-resource", "get-with-image")
_PROMPTS = ["prompts-list", *(f"prompts-{each}" for each in _GOT)]
_RESOURCES = [f"resources-{each}" for each in ("list", "read-text", "read-binary", "templates-read")]
_ASKED = ("basic-sampling", "basic-list-roots", "multiple-input-requests", "non-tool-request", "capability-check")
_COMMON = ["completion-complete", *_PROMPTS, *_RESOURCES]
NOT_SERVED = {
    "2026-07-28": [
        *_COMMON, "caching", "sep-2164-resource-not-found", *(f"input-required-result-{each}" for each in _ASKED),
    ],
    "2025-11-25": [
        *_COMMON, "logging-set-level", "tools-call-with-logging", "tools-call-sampling", "resources-subscribe",
        "resources-unsubscribe",
    ],
}  # fmt: skip


@pytest.mark.parametrize("version", NOT_SERVED)
def test_all_applicable_conformance_scenarios_pass(version: str, node_peers: NodePeers, tmp_path: Path) -> None:
    expected = tmp_path / "expected.yml"
    expected.write_text("server:\n" + "".join(f"  - {each}\n" for each in NOT_SERVED[version]))
    command = [sys.executable, "-m", "tests.interop.mcp_server.conformance"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        suite = node_peers.command(".bin/conformance")
        arguments = ["server", "--url", url, "--requirements", version, "--expected-failures", str(expected)]
        done = subprocess.run(
            [*suite, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        server.terminate()
        server.communicate(timeout=20)
    assert done.returncode == 0, done.stdout[-6000:]
