"""Servers of npm and PyPI, added by the commands of their documentation, whose tools are then called."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.compiled import Installation
from wasmrt.cli.shared.root import cli

pytestmark = pytest.mark.ci("peers")

# The runner's command, a tool, its params, and a part of its result. {work} is a folder that the server may write.
SERVERS: list[tuple[str, str, dict[str, Any], str]] = [
    ("npx -y mcp-hello-world", "echo", {"message": "hi"}, "hi"),
    ("npx -y @kazuph/mcp-taskmanager", "list_requests", {}, "requests_listed"),
    ("npx -y mcp-sequentialthinking-tools", "sequentialthinking_tools",
     {"available_mcp_tools": ["a"], "thought": "x", "next_thought_needed": False, "thought_number": 1,
      "total_thoughts": 1}, "thought_history_length"),
    ("uvx mcp-server-calculator", "calculate", {"expression": "6*7"}, "42"),
    ("uvx mcp-simple-timeserver", "get_local_time", {}, "Timezone"),
    ("uvx mcp-server-sqlite --db-path {work}/a.db", "list_tables", {}, "[]"),  # requires mcp>=1, fails with mcp 2
    ("uvx --from excel-mcp-server excel-mcp-server stdio", "list_workbooks", {"directory": "{work}"}, "{}"),
]  # fmt: skip
_LOOKUPS = {"npx": ("npm", "view"), "uvx": (sys.executable, "-m", "pip", "index", "versions")}


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["mcp", *args], prog_name="wasmrt")


@pytest.mark.parametrize(("command", "tool", "params", "part"), SERVERS, ids=[row[0].split()[-1] for row in SERVERS])
def test_a_server_is_added_by_the_command_of_its_documentation_and_called(
    tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch, command: str, tool: str,
    params: dict[str, Any], part: str,
) -> None:  # fmt: skip
    work = tmp_path / "work"
    work.mkdir()
    words = command.replace("{work}", str(work)).split()
    if words[0] == "npx" and shutil.which("npm") is None:
        pytest.skip("not tried: npm is not installed")
    package = words[2] if words[1].startswith("-") else words[1]
    found = subprocess.run([*_LOOKUPS[words[0]], package], capture_output=True, text=True, timeout=60, check=False)
    if found.returncode:
        pytest.skip(f"not tried: {package} is not in reach: {found.stderr[-200:]}")
    home = sharing_code(tmp_path / "home")
    monkeypatch.setenv("WASMRT_HOME", str(home))
    rules = '[tools.filter]\nallow_external = true\n[tools.rules."*"]\npermission = "allow"\n'
    (home / "data" / "config.toml").write_text(rules)
    added = run("add", "peer", "--yes", "--trust", "local", "--write", str(work), "--", *words)
    assert added.exit_code == 0, added.output
    called = run("call", "peer", tool, json.dumps(params).replace("{work}", str(work)))
    assert part in called.stdout, called.output
