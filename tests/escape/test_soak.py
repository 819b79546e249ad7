"""The short version of benches/bench_soak.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def _bench() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "benches" / "bench_soak.py"
    spec = importlib.util.spec_from_file_location("bench_soak", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["bench_soak"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_calls_mixed_with_attacks_leave_nothing_behind() -> None:
    result = _bench().soak(6000, 4000)
    assert result["wrong"] == []
    assert result["attacks"] > 300
    assert result["descriptors_left"] == 0
    assert result["threads_left"] == 0
    assert result["growth"] < 0.15, result
