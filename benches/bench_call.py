"""The cost of one call: C with the same library, raw wasmtime-py, Extism, and wasmrt bare and whole.

    python -m benches.bench_call [--quick]            medians, percentiles, rates, memory, and their ratios
    python -m pytest benches/bench_call.py            the same calls under pytest-benchmark, for the Rust echo

Every call has a separate store, except with Extism's reused plugin.
"""

from __future__ import annotations

import contextlib
import cProfile
import pstats
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benches import _ways as ways
from benches._guests import Guest, guests
from benches._measure import (
    Line,
    Report,
    Table,
    Way,
    clocked,
    in_turn,
    median,
    percentile,
    rates,
    ratio,
    resident_mib,
    run,
    shown,
    together,
)
from wasmrt import WasmToolRuntime

NO_RECEIPTS = "no receipts"
LONG_RUN = 20_000
_BLOCK = 1_000
_PROFILE_ROWS = 20
_MEMORY_CALLS = 300
_LARGE_BYTES = 10_000_000
_ALLOCATORS = ("pooling", "warm-pooling", "on-demand")
FLOOR, WARM_FLOOR = "C, pooling", "C, warm-pooling"
WHOLE, WORKER, UNRECORDED = "wasmrt whole", "wasmrt whole, in a worker", "wasmrt whole, no receipts"
_TWO_THREADS = {
    ("rust-echo", WHOLE): 1.8, ("rust-echo", WORKER): 1.3, ("rust-json", WHOLE): 1.8, ("rust-json", WORKER): 1.8
}  # fmt: skip
Times = dict[str, list[int]]


