"""The cost of `prepare`: for the first time, from disk, and from memory.

    python -m benches.bench_prepare [--quick]

Cold includes a compile and the write to the cache. Warm is a runtime that finds the artifact on disk, authenticates
it, links it and reads the guest's description. The engine exists in both cases.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from pathlib import Path

from benches._guests import guests, near_agent_component
from benches._measure import Line, Report, Table, median, percentile, run, shown
from tests.sandbox.guests.build import ROOT
from wasmrt import WasmRuntimeConfig, WasmToolRuntime
from wasmrt.sandbox.guest.engine import wat2wasm

WANTED_BYTES = 600_000
_LARGE_BYTES = 2_000_000


def measure(quick: bool) -> Report:
    report = Report()
    components = {"a component of 600 KB": made_up()}
    components |= {
        path.stem: path.read_bytes() for path in sorted((ROOT / "wasmrt" / "catalog" / "shipped").glob("*.wasm"))
    }
    found, report.skipped = guests()
    components |= {guest.title: guest.path.read_bytes() for guest in found if guest.key.startswith(("qu", "py"))}
    columns = ["component", "KB", "cold", "warm from disk", "warm over cold", "from memory"]
    table = Table("prepare (medians)", columns, [])
    with tempfile.TemporaryDirectory() as folder, WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as keeper:
        keeper.prepare("keeper", components["echo"])  # keeps the engine for the runtimes below
        for title, data in components.items():
            if quick and len(data) > _LARGE_BYTES:
                report.skipped.append(f"prepare of {title}: left out by --quick")
                continue
            rounds = 1 if len(data) > _LARGE_BYTES else 3 if quick else 7
            cold, warm, again = _rounds(data, Path(folder), rounds)
            seen = median(warm) / median(cold)
            table.rows.append([title, f"{len(data) / 1000:.0f}", shown(median(cold)), shown(median(warm)),
                               f"{seen:.4f}", shown(median(again))])  # fmt: skip
            if title == "a component of 600 KB":
                low = percentile(warm, 10) / percentile(cold, 10)
                report.lines.append(Line("warm prepare of a 600 KB component over cold", seen, 0.02, low=low))
    report.tables.append(table)
    return report


_folders = itertools.count()


def _rounds(data: bytes, folder: Path, rounds: int) -> tuple[list[int], list[int], list[int]]:
    cold, warm, again = [], [], []
    for _ in range(rounds):
        cache = folder / str(next(_folders))
        with WasmToolRuntime(WasmRuntimeConfig(cache_dir=cache)) as runtime:
            cold.append(_prepare(runtime, data))
        for _ in range(5):
            with WasmToolRuntime(WasmRuntimeConfig(cache_dir=cache)) as runtime:
                warm.append(_prepare(runtime, data))
                again.append(_prepare(runtime, data))
    return cold, warm, again


def _prepare(runtime: WasmToolRuntime, data: bytes) -> int:
    started = time.perf_counter_ns()
    runtime.prepare("bench", data)
    return time.perf_counter_ns() - started


def made_up() -> bytes:
    """Return the WAT echo with enough further functions for 600 KB, so that no toolchain is needed."""
    text = (ROOT / "tests" / "sandbox" / "guests" / "wat" / "echo.wat").read_text()
    functions: list[str] = []
    one = len(wat2wasm(f"(module (memory 1) {_function(0)})")) - len(wat2wasm("(module (memory 1))"))
    functions = [_function(number) for number in range(WANTED_BYTES // one)]
    last = text.rindex(")")
    return near_agent_component(text[:last] + "\n".join(functions) + ")")


def _function(number: int) -> str:
    """Return a function with loads, stores, a loop and a branch, similar to compiled code."""
    steps = "\n".join(
        f"(local.set $b (i32.xor (i32.mul (local.get $b) (i32.const {number * 31 + step * 7 + 1})) "
        f"(i32.load offset={step * 4} (local.get $a))))\n"
        f"(if (i32.lt_s (local.get $b) (i32.const {step})) "
        f"(then (i32.store offset={step * 8} (local.get $a) (local.get $b))))"
        for step in range(12)
    )
    return (
        f'(func (export "f{number}") (param $a i32) (param $n i32) (result i32) (local $b i32)\n(loop $more {steps}\n'
        "(local.set $a (i32.add (local.get $a) (i32.const 4)))\n"
        "(br_if $more (i32.lt_u (local.get $a) (local.get $n))))\n(local.get $b))"
    )


if __name__ == "__main__":
    sys.exit(run(measure))
