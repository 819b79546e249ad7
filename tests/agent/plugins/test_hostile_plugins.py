"""Misbehaving native plugins: each causes a typed error, and leaves no process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.plugins.conftest import ANSWER
from wasmrt.agent.builtin.plugins import Plugins, PluginTool
from wasmrt.core.errors import (
    DeadlineExceededError,
    GuestError,
    GuestExitError,
    GuestOutputError,
    NotAuthorizedError,
    OutputLimitError,
    SourceError,
    ToolError,
    WorkerCrashedError,
)
from wasmrt.core.limits import MAX_PLUGIN_PROGRAM_BYTES
from wasmrt.sandbox.isolation.confine import Command

Native = Callable[..., PluginTool]
TEXT = {"text": "x"}


def fails(tool: PluginTool, text: str = "x") -> ToolError:
    with pytest.raises(ToolError) as caught:
        tool.execute({"text": text})
    assert caught.value.call_id
    return caught.value


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process that has exited but was not reaped does not count.
    return ") Z " not in Path(f"/proc/{pid}/stat").read_text()


def gone(pid: int) -> bool:
    until = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < until:
        threading.Event().wait(0.01)
    return not is_alive(pid)


def test_endless_output_ends_the_plugin_at_the_limit(native: Native) -> None:
    error = fails(native("#!/bin/sh\nexec yes\n", manifest="max_stdout_bytes = 1000"))
    assert isinstance(error, OutputLimitError)
    assert (error.limit, error.setting) == (1000, "max_stdout_bytes")


def test_endless_stderr_ends_the_plugin_at_the_limit(native: Native) -> None:
    error = fails(native("#!/bin/sh\nexec yes >&2\n"))
    assert isinstance(error, OutputLimitError)
    assert error.setting == "max_stderr_bytes"


def test_very_long_line_is_not_read_completely(native: Native) -> None:
    tool = native(
        "#!/usr/bin/python3\nimport os\nwhile True: os.write(1, b'x' * 2**26)\n", manifest="max_runtime_ms = 20000"
    )
    assert isinstance(fails(tool), OutputLimitError)


def test_closed_output_is_an_empty_response(native: Native) -> None:
    error = fails(native("#!/bin/sh\nexec >&-\ncat >/dev/null\n"))
    assert isinstance(error, GuestOutputError)
    assert (error.code, error.message) == ("malformed-response", "the plugin's response is empty")


def test_plugin_that_closes_its_output_and_hangs_is_ended(native: Native) -> None:
    error = fails(native("#!/bin/sh\nexec >&- 2>&-\nexec sleep 100\n", manifest="max_runtime_ms = 300"))
    assert isinstance(error, DeadlineExceededError)
    assert (error.limit, error.setting) == (0.3, "max_runtime_ms")


def test_plugin_that_ignores_signals_is_killed_with_its_children(native: Native, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    script = (
        "#!/bin/sh\ntrap '' TERM INT HUP\nsleep 1000 &\n"
        f"echo $$ $! >{tmp_path}/out/pids\nwhile :; do sleep 1000; done\n"
    )
    tool = native(script, manifest="max_runtime_ms = 1500", write_paths=[tmp_path / "out"])
    assert isinstance(fails(tool), DeadlineExceededError)
    first, second = map(int, (tmp_path / "out/pids").read_text().split())
    assert gone(first)
    assert gone(second)


def test_surviving_children_are_ended_without_delaying_the_call(native: Native, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    script = (
        ANSWER
        + f"""
child = os.fork()
if child == 0:
    try:
        os.setsid()
    except PermissionError:
        pass
    if os.fork() == 0:
        open("{tmp_path}/out/pid", "w").write(f"{{os.getpid()}} {{os.getpgid(0) == os.getpid()}}")
        while True:
            os.read(0, 1) or os.system("sleep 1000")
    os._exit(0)
os.waitpid(child, 0)
while not os.path.exists("{tmp_path}/out/pid") or not os.path.getsize("{tmp_path}/out/pid"):
    pass