def measure(quick: bool) -> Report:
    report = Report()
    found, report.skipped = guests()
    with (
        ways.floor_program() as program,
        ways.runtime(isolation="in-process") as runtime,
        ways.runtime() as workers,
        ways.runtime(isolation="in-process", audit=None) as unrecorded,
    ):
        if program is None:
            report.skipped.append("C: no C compiler, so every ratio over C is missing")
        for guest in found:
            if quick and guest.path.stat().st_size > _LARGE_BYTES:
                report.skipped.append(f"{guest.title}: left out by --quick, because it takes long to compile")
                continue
            print(f"... {guest.title}", file=sys.stderr, flush=True)
            with everyone(program, (runtime, workers, unrecorded), guest) as (floors, here):
                every: list[Way] = [*floors, *here]
                times = in_turn(every, 8 if quick else 40)
                _tell(report, guest, times)
                if guest.key == "rust-echo":
                    _guards(report, guest, 5 if quick else 25)
                    _profile(report, here, 500 if quick else 5_000)
                    report.bars = [(name, median(taken) / 1e3) for name, taken in times.items()]
                    _long_run(report, floors, here, LONG_RUN // 5 if quick else LONG_RUN)
                if guest.key.startswith("rust"):
                    _held(report, guest, times)
                    _rates(report, guest, floors, here, 5 if quick else 15)
                if guest.key in {"rust-echo", "python-echo"}:
                    _memory(report, guest, floors)
    return report


@contextlib.contextmanager
def everyone(program: Any, runtimes: Any, guest: Guest) -> Iterator[tuple[list[ways.Floor], list[ways.Here]]]:
    """Yield all implementations for one guest."""
    # Large guests take long to compile, once for each C program.
    allocators = _ALLOCATORS[: 1 if guest.path.stat().st_size > _LARGE_BYTES else None]
    floors = [] if program is None else [ways.Floor(program, guest, name) for name in allocators]
    here = [ways.raw(guest), ways.bare(guest)]
    for name, runtime in zip((WHOLE, WORKER, UNRECORDED), runtimes, strict=True):
        here.append(ways.whole(runtime.prepare(guest.key, guest.path.read_bytes(), ways.grant()), guest, name=name))
    if guest.key == "rust-echo" and find_spec("extism") is not None:
        here += ways.extism(guest)
    try:
        yield floors, here
    finally:
        for floor in floors:
            floor.close()


def _tell(report: Report, guest: Guest, times: Times) -> None:
    columns = ["way", "p10", "p50", "p99", "p50 over C, pooling", "calls"]
    floor = times.get(FLOOR)
    rows = []
    for name, taken in times.items():
        over = "-" if floor is None else f"{ratio(taken, floor)[0]:.2f}"
        parts = [shown(percentile(taken, percent)) for percent in (10, 50, 99)]
        rows.append([name, *parts, over, f"{len(taken):,}"])
    report.tables.append(Table(guest.title, columns, rows))

    def line(question: str, way: str, over: str, target: float | None, note: str = "") -> None:
        if way in times and over in times:
            seen, low = ratio(times[way], times[over])
            report.lines.append(Line(f"{guest.title}, {question}", seen, target, low=low, note=note))

    # The targets apply to the Rust echo; the other guests are shown for comparison.
    is_echo = guest.key == "rust-echo"
    line("wasmrt bare, over the C floor with the pooling allocator", "wasmrt bare", FLOOR, 1.6 if is_echo else None)
    line("wasmrt whole, over the C floor", WHOLE, FLOOR, 2.0 if is_echo else None)
    since = "the target is from before there were receipts: ADR 8"
    line("wasmrt whole without receipts, over the C floor", UNRECORDED, FLOOR, 2.0 if is_echo else None, since)
    line("wasmrt whole in a worker, over the C floor", WORKER, FLOOR, 3.0 if is_echo else None)
    line("wasmrt whole in a worker, over in-process", WORKER, WHOLE, None)
    like_ours = "the pool keeps memory resident, as wasmrt does"
    line("wasmrt bare, over C with wasmrt's pool settings", "wasmrt bare", WARM_FLOOR, None, like_ours)
    line("wasmrt whole, over C with wasmrt's pool settings", "wasmrt whole", WARM_FLOOR, None, like_ours)
    line("wasmrt whole over raw wasmtime-py, without any checks", "wasmrt whole", "raw wasmtime-py",
         0.7 if is_echo else None)  # fmt: skip
    line("wasmrt whole over Extism with a fresh plugin", "wasmrt whole", "Extism, fresh plugin", 0.2)
    line("wasmrt whole over Extism with a fresh plugin of a module compiled before", "wasmrt whole",
         "Extism, fresh plugin, compiled before", None, "CompiledPlugin, which the SDK does not export")  # fmt: skip


def _guards(report: Report, guest: Guest, rounds: int) -> None:
    """Measure the cost of each guard: the whole path with and without it."""
    without: dict[str, dict[str, Any]] = {
        "everything on": {},
        "everything on, recorded": {"audit_record": True},
        "no rate limit of calls": {"call_rate_limit": None},
        NO_RECEIPTS: {"audit": None},
        "no rate limit, no receipts": {"call_rate_limit": None, "audit": None},
    }
    with contextlib.ExitStack() as stack:
        every = []
        for title, options in without.items():
            runtime = stack.enter_context(ways.runtime(isolation="in-process", **options))
            tool = runtime.prepare(guest.key, guest.path.read_bytes(), ways.grant())
            every.append(ways.whole(tool, guest, name=title))
        unguarded = runtime.prepare(guest.key, guest.path.read_bytes())
        every.append(ways.whole(unguarded, guest, name="no rate limit, no receipts, no grant"))
        every.append(ways.bare(guest))
        times = in_turn(every, rounds)
    full = times["everything on"]
    rows = [[name, shown(percentile(taken, 10)), shown(median(taken)), f"{ratio(taken, full)[0]:.2f}"]
            for name, taken in times.items()]  # fmt: skip
    seen, low = ratio(full, times[NO_RECEIPTS])
    report.lines.append(Line(f"{guest.title}, a call with its receipt over one without", seen, None, low=low))
    title = f"{guest.title}: what the guards of the whole path cost"
    report.tables.append(Table(title, ["whole path", "p10", "p50", "over everything on"], rows))


def _profile(report: Report, here: list[ways.Here], calls: int) -> None:
    """Profile a whole call. The profiler overstates the time of small Python functions."""
    whole = next(way for way in here if way.name == "wasmrt whole")
    profile = cProfile.Profile()
    profile.enable()
    whole.times(calls)
    profile.disable()
    stats = pstats.Stats(profile)
    rows = []
    by_own_time = sorted(stats.stats.items(), key=lambda item: -item[1][2])  # type: ignore[attr-defined]
    for (file, number, name), (_, count, own, total, _) in by_own_time[:_PROFILE_ROWS]:
        place = name if file == "~" else f"{'/'.join(Path(file).parts[-2:])}:{number} {name}"
        rows.append([place, f"{count / calls:.1f}", f"{own / calls * 1e6:.1f} us", f"{total / calls * 1e6:.1f} us"])
    title = "Rust echo: profile of a whole call"
    report.tables.append(Table(title, ["function", "calls", "own time", "with what it calls"], rows))


def _long_run(report: Report, floors: list[ways.Floor], here: list[ways.Here], calls: int) -> None:
    """p99 over p50 of one thread; the C program shows the part that the machine causes."""
    blocks: dict[str, list[list[int]]] = {}
    chosen: list[Way] = [*floors[:1], *(way for way in here if way.name in (WHOLE, WORKER))]
    for _ in range(calls // _BLOCK):
        for way in chosen:
            blocks.setdefault(way.name, []).append(way.times(_BLOCK))
    for name, taken in blocks.items():
        target = 3.0 if name in (WHOLE, WORKER) else None
        times = [one for block in taken for one in block]
        question = f"p99 over p50, one thread, {calls:,} calls, {name}"
        report.lines.append(Line(question, _spread(times), target, note=f"p50 {shown(median(times))}"))
        quiet = min(_spread(block) for block in taken)
        report.lines.append(Line(f"the same, in the quietest {_BLOCK:,} calls of them, {name}", quiet))


def _spread(times: list[int]) -> float:
    return percentile(times, 99) / median(times)


def _held(report: Report, guest: Guest, times: Times) -> None:
    """The most that threads could gain: the time beyond C holds the interpreter lock, so it is not parallel."""
    if WARM_FLOOR in times:
        whole, c = (percentile(times[name], 10) for name in ("wasmrt whole", WARM_FLOOR))
        question = f"{guest.title}, whole over the part of it that is not C: the most that two threads could give"
        report.lines.append(
            Line(question, min(2.0, whole / max(1.0, whole - c)), note="whatever else the machine does")
        )


def _rates(report: Report, guest: Guest, floors: list[ways.Floor], here: list[ways.Here], rounds: int) -> None:
    rows = []
    for way in here:
        count = max(10, int(1e8 / median(clocked(way.call, 20))))
        one, two = rates(way.call, count, rounds)
        rows.append([way.name, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}"])
        if way.name in (WHOLE, WORKER):
            question = f"{guest.title}, two threads over one, calls per second, {way.name}"
            report.lines.append(Line(question, two / one, _TWO_THREADS[guest.key, way.name], at_least=True))
    if len(floors) > 1:
        one, two = _rates_of_processes(floors[0], floors[1], rounds)
        rows.append(["C, one and two processes", f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}"])
        question = f"{guest.title}, two C processes over one, which is what this machine has to give"
        report.lines.append(Line(question, two / one))
    columns = ["way", "calls per second, 1 thread", "2 threads", "ratio"]
    report.tables.append(Table(f"{guest.title}: calls per second", columns, rows))


def _rates_of_processes(first: ways.Floor, second: ways.Floor, rounds: int) -> tuple[float, float]:
    """Return the rate of each process alone, and of both together; the processes have different guests."""
    floors = (first, second)
    count = [max(10, int(1e8 / median(floor.times(20)))) for floor in floors]
    alone, both = [], []
    for _ in range(rounds):
        jobs = [lambda floor=floor, n=n: floor.times(n) for floor, n in zip(floors, count, strict=True)]
        alone.append(sum(count) / sum(together([job]) for job in jobs))
        both.append(sum(count) / together(jobs))
    return median(alone), median(both)


def _memory(report: Report, guest: Guest, floors: list[ways.Floor]) -> None:
    """The resident memory of a process that has only made calls with one implementation."""
    rows = [["a bare Python", f"{_resident('nothing', guest):.0f}"]]
    rows += [[floor.name, f"{floor.resident_mib:.0f}"] for floor in floors]
    names = ["raw", "bare", "whole"] + (["extism"] if guest.key == "rust-echo" else [])
    rows += [[name, f"{_resident(name, guest):.0f}"] for name in names]
    report.tables.append(Table(f"{guest.title}: resident memory", ["process", "MiB"], rows))


def _resident(name: str, guest: Guest) -> float:
    command = [sys.executable, "-m", "benches.bench_call", "--resident", name, guest.key]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _be_resident(name: str, key: str) -> int:
    if name == "nothing":
        print(subprocess.run([sys.executable, "-c", _BARE_PYTHON], check=True, capture_output=True, text=True).stdout)
        return 0
    guest = next(guest for guest in guests()[0] if guest.key == key)
    with contextlib.ExitStack() as stack:
        if name == "raw":
            way = ways.raw(guest)
        elif name == "extism":
            way = ways.extism(guest)[1]
        else:
            runtime = stack.enter_context(ways.runtime(isolation="in-process"))
            way = ways.bare(guest) if name == "bare" else _whole(runtime, guest)
        way.times(_MEMORY_CALLS)
        print(resident_mib())
    return 0


def _whole(runtime: WasmToolRuntime, guest: Guest) -> ways.Here:
    return ways.whole(runtime.prepare(guest.key, guest.path.read_bytes(), ways.grant()), guest)


_BARE_PYTHON = "print(next(int(l.split()[1]) / 1024 for l in open('/proc/self/status') if l.startswith('VmRSS')))"


@pytest.mark.parametrize("name", ["raw wasmtime-py", "wasmrt bare", WHOLE, WORKER, "Extism, fresh plugin"])
def test_rust_echo(benchmark: Callable[..., Any], name: str) -> None:
    if name.startswith("Extism"):
        pytest.importorskip("extism", reason="uv pip install --group bench")
    guest = next((guest for guest in guests()[0] if guest.key == "rust-echo"), None)
    if guest is None:
        pytest.skip("cargo is missing")
    with (
        ways.runtime(isolation="in-process") as runtime,
        ways.runtime() as workers,
        ways.runtime(isolation="in-process", audit=None) as unrecorded,
        everyone(None, (runtime, workers, unrecorded), guest) as (_, here),
    ):
        benchmark(next(way.call for way in here if way.name == name))


if __name__ == "__main__":
    sys.exit(_be_resident(*sys.argv[2:4]) if sys.argv[1:2] == ["--resident"] else run(measure))
