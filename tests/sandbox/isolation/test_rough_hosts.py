"""Scarce resources and raising handlers of the embedding process neither abort it, hang it nor break the next call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.isolation.conftest import needs_seccomp

ROOT = Path(__file__).resolve().parents[3]
# A tracer would use threads and places of its own.
pytestmark = [needs_seccomp, pytest.mark.usefixtures("unmeasured")]


def rough(task: str, **options: Any) -> Any:
    command = [sys.executable, "-m", "tests.sandbox.isolation.rough", task]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.ci("slow")
def test_components_run_without_available_threads() -> None:
    assert rough("no_thread_left") == ["works", "works"]


@pytest.mark.ci("slow")
def test_exhausted_descriptors_are_reported_and_the_next_call_works() -> None:
    found = rough("no_descriptor_left")
    refused = "no worker process can be started (Too many open files)"
    assert found[0] == [refused, refused, "TrapError", "works"]
    assert refused not in found[-1]
    for called, prepared, *after in found:
        assert called == refused or "stack" in called
        assert prepared in (refused, "works")
        assert after == ["TrapError", "works"]


@pytest.mark.ci("slow")
def test_a_zygote_is_restarted_once_resources_are_available() -> None:
    *scarce, prepared, called = rough("no_descriptor_for_a_zygote")
    assert scarce[:2] == ["no worker process can be started (Too many open files)"] * 2
    assert set(scarce) <= {scarce[0], "works"}
    assert (prepared, called) == ("works", "works")


@pytest.mark.ci("slow")
def test_deep_recursion_on_a_small_stack_ends_in_a_trap() -> None:
    assert rough("small_stack") == ["TrapError", "TrapError", "works"]


@pytest.mark.ci("slow")
def test_a_raising_signal_handler_during_prepare_has_no_lasting_effect() -> None:
    found = rough("handler_in_prepare")
    assert found["tried"] >= 30
    assert found["work after it"] == found["tried"], found


@pytest.mark.ci("slow")
def test_a_process_with_an_unclosed_runtime_exits_cleanly() -> None:
    for _ in range(5):
        assert rough("never_closed") == "left"