answer("done")
"""
    )
    tool = native(script, manifest="max_runtime_ms = 20000", write_paths=[tmp_path / "out"])
    output = tool.execute(TEXT)
    assert output.result == "done"
    assert output.duration < 15  # the grandchild kept the pipes open
    pid, left_its_group = (tmp_path / "out/pid").read_text().split()
    assert left_its_group == "False"
    assert gone(int(pid))


def test_two_responses_are_malformed(native: Native) -> None:
    error = fails(native(ANSWER + "answer(1)\nanswer(2)\n"))
    assert isinstance(error, GuestOutputError)
    assert error.code == "malformed-response"


def test_response_to_a_different_request_is_rejected(native: Native) -> None:
    error = fails(native(ANSWER + "answer(1, request_id='0' * 32)\n"))
    assert (type(error), error.code) == (GuestOutputError, "other-request")


def test_response_with_a_different_version_is_rejected(native: Native) -> None:
    assert fails(native(ANSWER + "answer(1, protocol_version=1)\n")).code == "protocol-version"
    assert fails(native(ANSWER + "answer(1, protocol_version=False)\n")).code == "protocol-version"


def test_response_that_is_not_utf8_is_rejected(native: Native) -> None:
    assert fails(native("#!/bin/sh\nprintf '\\377\\376'\n")).code == "malformed-response"


def test_reported_failure_is_the_error_message(native: Native) -> None:
    error = fails(native(ANSWER + "answer('', ok=False, stderr='no such city\\n')\nsys.exit(1)\n"))
    assert (type(error), error.message) == (GuestError, "no such city")


def test_nonzero_exit_code_is_a_failure_despite_a_valid_response(native: Native) -> None:
    error = fails(native(ANSWER + "answer(1)\nprint('it broke', file=sys.stderr)\nsys.exit(3)\n"))
    assert isinstance(error, GuestExitError)
    assert (error.exit_code, error.message) == (3, "the plugin ended with exit code 3: it broke")
    assert [entry.message for entry in error.logs] == ["it broke"]


def test_crash_error_names_the_signal(native: Native) -> None:
    error = fails(native("#!/bin/sh\nkill -SEGV $$\n"))
    assert isinstance(error, WorkerCrashedError)
    assert error.signal == 11


def test_plugin_may_ignore_its_input(
    confined: None, write: Callable[..., None], load: Callable[..., Plugins], folder: Path
) -> None:
    write("plugin", "#!/bin/sh\nexit 0\n", manifest="max_runtime_ms = 20000")
    manifest = folder / "plugin.toml"
    manifest.write_text(manifest.read_text().replace("max_length = 1024", "max_length = 1000000"))
    error = fails(load(unsafe_native_plugins=True)["plugin"], "x" * 1_000_000)
    assert error.code == "malformed-response"


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/shadow').read()",
        "open(os.path.expanduser('~/.profile')).read()",
        "os.listdir(os.path.expanduser('~'))",
        "os.listdir({folder!r})",
        "open({folder!r} + '/plugin').read()",
        "open({folder!r} + '/plugin.toml').read()",
        "open(sys.argv[0], 'a')",
        "open('/proc/1/environ').read()",
        "os.setsid()",
        "os.setpgid(0, 0)",
    ],
)
def test_kernel_refuses_access_without_a_grant(native: Native, folder: Path, attempt: str) -> None:
    tried = attempt.replace("{folder!r}", repr(str(folder)))
    assert native(ANSWER + f"answer(attempt(lambda: {tried}))\n").execute(TEXT).result == "PermissionError"


def test_plugin_can_read_its_program_and_the_system(native: Native) -> None:
    script = ANSWER + "answer([len(open(sys.argv[0]).read()) > 10, os.path.exists('/usr/bin/python3')])\n"
    assert native(script).execute(TEXT).result == [True, True]


def test_native_plugin_cannot_write_the_workspace(native: Native, workspace: Path) -> None:
    script = (
        ANSWER
        + """
folder = request["mounts"][0]["host_path"]
answer([os.getcwd() == folder == request["cwd"], open("notes/one.txt").read(),
        attempt(lambda: open("notes/one.txt", "w")), attempt(lambda: open("new", "w")), attempt(lambda: os.mkdir("d")),
        attempt(lambda: os.rename("notes", "n")), attempt(lambda: os.unlink("notes/one.txt")),
        attempt(lambda: os.symlink("/etc", "etc")), attempt(lambda: os.link("notes/one.txt", "hard")),
        attempt(lambda: os.truncate("notes/one.txt", 0))])
"""
    )
    told = native(script, workspace=workspace).execute(TEXT).result
    assert told[:2] == [True, "a note\n"]
    assert set(told[2:]) == {"PermissionError"}
    assert (workspace / "notes/one.txt").read_text() == "a note\n"
    assert sorted(path.name for path in workspace.iterdir()) == ["notes"]


def test_native_plugin_writes_only_granted_paths(native: Native, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    script = (
        ANSWER
        + """
read, out = request["mounts"]
open(out["host_path"] + "/made", "w").write("by the plugin")
answer([out["guest_path"], out["read_only"], read["read_only"],
        attempt(lambda: open(out["host_path"] + "/../other", "w"))])
