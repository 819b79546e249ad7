"""The short version of benches/bench_soak.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from wasmrt.sandbox.isolation.pool.home import MAX_PROGRAMS

pytestmark = [pytest.mark.ci("soak"), pytest.mark.usefixtures("unmeasured")]


def _bench() -> ModuleType:
    path = Path(__file__).resolve().parents[3] / "benches" / "bench_soak.py"
    spec = importlib.util.spec_from_file_location("bench_soak", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["bench_soak"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_kills_leave_no_process_descriptor_permit_or_temporary_file() -> None:
    result = _bench().soak(4500, 1500, kill_every=25, seed=20)
    assert result["wrong"] == []
    assert result["kills"] > 100
    assert result["crashed"] > 0
    left = ("descriptors_left", "threads_left", "files_left", "permits_left")
    assert {key: result[key] for key in left} == dict.fromkeys(left, 0)
    assert result["workers_after"] <= result["workers_before"] + MAX_PROGRAMS  # other runtimes have workers, too
    assert result["growth"] < 0.05, result


def test_calls_mixed_with_attacks_leave_no_resources() -> None:
    result = _bench().soak(6000, 4000)
    assert result["wrong"] == []
    assert result["attacks"] > 300
    assert result["descriptors_left"] == 0
    assert result["threads_left"] == 0
    assert result["growth"] < 0.05, result
    assert result["growth_resident"] < 0.15, result
