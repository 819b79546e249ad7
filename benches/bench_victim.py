"""One user's guest during every attack: the delay of its deadline, and the memory growth of the host.

    python benches/bench_victim.py [--times N] [--isolation process|in-process] [--only NAME ...]

A guest that spins, with a deadline of one second, is called repeatedly while another user of the same runtime prepares
and calls each attack N times. The attacks include some without a hostile component (`_beside.py`), and each one ran
once before. Printed for each attack: what stopped it, the duration of its longest call, the maximum delay of the
victim's result after its deadline in milliseconds, and the maximum growth of the host's memory. Both isolations run in
separate processes, unless one is selected. A busy machine adds delays, which the first row shows.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from wasmrt.testing import attacks
from wasmrt.testing.attacks import ATTACKS, Attack, Body

from benches._beside import Move, moves
from wasmrt import Isolation, PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import DeadlineExceededError
from wasmrt.core.limits import MIB, ResourceLimits

DEADLINE_SECONDS = 1.0
LATE_SECONDS = 0.1
GROWTH_BYTES = 256 * MIB
_ALONE = 5
_SPIN = Attack(name="victim", about="", body=Body(execute="(loop $for-ever (br $for-ever)) (unreachable)"))


@dataclass(slots=True)
class Row:
    """One attack with its effects on the victim and the host."""

    attack: str
    stopped_by: str
    times: int
    seconds: float
    """The duration of the longest call, or of the longest compile if there was no call."""
    growth_bytes: int
    late: list[float] = field(default_factory=list)


class Victim:
    """Repeated calls of a guest that spins, on a separate thread."""

    def __init__(self, tool: PreparedTool) -> None:
        self._tool = tool
        self._late: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._call_over_and_over)

    def __enter__(self) -> list[float]:
        """Start, and return the list that gets the delay of each call."""
        self._thread.start()
        return self._late

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _call_over_and_over(self) -> None:
        while not self._over.is_set():
            started = time.monotonic()
            try:
                self._tool.execute({}, user="victim")
            except DeadlineExceededError:
                self._late.append(time.monotonic() - started - DEADLINE_SECONDS)


def measure(isolation: Isolation, times: int, only: list[str]) -> tuple[list[Row], int]:
    """Run every attack during the victim's calls; return the rows, and the growth of the host's memory in bytes."""
    rows = []
    chosen = [_made(attack) for attack in ATTACKS if not only or attack.name in only]
    with (
        WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation=isolation)) as runtime,
        moves(runtime, isolation) as others,
    ):
        limits = ResourceLimits(timeout_seconds=DEADLINE_SECONDS, fuel=2**60)
        tool = runtime.prepare("victim", _SPIN.component(), limits=limits)
        acts: dict[str, Callable[[], Move]] = {each.name: partial(_let_loose, each, runtime) for each in chosen}
        acts |= {name: act for name, act in others.items() if not only or name in only}
        for act in acts.values():  # loads everything that only some attacks need before the measurement
            act()
        rest = _resident()
        rows.append(_row("(none)", tool, _nothing, _ALONE))
        for name, act in acts.items():
            rows.append(_row(name, tool, act, times))
            print(".", end="", file=sys.stderr, flush=True)
        return rows, _resident() - rest


def _row(name: str, tool: PreparedTool, act: Callable[[], Move], times: int) -> Row:
    gc.collect()
    rest, longest, done = _restart_peak(), Move("", 0.0), 0
    until = time.monotonic() + DEADLINE_SECONDS * 1.2
    with Victim(tool) as late:
        while done < times or time.monotonic() < until:  # short attacks are repeated for a whole call
            longest, done = max(longest, act(), key=lambda move: move.seconds), done + 1
    return Row(name, longest.stopped_by, done, longest.seconds, _peak() - rest, late)


def _made(attack: Attack) -> Attack:
    """Return the attack with its component built in advance, because building is not part of the host's work."""
    return replace(attack, body=partial(bytes, attack.component()))


def _let_loose(attack: Attack, runtime: WasmToolRuntime) -> Move:
    outcome = attacks.run(attack, runtime)
    return Move(outcome.stopped_by, outcome.seconds)


def _nothing() -> Move:
    time.sleep(DEADLINE_SECONDS)
    return Move("", 0.0)


def _restart_peak() -> int:
    """Reset the peak memory of this process, and return the current memory."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def report(isolation: Isolation, times: int, only: list[str]) -> bool:
    """Print the table of one isolation, and return whether all bounds were met."""
    rows, left = measure(isolation, times, only)
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"\nisolation {isolation}, each attack at least {times} times; {load}")
    columns = f"{'took, ms':>10}{'late, ms':>10}{'median':>8}{'calls':>7}{'host, MiB':>11}"
    print(f"{'attack':34}{'stopped by':24}{'times':>7}{columns}")
    for row in rows:
        late = [seconds * 1000 for seconds in sorted(row.late)] or [0.0]
        numbers = f"{late[-1]:10.1f}{late[len(late) // 2]:8.1f}{len(late):7}{row.growth_bytes / MIB:11.0f}"
        numbers = f"{row.seconds * 1000:10.1f}{numbers}"
        print(f"{row.attack:34}{row.stopped_by:24}{row.times:7}{numbers}{'  LATE' * (late[-1] > LATE_SECONDS * 1000)}")
    worst = max(max(row.late, default=0.0) for row in rows[1:])
    growth = max(row.growth_bytes for row in rows)
    memory = f"host at most {growth / MIB:.0f} MiB more, {left / MIB:.0f} MiB at the end"
    print(f"worst {worst * 1000:.1f} ms late; {memory}")
    return worst <= LATE_SECONDS and growth <= GROWTH_BYTES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--isolation", choices=[str(Isolation.PROCESS), str(Isolation.IN_PROCESS)])
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    if given.isolation:
        return 0 if report(Isolation(given.isolation), given.times, given.only) else 1
    codes = [
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--isolation", str(kind)], check=False).returncode
        for kind in (Isolation.PROCESS, Isolation.IN_PROCESS)
    ]
    return codes[0]  # in-process isolation has no guarantee


if __name__ == "__main__":
    sys.exit(main())
