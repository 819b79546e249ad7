"""The cost of receipts: of one record, of a call with its receipt, and of two processes that write to one folder.

python -m benches.bench_receipts [--quick]
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benches import _ways as ways
from benches._guests import Guest, guests
from benches._measure import Line, Report, Table, clocked, in_turn, median, percentile, run, shown
from wasmrt.core.model import Usage
from wasmrt.runtime.audit import Receipt, ReceiptWriter

CALL = Receipt(
    started_ms=1_800_000_000_000, ended_ms=1_800_000_000_001, trace_id="9de13d248339-1", call_id="9de13d248339-1",
    tool="echo", kind="component", digest="0" * 64, user="local", chain=("echo",), args_hash="a" * 64,
    output_hash="b" * 64, usage=Usage(fuel=12345, wall_seconds=0.000123, params_bytes=16, output_bytes=4),
)  # fmt: skip
WITH, WITHOUT = "a call with its receipt", "a call without receipts"
_TARGET_MICROSECONDS = 10.0


def measure(quick: bool) -> Report:
    report = Report()
    found, report.skipped = guests()
    with tempfile.TemporaryDirectory() as folder:
        writer = ReceiptWriter(Path(folder, "receipts"), Path(folder, "key"))
        times = {"a record": clocked(lambda: writer(CALL), 2_000 if quick else 50_000)}
        writer.close()
    guest = next((each for each in found if each.key == "rust-echo"), None)
    if guest is not None:
        times |= _calls(guest, 20 if quick else 100)
        for rank, name in ((10, "tenth percentiles"), (50, "medians")):
            more = (percentile(times[WITH], rank) - percentile(times[WITHOUT], rank)) / 1e3
            report.lines.append(Line(f"receipt of a call, microseconds, {name}", more, _TARGET_MICROSECONDS))
    rows = [[name, shown(percentile(taken, 10)), shown(median(taken))] for name, taken in times.items()]
    report.tables.append(Table("Receipts", ["what", "p10", "p50"], rows))
    _processes(report, 3 if quick else 15, 2_000 if quick else 10_000)
    return report


def _calls(guest: Guest, rounds: int) -> dict[str, list[int]]:
    with contextlib.ExitStack() as stack:
        every = []
        for name, options in ((WITH, {}), (WITHOUT, {"audit": None})):
            runtime = stack.enter_context(ways.runtime(isolation="in-process", **options))
            every.append(ways.whole(runtime.prepare(guest.key, guest.path.read_bytes()), guest, name=name))
        return in_turn(every, rounds)


_WRITING = """
import sys
from pathlib import Path
from benches.bench_receipts import CALL, ReceiptWriter
writer = ReceiptWriter(Path(sys.argv[1], "receipts"), Path(sys.argv[1], "key"))
writer(CALL)
while line := sys.stdin.readline():
    for _ in range(int(line)):
        writer(CALL)
    print(flush=True)
"""


def _processes(report: Report, rounds: int, count: int) -> None:
    """Compare the records a second of two processes with those of one, in turn."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        command = [sys.executable, "-c", _WRITING, folder]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started = [stack.enter_context(subprocess.Popen(command, text=True, **pipes)) for _ in rates]  # type: ignore[call-overload]
        for _ in range(rounds + 1):
            for number, seen in rates.items():
                begun = time.perf_counter()
                for process in started[:number]:
                    process.stdin.write(f"{count}\n")
                    process.stdin.flush()
                for process in started[:number]:
                    process.stdout.readline()
                seen.append(number * count / (time.perf_counter() - begun))
    one, two = (median(seen[1:]) for seen in rates.values())
    rows = [["1", f"{one:,.0f}"], ["2", f"{two:,.0f}"]]
    report.tables.append(Table("Receipts a second, all processes in one folder", ["processes", "a second"], rows))
    report.lines.append(Line("receipts a second, two processes over one", two / one, 1.9, at_least=True))


if __name__ == "__main__":
    sys.exit(run(measure))
