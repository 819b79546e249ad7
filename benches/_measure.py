"""Run implementations in turn and evaluate the times. Other load then affects all of them alike."""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

TURN_SECONDS = 0.02
_LARGEST_TURN = 250
_WARM_CALLS = 20
_SLOW_SECONDS = 0.1


class Way(Protocol):
    """An implementation of the measured call."""

    name: str

    def times(self, count: int) -> list[int]:
        """Make `count` calls and return the nanoseconds of each."""


@dataclass(slots=True)
class Line:
    """One question, and its result."""

    question: str
    seen: float
    target: float | None = None
    """The upper bound, or the lower bound with `at_least`."""
    at_least: bool = False
    low: float | None = None
    """The same ratio for the tenth percentiles, which other load affects less."""
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.seen >= self.target if self.at_least else self.seen <= self.target

    def __str__(self) -> str:
        target = "" if self.target is None else f" (target: at {'least' if self.at_least else 'most'} {self.target:g})"
        low = "" if self.low is None else f", of tenth percentiles {self.low:.3g}"
        verdict = {None: "", True: " met", False: " NOT MET"}[self.met]
        return f"{self.question}: ratio {self.seen:.3g}{low}{target}{verdict}{f' - {self.note}' if self.note else ''}"


@dataclass(slots=True)
class Table:
    title: str
    columns: list[str]
    rows: list[list[str]]

    def __str__(self) -> str:
        widths = [max(len(row[i]) for row in [self.columns, *self.rows]) for i in range(len(self.columns))]
        lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in
                 [self.columns, *self.rows]]  # fmt: skip
        return "\n".join([f"\n{self.title}", *(line.rstrip() for line in lines)])


@dataclass(slots=True)
class Report:
    """The results of one file of benches/."""

    lines: list[Line] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    bars: list[tuple[str, float]] = field(default_factory=list)
    """For the chart: implementations and their medians in microseconds."""

    def __str__(self) -> str:
        parts = [str(table) for table in self.tables] + [""] + [str(line) for line in self.lines]
        return "\n".join(parts + [f"SKIPPED: {reason}" for reason in self.skipped])

    @classmethod
    def read(cls, path: Path) -> Report:
        raw = json.loads(path.read_text())
        return cls(
            [Line(**line) for line in raw["lines"]],
            [Table(**table) for table in raw["tables"]],
            raw["skipped"],
            [(name, value) for name, value in raw["bars"]],
        )


def run(measure: Callable[..., Report], folder: str = "") -> int:
    """Run the main program of one file: measure, print, and write the report to the file given with `--json`.

    With `folder`, the description of a folder, the program accepts its path, and passes it to `measure`.
    """
    parser = argparse.ArgumentParser()
    if folder:
        parser.add_argument("folder", nargs="?", type=Path, help=folder)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = measure(options.quick, options.folder) if folder else measure(options.quick)
    print(report)
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(report)))
    return 0


def clocked(work: Callable[[], object], count: int) -> list[int]:
    """Return the nanoseconds of each of `count` calls of `work`."""
    clock = time.perf_counter_ns
    times = []
    for _ in range(count):
        started = clock()
        work()
        times.append(clock() - started)
    return times


def in_turn(ways: Sequence[Way], rounds: int) -> dict[str, list[int]]:
    """Let every implementation make calls for the same short time, repeatedly."""
    counts = {way.name: _turn(way) for way in ways}
    times: dict[str, list[int]] = {way.name: [] for way in ways}
    for turn in range(rounds):
        # Every other round runs in reverse order, so that no implementation always follows the same one.
        for way in ways if turn % 2 else reversed(ways):
            times[way.name] += way.times(counts[way.name])
    return times


def _turn(way: Way) -> int:
    """Warm up an implementation, and return the number of calls in its turn."""
    if way.times(1)[0] / 1e9 > _SLOW_SECONDS:
        return 1
    way.times(_WARM_CALLS)
    one = median(way.times(5)) / 1e9
    return max(3, min(_LARGEST_TURN, int(TURN_SECONDS / one)))


def rates(work: Callable[[], object], count: int, rounds: int) -> tuple[float, float]:
    """Return the median calls per second of one thread and of two threads, measured in turn."""
    seen: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for threads in seen:
            seen[threads].append(count * threads / together([lambda: clocked(work, count)] * threads))
    return statistics.median(seen[1]), statistics.median(seen[2])


def together(jobs: Sequence[Callable[[], object]]) -> float:
    """Return the seconds from the start of all `jobs`, each on a thread, until all have finished."""
    start = threading.Barrier(len(jobs) + 1)

    def one(job: Callable[[], object]) -> None:
        start.wait()
        job()

    threads = [threading.Thread(target=one, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    start.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def median(times: Sequence[float]) -> float:
    return statistics.median(times)


def percentile(times: Sequence[float], percent: float) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def ratio(times: Sequence[float], over: Sequence[float]) -> tuple[float, float]:
    """Return the ratio of the medians, and of the tenth percentiles."""
    return median(times) / median(over), percentile(times, 10) / percentile(over, 10)


def resident_mib(process: int | str = "self") -> float:
    """Return the resident memory of a local process, in MiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError("the system does not report resident memory")


def shown(nanoseconds: float) -> str:
    """Format a time in a suitable unit."""
    for unit, scale in (("us", 1e3), ("ms", 1e6)):
        if nanoseconds < scale * 1000:
            return f"{nanoseconds / scale:.3g} {unit}"
    return f"{nanoseconds / 1e9:.3g} s"
