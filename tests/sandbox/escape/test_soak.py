"""The short version of benches/bench_soak.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wasmrt.sandbox.isolation.pool.home import MAX_PROGRAMS

pytestmark = [pytest.mark.ci("soak"), pytest.mark.usefixtures("unmeasured")]
_BENCH = Path(__file__).resolve().parents[3] / "benches" / "bench_soak.py"


def _soak(*options: str) -> dict[str, Any]:
    """Run the bench as a process: descriptors of other tests, which are closed during the run, must not count."""
    done = subprocess.run([sys.executable, _BENCH, *options], capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def test_kills_leave_no_process_descriptor_permit_or_temporary_file() -> None:
    result = _soak("4500", "--warm", "1500", "--kill-every", "25", "--seed", "20")
    assert result["wrong"] == []
    assert result["kills"] > 100
    assert result["crashed"] > 0
    left = ("descriptors_left", "threads_left", "files_left", "permits_left")
    assert {key: result[key] for key in left} == dict.fromkeys(left, 0)
    assert result["workers_after"] <= result["workers_before"] + MAX_PROGRAMS
    assert result["growth"] < 0.05, result


def test_calls_mixed_with_attacks_leave_no_resources() -> None:
    result = _soak("6000", "--warm", "4000")
    assert result["wrong"] == []
    assert result["attacks"] > 300
    assert result["descriptors_left"] == 0
    assert result["threads_left"] == 0
    assert result["growth"] < 0.05, result
    assert result["growth_resident"] < 0.15, result
