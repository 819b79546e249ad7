"""Confined commands: workspace, environment, time, processes, memory and output."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt import ToolError
from wasmrt.agent.builtin.shell import Backend, ShellSettings, ShellTool
from wasmrt.core.errors import CancelledError, DeadlineExceededError, InvalidParametersError
from wasmrt.core.lifetime import Lifetime
from wasmrt.runtime.context import ToolContext

pytestmark = [needs_seccomp, needs_landlock]


def stdout(shell: ShellTool, command: str, **params: object) -> str:
    result = shell.execute({"command": command, **params}).result
    assert result["exit_code"] == 0, result
    text: str = result["stdout"]
    return text


def test_command_reads_and_writes_the_workspace(shell: ShellTool, folder: Path) -> None:
    (folder / "a.txt").write_text("one")
    assert shell.backend is Backend.CONFINED
    assert stdout(shell, "cat a.txt; echo two > b.txt; mkdir c; pwd") == f"one{folder}\n"
    assert (folder / "b.txt").read_text() == "two\n"
    assert stdout(shell, "pwd", workdir="c") == f"{folder}/c\n"


def test_workspace_program_runs_and_its_exit_code_is_returned(shell: ShellTool, folder: Path) -> None:
    (folder / "run.sh").write_text("#!/bin/sh\necho out; echo err >&2; exit 3\n")
    (folder / "run.sh").chmod(0o755)
    result = shell.execute({"command": "./run.sh"}).result
    assert result == {"exit_code": 3, "stdout": "out\n", "stderr": "err\n", "truncated": False}


@pytest.mark.parametrize("workdir", ["..", "/", "missing", "link", "a\0b"])
def test_workdir_outside_the_workspace_is_rejected(shell: ShellTool, folder: Path, workdir: str) -> None:
    (folder / "link").symlink_to("/")
    with pytest.raises(InvalidParametersError, match="workdir"):
        shell.execute({"command": "ls", "workdir": workdir})


def test_command_sees_only_allowed_environment_variables(shell: ShellTool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "LD_PRELOAD_X", "BASH_ENV", "WASMRT_HOME_X"):
        monkeypatch.setenv(name, "nobody's business")
    monkeypatch.setenv("LANG", "C.UTF-8")
    shown = dict(line.partition("=")[::2] for line in stdout(shell, "env").splitlines())
    assert shown["LANG"] == "C.UTF-8" and shown["SHELL"] == "/bin/bash" and "nobody's business" not in shown.values()
    assert shown["HOME"] == shown["TMPDIR"] != os.environ["HOME"]
    assert all(path.startswith(("/usr", "/bin", "/sbin")) for path in shown["PATH"].split(":"))
    expected = {
        "PATH", "USER", "LOGNAME", "TERM", "COLORTERM", "LANG", "LANGUAGE", "TZ", "COLUMNS", "LINES", "NO_COLOR",
        "FORCE_COLOR", "CLICOLOR", "HOME", "TMPDIR", "TMP", "TEMP", "SHELL", "PAGER", "GIT_PAGER", "EDITOR", "VISUAL",
        "GIT_CONFIG_NOSYSTEM", "GIT_TERMINAL_PROMPT", "PWD", "OLDPWD", "SHLVL", "_",
    }  # fmt: skip
    assert {name for name in shown if not name.startswith(("LC_", "XDG_"))} <= expected


def test_exported_functions_of_the_host_are_not_inherited(shell: ShellTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { echo mine; }")
    assert "mine" not in stdout(shell, "ls")


def test_each_call_has_a_new_home_that_is_deleted_afterwards(shell: ShellTool) -> None:
    first = stdout(shell, "touch ~/x; echo ~").strip()
    assert not Path(first).exists()
    assert stdout(shell, "ls ~") == ""


def test_long_output_keeps_its_beginning_and_its_end(shell: ShellTool) -> None:
    result = shell.execute({"command": "echo first; seq 100000; echo last; seq 1 90000 >&2"}).result
    assert result["truncated"]
    assert result["stdout"].startswith("first\n1\n") and result["stdout"].endswith("100000\nlast\n")
    assert len(result["stdout"].encode()) + len(result["stderr"].encode()) <= 64 * 1024
    assert "bytes omitted" in result["stdout"] and result["stderr"].endswith("90000\n")


@pytest.fixture
def alive(folder: Path) -> Iterator[threading.Thread]:
    """Return a function that waits until no process has the pipe `alive` open for writing."""
    os.mkfifo(folder / "alive")
    thread = threading.Thread(target=(folder / "alive").read_bytes, daemon=True)
    thread.start()
    yield thread
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.usefixtures("alive")
def test_command_past_its_deadline_is_ended_with_its_processes(shell: ShellTool, folder: Path) -> None:
    (folder / "many.py").write_text(
        "import os, time\nfor _ in range(40):\n    if os.fork() == 0:\n        break\ntime.sleep(999)\n"
    )
    line = "exec 9> alive; (sleep 987 &) ; nohup sleep 987 > log & setsid sleep 987 & python3 many.py"
    with pytest.raises(DeadlineExceededError, match="took too long"):
        shell.execute({"command": line, "timeout": 1})


@pytest.mark.usefixtures("alive")
def test_background_processes_end_with_the_command(shell: ShellTool) -> None:
    assert stdout(shell, "exec 9> alive; nohup sleep 986 & echo done") == "done\n"


def test_cancelled_call_ends_its_command(shell: ShellTool, folder: Path) -> None:
    lifetime = Lifetime(60)
    started = threading.Event()

    def cancel() -> None:
        started.wait(30)
        lifetime.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    os.mkfifo(folder / "started")
    watcher = threading.Thread(target=lambda: ((folder / "started").read_text(), started.set()))
    watcher.start()
    with pytest.raises(CancelledError):
        shell.execute({"command": "echo now > started; sleep 999"}, ToolContext(lifetime=lifetime))
    thread.join()
    watcher.join()


def test_memory_of_a_command_is_limited(home: Path, folder: Path) -> None:
    shell = ShellTool(folder, ShellSettings(memory_mib=64))
    result = shell.execute({"command": "python3 -c 'x = bytearray(300 << 20); print(len(x))'"}).result
    assert result["exit_code"] != 0 and "MemoryError" in result["stderr"]
    assert stdout(ShellTool(folder), "python3 -c 'x = bytearray(300 << 20); print(len(x))'") == "314572800\n"


def test_secrets_in_the_output_of_a_command_are_redacted(shell: ShellTool, folder: Path) -> None:
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    (folder / "a").write_text(f"token {token}\n")
    assert token not in str(shell.execute({"command": "cat a; cat a >&2"}))


@pytest.mark.parametrize("inside", ["home", "."])
def test_workspace_that_contains_wasmrt_folders_is_refused(home: Path, tmp_path: Path, inside: str) -> None:
    with pytest.raises(ToolError, match="cannot use a workspace that contains"):
        ShellTool(tmp_path / inside).execute({"command": "ls"})


def test_preset_restricts_the_writable_folders(shell: ShellTool, folder: Path) -> None:
    for name in ("out", "in"):
        (folder / name).mkdir()
    context = ToolContext(write_paths=(("out", "x"), ("out/deep", "out")))
    result = shell.execute({"command": "echo a > out/a; echo a > in/a; ls in"}, context).result
    assert (folder / "out/a").exists() and not (folder / "in/a").exists()
    assert "Permission denied" in result["stderr"]


def test_granted_folders_can_be_read_and_executed(home: Path, folder: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "hello").write_text("#!/bin/sh\necho hello\n")
    (tools / "hello").chmod(0o755)
    assert stdout(ShellTool(folder, ShellSettings(execute=(str(tools),))), f"{tools}/hello") == "hello\n"
    assert ShellTool(folder).execute({"command": f"{tools}/hello"}).result["exit_code"] == 126
    assert stdout(ShellTool(folder, ShellSettings(read=(str(tools),))), f"cat {tools}/hello").startswith("#!")
