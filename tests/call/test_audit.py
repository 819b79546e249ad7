"""The audit file: every call that was answered is in it, once, whatever happens to the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.call.conftest import ECHO, until
from wasmrt import WasmRuntimeConfig, WasmToolRuntime
from wasmrt.call import AuditFile, AuditRecord
from wasmrt.errors import ConfigurationError
from wasmrt.guest.engine import wat2wasm
from wasmrt.model import Usage
from wasmrt.testing.attacks import tool

ECHO_BYTES = wat2wasm(tool(ECHO))


def record(number: int, user: str = "local") -> AuditRecord:
    return AuditRecord(number, f"call-{number}", "tool", "0" * 64, user, ("tool",), "ok", Usage(), (), 0)


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["time_ms"] for line in path.read_text().splitlines()]


def runtime(path: Path) -> WasmToolRuntime:
    return WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=path))


def test_a_record_is_in_the_file_soon_after_its_call_and_all_are_when_the_runtime_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with runtime(path) as open_runtime:
        echo = open_runtime.prepare("echo", ECHO_BYTES)
        first = echo.execute({}).call_id
        until(lambda: first in path.read_text())
        last = [echo.execute({}).call_id for _ in range(20)]
    assert [json.loads(line)["call_id"] for line in path.read_text().splitlines()] == [first, *last]
    assert not list(tmp_path.glob(".*"))


CRASH = """
import os, signal, sys
from wasmrt import WasmRuntimeConfig, WasmToolRuntime
echo = WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=__import__("pathlib").Path(sys.argv[1]))).prepare(
    "echo", sys.argv[2])
for n in range(50):
    print(echo.execute({"n": n}).call_id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_loses_no_record_of_a_call_that_it_answered(tmp_path: Path) -> None:
    path, component = tmp_path / "audit.jsonl", tmp_path / "echo.wasm"
    component.write_bytes(ECHO_BYTES)
    killed = subprocess.run([sys.executable, "-c", CRASH, path, component], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    answered = killed.stdout.split()
    assert len(answered) == 50
    AuditFile(path).close()
    audited = [json.loads(line)["call_id"] for line in path.read_text().splitlines()]
    assert list(dict.fromkeys(audited)) == answered
    assert not list(tmp_path.glob(".*.spool"))


def test_what_a_crash_left_behind_comes_into_the_file_it_was_meant_for(tmp_path: Path) -> None:
    for name in ("audit.1", "audit[1]"):
        child = [sys.executable, "-c", LEAVES, tmp_path / name]
        left = subprocess.run(child, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
        assert left.returncode == 1 and not left.stderr
    AuditFile(tmp_path / "audit").close()
    assert numbers(tmp_path / "audit") == []
    for name in ("audit.1", "audit[1]"):
        AuditFile(tmp_path / name).close()
        assert set(numbers(tmp_path / name)) == {7}


LEAVES = """
import os, sys
from pathlib import Path
from tests.call.test_audit import AuditFile, record
audit = AuditFile(Path(sys.argv[1]))
audit(record(7))
os._exit(1)
"""


def test_an_interpreter_that_ends_without_closing_writes_what_waits(tmp_path: Path) -> None:
    path, component = tmp_path / "audit.jsonl", tmp_path / "echo.wasm"
    component.write_bytes(ECHO_BYTES)
    script = CRASH.replace("os.kill(os.getpid(), signal.SIGKILL)", "")
    ended = subprocess.run([sys.executable, "-c", script, path, component], capture_output=True, text=True, check=True)
    assert [json.loads(line)["call_id"] for line in path.read_text().splitlines()] == ended.stdout.split()


def test_more_than_the_spool_holds_comes_whole_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(path)
    for number in range(2000):
        audit(record(number, user="u" * (number % 900 + 1)))
    audit(record(2000, user="long" * 50_000))
    audit(record(2001))
    audit.close()
    assert numbers(path) == list(range(2002))


def test_two_that_share_a_file_leave_each_others_spools_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    one = AuditFile(path)
    one(record(1))
    other = AuditFile(path)
    other(record(2))
    one(record(3))
    one.close()
    other.close()
    assert sorted(numbers(path)) == [1, 2, 3]


def test_a_spool_that_no_process_of_ours_can_have_left_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    os.mkfifo(tmp_path / ".audit.jsonl.1-1.spool")
    (tmp_path / ".audit.jsonl.1-2.spool").symlink_to("/dev/zero")
    (tmp_path / ".audit.jsonl.1-3.spool").write_bytes(b"\xff" * 20)
    (tmp_path / ".audit.jsonl.1-4.spool").write_bytes(b"")
    audit = AuditFile(path)
    audit(record(1))
    audit.close()
    assert numbers(path) == [1]


def test_a_forked_child_that_ends_takes_nothing_of_its_parents(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(path)
    audit(record(1))
    child = subprocess.run(  # a fork in a process of its own, which has no other threads
        [sys.executable, "-W", "ignore", "-c", FORK, path],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout == "done\n"
    audit.close()
    assert sorted(numbers(path)) == [1, 2, 3]


FORK = """
import os, sys
from pathlib import Path
from tests.call.test_audit import AuditFile, record
audit = AuditFile(Path(sys.argv[1]))
audit(record(2))
if (child := os.fork()) == 0:
    sys.exit(0)
os.waitpid(child, 0)
audit(record(3))
audit.close()
print("done")
"""


FULL = """
import resource, sys
from pathlib import Path
from tests.call.test_audit import AuditFile, record
from wasmrt.errors import ConfigurationError
audit = AuditFile(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
audit(record(1))
try:
    audit.close()
except ConfigurationError:
    print("full")
"""


def test_what_finds_no_room_when_the_file_is_closed_waits_for_the_next_that_opens_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    full = subprocess.run(
        [sys.executable, "-c", FULL, path],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert full.stdout == "full\n"
    AuditFile(path).close()
    assert numbers(path) == [1]
    assert not list(tmp_path.glob(".*"))


def test_a_closed_file_takes_no_record(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl")
    audit.close()
    audit.close()
    with pytest.raises(ConfigurationError, match="closed"):
        audit(record(1))
