"""What an agent's own process may lack or do: none of it aborts the process, hangs it or costs the next call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.isolation.conftest import needs_seccomp

ROOT = Path(__file__).resolve().parents[3]
# A tracer would take threads and places of its own.
pytestmark = [needs_seccomp, pytest.mark.usefixtures("unmeasured")]


def rough(task: str, **options: Any) -> Any:
    command = [sys.executable, "-m", "tests.sandbox.isolation.rough", task]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_where_no_thread_can_be_started_a_component_is_prepared_and_called_all_the_same() -> None:
    assert rough("no_thread_left") == ["works", "works"]


def test_where_no_descriptor_is_left_that_is_what_is_said_and_the_next_call_works() -> None:
    found = rough("no_descriptor_left")
    refused = "no worker process can be started (Too many open files)"
    assert found[0] == [refused, refused, "TrapError", "works"]
    assert refused not in found[4]
    for called, prepared, *after in found:
        assert called == refused or "stack" in called
        assert prepared in (refused, "works")
        assert after == ["TrapError", "works"]


def test_a_zygote_that_could_not_be_started_again_is_started_when_there_is_room() -> None:
    *scarce, prepared, called = rough("no_descriptor_for_a_zygote")
    assert scarce[:2] == ["no worker process can be started (Too many open files)"] * 2
    assert set(scarce) <= {scarce[0], "works"}
    assert (prepared, called) == ("works", "works")


def test_a_guest_that_recurses_on_a_thread_with_a_small_stack_ends_in_a_trap() -> None:
    assert rough("small_stack") == ["TrapError", "TrapError", "works"]


@pytest.mark.ci("slow")
def test_a_handler_that_raises_while_a_component_is_prepared_costs_nothing_after_it() -> None:
    found = rough("handler_in_prepare")
    assert found["tried"] >= 30
    assert found["work after it"] == found["tried"], found


@pytest.mark.ci("slow")
def test_a_process_that_never_closes_its_runtime_ends_as_it_should() -> None:
    for _ in range(5):
        assert rough("never_closed") == "left"
