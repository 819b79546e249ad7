"""Taking turns, and what is read from the times: on a busy machine only figures of one run, taken in turn, compare."""

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
    """One way to make the same call."""

    name: str

    def times(self, count: int) -> list[int]:
        """Make `count` calls and return the nanoseconds of each."""


@dataclass(slots=True)
class Line:
    """One question, and how it was answered."""

    question: str
    seen: float
    target: float | None = None
    """At most this, unless `at_least`."""
    at_least: bool = False
    low: float | None = None
    """The same ratio of the tenth percentiles, which neighbours spoil less."""
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
    """What one file of benches/ found."""

    lines: list[Line] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    bars: list[tuple[str, float]] = field(default_factory=list)
    """For the chart: a way and its median in microseconds."""

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


def run(measure: Callable[[bool], Report]) -> int:
    """Be the main program of one file: measure, print, and write the report where `--json` says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = measure(options.quick)
    print(report)
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(report)))
    return 0


def clocked(work: Callable[[], object], count: int) -> list[int]:
    """Nanoseconds of each of `count` calls of `work`."""
    clock = time.perf_counter_ns
    times = []
    for _ in range(count):
        started = clock()
        work()
        times.append(clock() - started)
    return times


def in_turn(ways: Sequence[Way], rounds: int) -> dict[str, list[int]]:
    """Let every way make calls for the same short time, over and over."""
    counts = {way.name: _turn(way) for way in ways}
    times: dict[str, list[int]] = {way.name: [] for way in ways}
    for turn in range(rounds):
        # Every other round backwards, so that nobody is always behind the same neighbour.
        for way in ways if turn % 2 else reversed(ways):
            times[way.name] += way.times(counts[way.name])
    return times


def _turn(way: Way) -> int:
    """Warm a way up, and say how many calls its turn has."""
    if way.times(1)[0] / 1e9 > _SLOW_SECONDS:
        return 1
    way.times(_WARM_CALLS)
    one = median(way.times(5)) / 1e9
    return max(3, min(_LARGEST_TURN, int(TURN_SECONDS / one)))


def rates(work: Callable[[], object], count: int, rounds: int) -> tuple[float, float]:
    """Median calls per second of one thread and of two, which take turns."""
    seen: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for threads in seen:
            seen[threads].append(count * threads / together([lambda: clocked(work, count)] * threads))
    return statistics.median(seen[1]), statistics.median(seen[2])


def together(jobs: Sequence[Callable[[], object]]) -> float:
    """Seconds from the start of all `jobs`, each on a thread, until the last is done."""
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
    """Of the medians, and of the tenth percentiles."""
    return median(times) / median(over), percentile(times, 10) / percentile(over, 10)


def resident_mib(process: int | str = "self") -> float:
    """Resident memory of a process of this machine, in MiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError("no resident memory is told")


def shown(nanoseconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, scale in (("us", 1e3), ("ms", 1e6)):
        if nanoseconds < scale * 1000:
            return f"{nanoseconds / scale:.3g} {unit}"
    return f"{nanoseconds / 1e9:.3g} s"
