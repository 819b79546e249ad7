"""The audit file: every call that was answered is in it, once, whatever happens to the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.call.conftest import ECHO
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


def test_a_record_is_in_the_file_before_its_call_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with runtime(path) as open_runtime:
        echo = open_runtime.prepare("echo", ECHO_BYTES)
        for calls in range(1, 4):
            answered = echo.execute({}).call_id
            lines = path.read_text().splitlines()
            assert len(lines) == calls and json.loads(lines[-1])["call_id"] == answered


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
    assert [json.loads(line)["call_id"] for line in path.read_text().splitlines()] == answered


def test_records_of_every_size_come_whole_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(path)
    for number in range(2000):
        audit(record(number, user="u" * (number % 900 + 1)))
    audit(record(2000, user="long" * 50_000))
    audit(record(2001))
    audit.close()
    assert numbers(path) == list(range(2002))


def test_two_can_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    one = AuditFile(path)
    one(record(1))
    other = AuditFile(path)
    other(record(2))
    one(record(3))
    one.close()
    other.close()
    assert sorted(numbers(path)) == [1, 2, 3]


FULL = """
import resource, signal, sys
from pathlib import Path
from tests.call.test_audit import AuditFile, record
from wasmrt.errors import ConfigurationError
audit = AuditFile(Path(sys.argv[1]))
audit(record(1))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
try:
    audit(record(2))
except ConfigurationError as error:
    print(error.hint)
"""


def test_a_record_that_finds_no_room_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    child = [sys.executable, "-c", FULL, path]
    full = subprocess.run(child, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert full.stdout == "make room for the audit file\n"
    assert numbers(path) == [1]


def test_a_closed_file_takes_no_record(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl")
    audit.close()
    audit.close()
    with pytest.raises(ConfigurationError, match="closed"):
        audit(record(1))


FORKED = """
import os, sys, threading
from pathlib import Path
from tests.call.test_audit import AuditFile
audit = AuditFile(Path(sys.argv[1]))
audit._lock.acquire()  # as a thread of the parent may hold it at the fork
if os.fork() == 0:
    audit.close()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))
os._exit(0)
"""


def test_a_forked_child_closes_without_the_locks_of_its_parent(tmp_path: Path) -> None:
    child = [sys.executable, "-c", FORKED, tmp_path / "audit.jsonl"]
    forked = subprocess.run(
        child, capture_output=True, text=True, check=True, timeout=60, cwd=Path(__file__).parents[2]
    )
    assert forked.stdout == "7\n"


def test_an_audit_file_that_nobody_reads_is_an_error_and_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit")
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        AuditFile(tmp_path / "audit")
