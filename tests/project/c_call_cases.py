"""Cases of `c_calls.txt`: the worst inputs of each C call at its bound, and inputs just over the bound.

`python -m tests.project.c_call_cases NAME` measures one case in a process of its own, and prints the measures as JSON.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

LATE_MS = 50
GROWTH_MIB = 32
_RUNS = 3

Make = Callable[[], Any]


class Case(NamedTuple):
    """A call over untrusted data. `call` returns if it accepts the data, and raises one of `refusals` otherwise."""

    call: Callable[[Any], object]
    small: Make
    """Data that loads what the call imports."""
    shapes: Mapping[str, Make]
    """The largest data of each costly shape. Some of it is refused when a bound of memory is reached."""
    over: Mapping[str, Make]
    """Data over a bound, which is refused before it is processed."""
    refusals: tuple[type[Exception], ...]


class Measure(NamedTuple):
    """Measures of one input."""

    shape: str
    is_over: bool
    """The input is over a bound, and must be refused."""
    outcome: str
    """`accepted`, `refused`, or an unexpected exception."""
    late_ms: float
    """The longest time that the call computed while another thread waited; the shortest of up to three runs.

    It is processor time of the calling thread, so that other load of the machine is not measured.
    """
    growth_mib: float
    seconds: float


def fill(text: str, size: int, begin: str = "[", end: str = "1]") -> str:
    """Return `text` repeated to about `size` bytes in UTF-8, in brackets."""
    return begin + text * ((size - len(begin) - len(end)) // len(text.encode("utf-8", "surrogatepass"))) + end


def series(template: str, size: int, begin: str = "[", end: str = "1]") -> str:
    """Return `template` with ascending numbers, repeated to about `size` bytes, in brackets."""
    each = len(template.format(10**6))
    return begin + "".join(template.format(10**6 + n) for n in range((size - len(begin) - len(end)) // each)) + end


def measure(name: str) -> Iterator[Measure]:
    """Yield the measures of one case."""
    case = case_of(name)
    case.call(case.small())
    gc.freeze()  # the collector otherwise visits all modules, which are not data of the call
    for is_over, shapes in ((False, case.shapes), (True, case.over)):
        for shape, make in shapes.items():
            yield _measure_shape(case, shape, make(), is_over=is_over)


def case_of(name: str) -> Case:
    """Return a case by name."""
    from tests.project import c_call_inputs

    return c_call_inputs.CASES[name]


def _measure_shape(case: Case, shape: str, data: Any, *, is_over: bool) -> Measure:
    outcome, late, growth, seconds = "", float("inf"), 0.0, 0.0
    for run in range(_RUNS):
        before = reset_peak()
        with ticks(time.pthread_getcpuclockid(threading.get_ident())) as gaps:
            started = time.monotonic()
            outcome = _outcome(case, data)
            seconds = time.monotonic() - started
        if run == 0:
            growth = (status_kib("VmHWM") - before) / 1024
        late = min(late, 1000 * max(gaps))
        if late <= LATE_MS:
            break
    return Measure(shape, is_over, outcome, round(late, 1), round(growth, 1), round(seconds, 3))


def _outcome(case: Case, data: Any) -> str:
    try:
        case.call(data)
    except case.refusals:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return "accepted"


@contextmanager
def ticks(clock: int) -> Iterator[list[float]]:
    """Run a second thread that wants to run every millisecond; yield the seconds between its steps.

    A call that holds the lock uses time of `clock` and of the wall. Other threads use only the first, other processes
    only the second, so the smaller one counts.
    """
    gaps, ended, ready = [0.0], threading.Event(), threading.Event()

    def tick() -> None:
        last, last_wall = time.clock_gettime(clock), time.monotonic()
        ready.set()
        while not ended.is_set():
            time.sleep(0.001)
            now, wall = time.clock_gettime(clock), time.monotonic()
            gaps.append(min(now - last, wall - last_wall))
            last, last_wall = now, wall

    thread = threading.Thread(target=tick)
    thread.start()
    ready.wait()
    try:
        yield gaps
    finally:
        ended.set()
        thread.join()


def reset_peak() -> int:
    """Return the resident memory in KiB, and make the peak equal to it."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return status_kib("VmRSS")


def status_kib(field: str) -> int:
    (found,) = re.findall(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found)


if __name__ == "__main__":
    for each in measure(sys.argv[1]):
        print(json.dumps(each), flush=True)
