"""Untrusted programs are executed confined and reach only granted resources."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt.sandbox.isolation.confine import (
    BUILD_TOOL,
    MCP_SERVER,
    NOT_CONFINED,
    NOT_EXECUTED,
    RUN_WORKER,
    SHELL,
    ConfineError,
    confined_command,
    prepare,
)

pytestmark = [needs_seccomp, needs_landlock]


def sh(script: str, *, cwd: Path, **specifics: Any) -> subprocess.CompletedProcess[str]:
    command = confined_command(SHELL, ["sh", "-c", script], **specifics)
    return subprocess.run(command.argv, env=command.env, cwd=cwd, capture_output=True, text=True, timeout=60)


def test_a_shell_writes_only_to_granted_folders(tmp_path: Path) -> None:
    granted, other = tmp_path / "granted", tmp_path / "other"
    granted.mkdir()
    other.mkdir()
    (other / "kept").write_text("kept")
    done = sh(
        f"echo hi > a && cat a; echo no > {other}/b; rm {other}/kept; mv a {other}/", cwd=granted, write=[granted]
    )
    assert done.stdout == "hi\n"
    assert [path.name for path in other.iterdir()] == ["kept"]


def test_a_shell_reads_only_granted_files_of_the_user(tmp_path: Path) -> None:
    granted, other = tmp_path / "granted", tmp_path / "other"
    for folder in (granted, other):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    done = sh(f"cat {granted}/file; cat {other}/file; echo x > {granted}/file", cwd=tmp_path, read=[granted])
    assert done.stdout == "granted"
    assert (granted / "file").read_text() == "granted"


def test_a_shell_has_only_the_kept_and_given_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "value")
    done = sh("env", cwd=tmp_path, env={"GIVEN": "yes"})
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "GIVEN" in names
    assert names <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "GIVEN", "PWD", "OLDPWD", "SHLVL", "_"}


def test_a_shell_cannot_read_its_parent_process(tmp_path: Path) -> None:
    done = sh(f"cat /proc/{os.getpid()}/environ /proc/{os.getpid()}/mem; ls /proc/{os.getpid()}/fd", cwd=tmp_path)
    assert done.stdout == ""
    assert done.returncode != 0


def test_a_program_inherits_only_kept_descriptors() -> None:
    reading, writing = os.pipe()
    high = fcntl.fcntl(writing, fcntl.F_DUPFD, 200)  # a free number above the session's own descriptors
    try:
        for keep, expected in (((), {"0", "1", "2"}), ((high,), {"0", "1", "2", str(high)})):
            command = confined_command(SHELL, ["ls", "/proc/self/fd"], keep=keep)
            done = subprocess.run(command.argv, env=command.env, close_fds=False, capture_output=True, text=True)
            assert set(done.stdout.split()) - {"3"} == expected  # 3 is the folder that ls reads
    finally:
        for descriptor in (reading, writing, high):
            os.close(descriptor)


def test_a_shell_executes_only_system_programs(tmp_path: Path) -> None:
    done = sh("cp /bin/true own && chmod +x own && ./own; echo $?", cwd=tmp_path, write=[tmp_path])
    assert done.stdout == "126\n"
    done = sh("./own; echo $?", cwd=tmp_path, write=[tmp_path], execute=[tmp_path])
    assert done.stdout == "0\n"


def test_a_shell_cannot_signal_processes_outside(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        done = sh(f"kill -9 {sleeper.pid}; sleep 60 & kill -9 $! && echo own", cwd=tmp_path)
        assert done.stdout == "own\n"
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


_CONNECT = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).close()
except OSError as error:
    print(error.errno)
else:
    print("connected")
"""


