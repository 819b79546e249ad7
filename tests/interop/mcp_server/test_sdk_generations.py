"""Each generation of the official Python SDK as a client of `wasmrt serve`, over stdio and HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_peers.fixtures import sdk_python
from tests.interop.mcp_peers.install import SDK_VERSIONS
from tests.interop.mcp_server.processes import WASMRT, configure, served, wasmrt

RULES = '[tools.rules.echo]\npermission = "ask"\n[tools.rules.json]\npermission = "deny"\n'
CURRENT = "2"
"""The generation in the development environment."""
SCRIPT = Path(__file__).with_name("sdk_session.py")

pytestmark = [pytest.mark.usefixtures("unmeasured"), pytest.mark.ci("peers")]


def run_session(version: str, stderr: str, **where: Any) -> dict[str, Any]:
    """Run a session with a version of the SDK; check its exit status, and the standard error of client and server."""
    python = sys.executable if version == CURRENT else str(sdk_python(version))
    settings = json.dumps(where | {"approve": [*WASMRT, "approvals", "approve"]})
    done = subprocess.run(
        [python, "-W", "error::ResourceWarning", str(SCRIPT), settings], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode() == stderr
    return dict(json.loads(done.stdout))


def approvals(kind: str) -> list[dict[str, Any]]:
    return list(json.loads(wasmrt("approvals", "list", "--decided", "--json").stdout)[kind])


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("version", [*SDK_VERSIONS, CURRENT])
def test_a_client_of_each_sdk_generation_has_a_clean_session(home: Path, version: str, transport: str) -> None:
    configure(home, RULES)
    if transport == "stdio":
        hidden = (
            "the tools that manage tools and skills are off; to offer them, pass --manage, or: "
            "wasmrt config set extensions.serve true; wasmrt config set skills.serve true\n"
            "json is not offered: a rule of the policy denies the tool; "
            "wasmrt config set tools.rules.json.permission ask\n"
        )
        found = run_session(version, hidden, command=[*WASMRT, "serve"])
    else:
        token = wasmrt("serve", "--new-token", "local").stdout.decode().strip()
        with served() as (url, _):
            found = run_session(version, "", url=url, authorization=f"Bearer {token}")
            if version != CURRENT:  # newer revisions of the protocol have no sessions
                assert approvals("pending") == []
    assert "echo" in found["names"] and "json" not in found["names"]
    assert found["allowed"][0] is False and found["approved"] == [False, "hi"]
    assert found["denied"][0] is True
    assert found["asked"][0] is True and found["left"][0] is True
    assert approvals("pending") == []
    assert sorted((each["state"], each["client"]) for each in approvals("decided")) == [
        ("used", f"generation {version[0]}"),
        ("withdrawn", f"generation {version[0]}"),
    ]
