"""Escape attempts of a hostile script fail in the shell, and succeed outside it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt.agent.builtin.shell import ShellTool
from wasmrt.sandbox.isolation.confine import SYSTEM_CALLS

SCRIPT = Path(__file__).parent / "escapes.py"
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin")
REFUSED = {"EPERM", "EACCES", "ENOSYS", "EXDEV", "EAFNOSUPPORT", "EOPNOTSUPP"}
LEAST = 40
pytestmark = [needs_seccomp, needs_landlock, pytest.mark.skipif(PYTHON is None, reason="no python3 in /usr/bin")]


@pytest.fixture
def outcomes(shell: ShellTool, home: Path, folder: Path, tmp_path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the outcomes of the attempts outside and inside the shell."""
    assert PYTHON is not None
    outside = tmp_path / "outside"
    outside.mkdir()
    for path in (home / "secrets.json", outside / "foreign"):
        path.write_text("nobody's business")
    shutil.copy("/bin/true", outside / "program")
    shutil.copy(SCRIPT, folder / "escapes.py")
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as path_socket,
        subprocess.Popen(command, stdin=subprocess.PIPE, cwd=home) as victim,
    ):
        name = f"wasmrt-shell-{os.getpid()}"
        abstract.bind("\0" + name)
        path_socket.bind(str(outside / "socket"))
        for each in (abstract, path_socket):
            each.listen(10)
        scene = {
            "victim": victim.pid, "secret": str(home / "secrets.json"), "outside": str(outside),
            "home": str(Path.home()),
            "foreign": str(outside / "foreign"), "program": str(outside / "program"), "cat": "/bin/cat",
            "port": server.getsockname()[1], "abstract": name, "path": str(outside / "socket"),
            "numbers": SYSTEM_CALLS, "address": _readable(victim.pid),
        }  # fmt: skip
        script = [PYTHON, "escapes.py", json.dumps(scene)]
        done = subprocess.run(script, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        output = shell.execute({"command": shlex.join(script), "timeout": 60})
        assert output.result["exit_code"] == 0, output.result
        victim.communicate()
    return json.loads(done.stdout), json.loads(output.result["stdout"])


def _readable(process: int) -> int:
    """Return an address that a process can write."""
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        if " rw-p " in line:
            return int(line.partition("-")[0], 16)
    raise AssertionError("no memory can be written")


@pytest.mark.ci("slow")
def test_all_escape_attempts_fail_and_over_forty_work_outside(outcomes: tuple[dict[str, str], dict[str, str]]) -> None:
    control, inside = outcomes
    # In a user namespace, there is no other user to switch to.
    refused = {name: REFUSED | ({"EINVAL"} if name in ("another user", "another owner") else set()) for name in inside}
    assert {name: end for name, end in inside.items() if end not in refused[name]} == {}
    proven = [name for name in inside if control[name] == "done"]
    assert len(proven) >= LEAST, {name: end for name, end in control.items() if end != "done"}