@pytest.mark.parametrize(
    ("specifics", "answer"),
    [({}, "1"), ({"network": True}, "connected"), ({"network": True, "connect": [1]}, "13")],
    ids=["no-network", "network", "another-port"],
)
def test_a_server_connects_only_to_granted_ports(specifics: dict[str, Any], answer: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        python = [sys.base_prefix, str(Path(sys.executable).resolve().parent)]
        argv = [str(Path(sys.executable).resolve()), "-I", "-S", "-c", _CONNECT, port]
        command = confined_command(MCP_SERVER, argv, execute=python, **specifics)
        done = subprocess.run(command.argv, env=command.env, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == answer, done.stderr


def test_a_program_connects_to_a_granted_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        argv = [str(Path(sys.executable).resolve()), "-I", "-S", "-c", _CONNECT, str(port)]
        command = confined_command(MCP_SERVER, argv, execute=[sys.base_prefix], network=True, connect=[port])
        done = subprocess.run(command.argv, env=command.env, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "connected", done.stderr


def test_a_program_ends_with_its_waiting_thread(tmp_path: Path) -> None:
    command = confined_command(BUILD_TOOL, ["sleep", "60"])
    started: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=lambda: started.append(_started(command)))
    thread.start()
    thread.join()
    assert started[0].wait(timeout=30) == -signal.SIGKILL


def _started(command: Any) -> subprocess.Popen[bytes]:
    """The program, once it runs: until then its parent must not exit."""
    argv = [*command.argv[:-2], "sh", "-c", "echo ready; exec sleep 60"]
    process = subprocess.Popen(argv, env=command.env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as stream:
        assert stream.readline() == b"ready\n"
    return process


def test_memory_and_file_size_are_bounded(tmp_path: Path) -> None:
    small = replace(SHELL, limits=replace(SHELL.limits, file_bytes=4096))
    command = confined_command(small, ["sh", "-c", "head -c 100000 /dev/zero > big; true"], write=[tmp_path])
    subprocess.run(command.argv, env=command.env, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "big").stat().st_size == 4096
    done = sh("ulimit -d; ulimit -c", cwd=tmp_path, data_bytes=100 << 20)
    assert done.stdout.split() == [str((100 << 20) // 1024), "0"]


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_root_without_capabilities_can_start_programs(tmp_path: Path) -> None:
    """Root in a container without capabilities: user namespaces can be created there, but not used."""
    command = confined_command(SHELL, ["sh", "-c", "echo started"])
    dropped = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", *command.argv]
    done = subprocess.run(dropped, env=command.env, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("started\n", "")


def test_a_program_has_default_signal_handling(tmp_path: Path) -> None:
    done = sh("yes | head -n 1", cwd=tmp_path)
    assert (done.stdout.partition("\n")[0], done.stderr) == ("y", "")
    command = confined_command(SHELL, ["grep", "-E", "SigIgn|SigBlk", "/proc/self/status"])
    masks = subprocess.run(command.argv, env=command.env, capture_output=True, text=True).stdout.split()[1::2]
    blocked, ignored = (int(mask, 16) for mask in masks)
    # Background processes of a script may start with these signals ignored.
    ours = [
        number
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    inherited = sum(1 << number - 1 for number in ours)
    assert (blocked, ignored) == (0, inherited)


def test_a_missing_program_is_named_in_the_error(tmp_path: Path) -> None:
    command = confined_command(SHELL, ["no-such-program"])
    done = subprocess.run(command.argv, env=command.env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == NOT_EXECUTED
    assert "cannot execute no-such-program: No such file" in done.stderr


def test_an_impossible_grant_prevents_the_start(tmp_path: Path) -> None:
    command = confined_command(SHELL, ["echo", "started"], read=[tmp_path / "missing"])
    done = subprocess.run(command.argv, env=command.env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (NOT_CONFINED, "")
    assert f"cannot grant access to {tmp_path / 'missing'}: No such file" in done.stderr


def test_a_missing_required_layer_prevents_the_start() -> None:
    command = confined_command(SHELL, ["echo", "started"], required=["seccomp", "force-field"])
    done = subprocess.run(command.argv, env=command.env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (NOT_CONFINED, "")
    assert "force-field" in done.stderr


def test_a_different_parent_prevents_the_start() -> None:
    command = confined_command(SHELL, ["echo", "started"], parent=os.getpid() + 100_000)
    done = subprocess.run(command.argv, env=command.env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (NOT_CONFINED, "")
    kept = confined_command(SHELL, ["echo", "started"], parent=os.getpid())
    assert subprocess.run(kept.argv, env=kept.env, capture_output=True, text=True).stdout == "started\n"


def test_arguments_that_do_not_match_a_kind_are_refused() -> None:
    with pytest.raises(ConfineError, match="cannot execute programs"):
        confined_command(RUN_WORKER, ["true"])
    with pytest.raises(ConfineError, match="must name a program"):
        confined_command(SHELL, [])
    with pytest.raises(ConfineError, match="cannot have network access"):
        prepare(RUN_WORKER, network=True)
    with pytest.raises(ConfineError, match="connect needs network"):
        confined_command(SHELL, ["true"], connect=[443])
    with pytest.raises(ConfineError, match="connect is empty"):
        confined_command(SHELL, ["true"], network=True, connect=[])
    with pytest.raises(ConfineError, match="for workers"):
        confined_command(SHELL, ["true"], mode="log", report=7)
    with pytest.raises(ConfineError, match="needs a report descriptor"):
        prepare(RUN_WORKER, mode="log")
    with pytest.raises(ConfineError, match="force-field"):
        prepare(RUN_WORKER, required=["force-field"])
