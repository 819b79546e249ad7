"""The cost of workers and their benefit: start, first call, kill, memory, and a batch over all workers.

    python -m benches.bench_isolation [--quick]

`bench_call` compares a call in a worker with the same call in process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wasmrt.testing import attacks

from benches import _ways as ways
from benches._guests import Guest, guests
from benches._measure import Line, Report, Table, median, percentile, run, shown
from wasmrt import Isolation, PreparedTool
from wasmrt.core.errors import ComponentError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.isolation.pool.program import Program

WORKERS = 64
_MIB = 1024 * 1024


def measure(quick: bool) -> Report:
    report = Report()
    found, report.skipped = guests()
    of = {guest.key: guest for guest in found}
    rows: list[list[str]] = []
    with ways.runtime() as runtime:
        if "rust-echo" in of:
            echo = _prepared(runtime, of["rust-echo"])
            _starts(report, rows, echo, 20 if quick else 100)
            _kills(report, rows, echo, of["rust-echo"], 10 if quick else 50)
            _memory(rows, echo, of["rust-echo"])
        if "rust-json" in of:
            json = _prepared(runtime, of["rust-json"])
            _batch(report, json, of["rust-json"].params, 100 if quick else 400)
    report.tables.append(Table("Workers (Rust echo)", ["what", "p10", "p50", "p99"], rows))
    _attacks(report, 1 if quick else 3)
    return report


def _prepared(runtime: Any, guest: Guest) -> PreparedTool:
    tool = runtime.prepare(guest.key, guest.path.read_bytes(), ways.grant())
    return tool.tool(guest.tool) if len(tool.tools) > 1 else tool


def _program(tool: PreparedTool) -> Program:
    program = tool._target.component
    assert isinstance(program, Program)
    return program


def _starts(report: Report, rows: list[list[str]], tool: PreparedTool, count: int) -> None:
    program = _program(tool)
    times = []
    for _ in range(count):
        started = time.perf_counter_ns()
        worker = program._fork_worker(Lifetime(10))
        times.append(time.perf_counter_ns() - started)
        program.retire(worker)
    rows.append(_row("a worker forked, sealed and ready", times))
    report.lines.append(Line("start of a worker, forked, ms", median(times) / 1e6, 3.0))


def _kills(report: Report, rows: list[list[str]], tool: PreparedTool, guest: Guest, count: int) -> None:
    """Measure from the signal to the end of the next call, which uses a different worker."""
    program, times = _program(tool), []
    for _ in range(count):
        tool.execute(guest.params)
        worker = program._idle_workers.take(program, "local")
        assert worker is not None
        program._idle_workers.put(program, "local", worker)
        handle = os.pidfd_open(worker.pid)
        os.kill(worker.pid, signal.SIGKILL)
        started = time.perf_counter_ns()
        select.select([handle], [], [])  # the process has exited
        os.close(handle)
        tool.execute(guest.params)
        times.append(time.perf_counter_ns() - started)
    rows.append(_row("killed while it waited, to the next answer", times))
    report.lines.append(Line("a killed worker to the next answer of another, ms", median(times) / 1e6, 10.0))


def _memory(rows: list[list[str]], tool: PreparedTool, guest: Guest) -> None:
    program = _program(tool)
    workers = [program._fork_worker(Lifetime(10)) for _ in range(WORKERS)]
    try:
        shares = [_proportional(worker.pid) for worker in workers]
    finally:
        for worker in workers:
            program.retire(worker)
    if all(shares):
        shown_as = [f"{percentile(shares, percent) / _MIB:.1f} MiB" for percent in (10, 50, 99)]
        rows.append([f"proportional memory of each of {WORKERS} workers", *shown_as])


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _batch(report: Report, tool: PreparedTool, params: Any, count: int) -> None:
    """Make the same calls in a loop and with `execute_many`, in turn."""

    def loop() -> None:
        for _ in range(count):
            tool.execute(params)

    def many() -> None:
        for result in tool.execute_many(params for _ in range(count)):
            if result.error is not None:
                raise result.error

    one, two = [], []
    many()
    for _ in range(5):
        one.append(_timed(loop))
        two.append(_timed(many))
    seen = median(one) / median(two)
    report.lines.append(Line("JSON of 100 KB, execute_many over a loop", seen, 1.7, at_least=True))


def _attacks(report: Report, tries: int) -> None:
    """Run every attack in both isolations: the error type, and the maximum delay, the best of `tries`."""
    rows = []
    for isolation in (Isolation.PROCESS, Isolation.IN_PROCESS):
        late: dict[str, float] = {}
        typed = 0
        with ways.runtime(isolation=isolation) as runtime:
            for attack in attacks.ATTACKS:
                ends = [attacks.run(attack, runtime) for _ in range(tries)]
                typed += all(end.as_expected for end in ends)
                if not isinstance(ends[0].ended, ComponentError):  # the attack made no call
                    late[attack.name] = min(end.seconds for end in ends) - attack.limits.timeout_seconds
        name = max(late, key=late.__getitem__)
        rows.append([str(isolation), f"{typed} of {len(attacks.ATTACKS)}", f"{1000 * late[name]:.0f} ms", name])
        if isolation is Isolation.PROCESS:
            report.lines.append(Line("the latest attack, after its deadline, ms", 1000 * late[name], 100.0))
    report.tables.append(Table("Attacks", ["isolation", "typed as expected", "latest", "which"], rows))


def _timed(work: Callable[[], None]) -> int:
    started = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - started


def _row(what: str, times: list[int]) -> list[str]:
    return [what, *(shown(percentile(times, percent)) for percent in (10, 50, 99))]


if __name__ == "__main__":
    sys.exit(run(measure))