"""
    )
    told = native(script, workspace=workspace, write_paths=[tmp_path / "out"]).execute(TEXT).result
    assert told == ["/write/out", False, True, "PermissionError"]
    assert (tmp_path / "out/made").read_text() == "by the plugin"


def test_network_must_be_required_and_allowed(native: Native) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = (
            ANSWER + f"import socket\nanswer(attempt(lambda: socket.create_connection(('127.0.0.1', {port})) and 1))\n"
        )
        for settings in ({}, {"allow_network": True}):
            assert native(connect, **settings).execute(TEXT).result == "PermissionError"
        allowed = native(connect, manifest="requires_network = true", allow_network=True)
        assert allowed.execute(TEXT).result == "1"


def test_plugin_that_requires_the_network_does_not_run_without_it(native: Native, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    script = f"#!/bin/sh\necho ran >{tmp_path}/out/ran\n"
    error = fails(native(script, manifest="requires_network = true", write_paths=[tmp_path / "out"]))
    assert isinstance(error, NotAuthorizedError)
    (decision,) = error.decisions
    assert (decision.allowed, decision.capability, decision.subject) == (False, "tool.network", "plugin")
    assert "allow_network" in (error.hint or "")
    assert list((tmp_path / "out").iterdir()) == []


def test_environment_of_wasmrt_is_not_inherited(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "hunter2 and more")
    told = native(ANSWER + "answer(sorted(os.environ))\n").execute(TEXT).result
    assert set(told) <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "PWD", "_"}


def test_program_changed_after_loading_does_not_run(native: Native, folder: Path) -> None:
    tool = native(ANSWER + "answer(1)\n")
    assert tool.execute(TEXT).result == 1
    program = folder / "plugin"
    changed = program.read_text() + "answer(2)\n"
    program.unlink()
    program.write_text(changed)
    program.chmod(0o755)
    assert fails(tool).code == "changed"
    program.unlink()
    os.mkfifo(program)
    assert fails(tool).code == "changed"


@pytest.mark.parametrize("swap", ["write", "rename"])
def test_program_swapped_between_its_check_and_its_start_does_not_run(
    native: Native, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    tool = native(ANSWER + "answer(1)\n")
    start, program = Command.start, folder / "plugin"

    def swap_and_start(command: Command, cwd: str) -> subprocess.Popen[bytes]:
        other = program if swap == "write" else tmp_path / "other"
        other.write_text(ANSWER + "answer(2)\n")
        other.chmod(0o755)
        other.replace(program)
        return start(command, cwd)

    monkeypatch.setattr(Command, "start", swap_and_start)
    assert tool.execute(TEXT).result == 1
    assert fails(tool).code == "changed"


def test_program_over_the_size_limit_is_refused(
    write: Callable[..., None], load: Callable[..., Plugins], folder: Path
) -> None:
    write("plugin", "#!/bin/sh\n")
    os.truncate(folder / "plugin", MAX_PLUGIN_PROGRAM_BYTES + 1)
    refused = load(unsafe_native_plugins=True).refused["plugin"]
    assert isinstance(refused, SourceError) and "File too large" in refused.message


def test_confinement_and_start_errors_fail_the_call(
    native: Native, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = native(ANSWER + "answer(1)\n", workspace=workspace)
    with monkeypatch.context() as without:
        without.setattr(sys, "executable", "")
        assert fails(tool).code == "confine"
    workspace.rename(workspace.with_name("gone"))
    error = fails(tool)
    assert (error.code, error.kind) == ("not-started", "sandbox")


def test_program_that_cannot_be_executed_has_a_clear_error(native: Native) -> None:
    error = fails(native("#!/no/such/interpreter\n"))
    assert error.code == "not-started"
    assert "cannot execute" in error.message


def test_secrets_in_the_output_are_redacted(native: Native, workspace: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
    (workspace / "token").write_text(token)
    script = ANSWER + "text = open('token').read()\nprint(text, file=sys.stderr)\nanswer({'it': text}, stderr=text)\n"
    output = native(script, workspace=workspace).execute(TEXT)
    assert set(output.result) == {"it"}
    assert token not in repr(output)


@pytest.mark.ci("slow")
def test_memory_of_a_plugin_is_limited(native: Native) -> None:
    script = ANSWER + "kept = []\nwhile True:\n    kept.append(bytearray(2**28))\n"
    assert isinstance(fails(native(script, manifest="max_runtime_ms = 60000")), GuestExitError)


def test_concurrent_plugins_are_independent(native: Native) -> None:
    tool = native(ANSWER + "answer(text)\n", manifest="max_runtime_ms = 60000")
    told: dict[int, object] = {}

    def call(number: int) -> None:
        told[number] = tool.execute({"text": str(number)}).result

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {number: str(number) for number in range(6)}


def test_exit_is_detected_without_a_process_handle(native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError("as some containers do")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert native(ANSWER + "answer(1)\n").execute(TEXT).result == 1
    late = native("#!/bin/sh\nexec sleep 100\n", manifest="max_runtime_ms = 300")
    assert isinstance(fails(late), DeadlineExceededError)
