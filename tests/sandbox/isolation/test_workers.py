"""Real guests compile and run in sealed processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.isolation.conftest import as_users, needs_seccomp
from wasmrt.sandbox.isolation.confine._syscalls import list_numbers

ROOT = Path(__file__).resolve().parents[3]
# A tracer would open files in the sealed process.
pytestmark = [needs_seccomp, pytest.mark.usefixtures("unmeasured")]


def sealed(task: str, user: int, *options: str) -> Any:
    command = [sys.executable, "-m", "tests.sandbox.isolation.sealed", task, str(user), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.ci("slow")
@as_users
def test_a_guest_mapped_before_runs_in_a_sealed_process(user: int) -> None:
    answer = sealed("run", user)
    assert answer["status"] == 0, answer
    assert {"seccomp", "capabilities", "limits", "no-new-privileges", "descriptors"} <= set(answer["layers"])
    assert answer["found"]["echoes"] == [True]
    assert answer["found"]["ws"] == "text of a"
    assert answer["found"]["count"] == 1


def test_traps_and_deadlines_stay_typed_in_a_sealed_process() -> None:
    assert len(sealed("run", 0)["found"]["faults"]) == 5


@pytest.mark.ci("slow")
@as_users
def test_a_sealed_process_compiles_to_the_same_code_and_asks_the_component(user: int) -> None:
    answer = sealed("compile", user)
    assert answer["status"] == 0, answer
    assert answer["found"]["digest"] == answer["outside"]
    assert answer["found"]["tools"] == ["json"]


@pytest.mark.ci("slow")
@pytest.mark.parametrize("task", ["run", "compile"])
def test_every_system_call_of_guests_and_compilers_is_allowed(task: str) -> None:
    answer = sealed(task, 0, "--log")
    assert answer["status"] == 0, answer
    assert answer["refused"] == []


def test_missing_calls_are_listed_while_the_worker_continues() -> None:
    answer = sealed("forgets", 0, "--log")
    assert answer["found"] == 3
    known = list_numbers()
    assert answer["refused"] == sorted(known[name] for name in ("openat", "fcntl", "kill"))


def test_without_tracing_a_missing_call_ends_the_worker() -> None:
    answer = sealed("forgets", 0)
    assert answer["status"] == signal.SIGSYS
    assert "found" not in answer


def test_a_worker_has_its_connection_and_no_variables() -> None:
    assert sealed("holds", 0)["found"] == {"open": [0, 1, 2, 3], "environment": {}}


def test_a_process_with_threads_is_refused_before_sealing() -> None:
    script = """
import threading
from wasmrt.sandbox.isolation.confine import RUN_WORKER, ConfineError, confine
threading.Thread(target=threading.Event().wait, daemon=True).start()
try:
    confine(RUN_WORKER)
except ConfineError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "a process with threads cannot be confined\n", done.stderr


def test_the_memory_limit_is_relative_to_the_sealed_worker() -> None:
    assert sealed("eats", 0)["found"] == "refused"
