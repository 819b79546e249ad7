"""Run a large number of calls mixed with attacks and kills, and report resources that were not released.

    python benches/bench_soak.py [calls] [--warm N] [--isolation process] [--kill-every N] [--seed N]

Makes 200,000 calls by default, prints JSON, and exits with 1 if a resource has grown. The memory of the host and of the
worker templates is compared with its level after the first 10,000 calls. The memory in use on the C heap decides,
because the allocator retains fragments of free memory. A kill is a SIGKILL to a worker of the honest tool at an
arbitrary time; every twentieth kill ends the template of the worker, and every two hundredth ends its zygote.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from wasmrt.testing import attacks

from wasmrt import ComponentError, Isolation, LimitError, PreparedTool, ToolError, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import DeadlineExceededError, WorkerCrashedError

CALLS = 200_000
WARM_CALLS = 10_000
GROWTH_ALLOWED = 0.05
THREADS = 4
_ATTACK_EVERY = 10
_SLOW_EVERY = 60  # every thread meets most slow attacks before the first level is measured
_TEMPLATE_EVERY = 20
_ZYGOTE_EVERY = 200


_SAMPLES = 5
_SAMPLE_CALLS = 200


@dataclass(frozen=True, slots=True)
class Level:
    """The resources of this process and of the processes behind it."""

    resident_bytes: int
    used_bytes: int
    """Memory allocated by the C library, or the resident memory if the library does not report it."""
    descriptors: int
    """Open file descriptors, without two for each idle worker and zygote and one for each template, as those vary."""
    threads: int
    behind_bytes: int
    """The private memory of zygotes and templates."""
    workers: int
    files: int
    """Temporary files. Shared memory files do not count: wasmrt creates none, but other programs of the machine do."""


def level() -> Level:
    """Measure the resources while no call is running."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    zygotes = children(os.getpid())
    templates = [template for zygote in zygotes for template in children(zygote) if _runs(template)]
    resident = pages * os.sysconf("SC_PAGE_SIZE")
    return Level(
        resident,
        _used_bytes() or resident,
        _descriptors() - 2 * len(zygotes) - len(templates),
        threading.active_count(),
        sum(map(_private_bytes, (*zygotes, *templates))),
        sum(_runs(worker) for template in templates for worker in children(template)),
        sum(1 for _ in Path(tempfile.gettempdir()).iterdir()),
    )


def _descriptors() -> int:
    targets = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            targets.append(str(path.readlink()))
    return len(targets) - 2 * targets.count("anon_inode:[pidfd]")


class _HeapFigures(ctypes.Structure):
    """mallinfo2(3), glibc 2.33."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    ))  # fmt: skip


def _used_bytes() -> int:
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return 0
    library.mallinfo2.restype = _HeapFigures
    figures = library.mallinfo2()  # type: ignore[no-untyped-call]
    return int(figures.uordblks + figures.hblkhd)


def children(process: int) -> list[int]:
    """Return the child processes that were not yet reaped."""
    with suppress(OSError):
        return [int(child) for path in Path(f"/proc/{process}/task").iterdir() for child in _words(path / "children")]
    return []


def _words(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text().split()
    return []


def _runs(process: int) -> bool:
    """Return False for a process that was killed and will be reaped at the next fork."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _private_bytes(process: int) -> int:
    with suppress(OSError):
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_Dirty:"))
    return 0


class Killer:
    """Kills processes of one tool at arbitrary times."""

    def __init__(self, tool: PreparedTool, seed: int) -> None:
        self._tool = tool
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.kills = 0

    def kill(self) -> None:
        """Kill a worker, its template or its zygote."""
        program = self._tool._target.component
        template = getattr(program, "_template", None)  # private, because there is no public access to its process ID
        if template is None:
            return
        with self._lock:
            self.kills += 1
            victim = template._pid
            if self.kills % _ZYGOTE_EVERY == 0:
                victim = next((zygote for zygote in children(os.getpid()) if victim in children(zygote)), 0)
            elif self.kills % _TEMPLATE_EVERY:
                victim = self._random.choice(children(victim) or [0])
            if victim:
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)


class Soak:
    """Honest calls on several threads. Every tenth call is an attack, some of them slow.

    A process is killed every `kill_every` calls; 0 means never.
    """

    def __init__(self, runtime: WasmToolRuntime, kill_every: int, seed: int) -> None:
        self.running = lambda: runtime.pipeline.admission.running
        self._kill_every = kill_every
        self._honest = runtime.prepare("honest", attacks.Attack(name="", about="", body=attacks.Body()).component())
        self._quick: list[PreparedTool] = []
        self._slow: list[PreparedTool] = []
        for attack in (*attacks.CPU, *attacks.MEMORY, *attacks.HOST, *attacks.REACH, *attacks.ANSWERS):
            slow = DeadlineExceededError in attack.expects or attack.harmless or "megabytes" in attack.name
            with suppress(ComponentError, LimitError):  # some attacks are refused on preparation
                tool = runtime.prepare(attack.name, attack.component(), limits=attack.limits)
                (self._slow if slow else self._quick).append(tool)
        self.killer = Killer(self._honest, seed)
        self.attacks = self.crashed = 0
        self.wrong: list[str] = []

    def run(self, calls: int) -> None:
        threads = [threading.Thread(target=self._some, args=(n, calls // THREADS)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _some(self, seed: int, calls: int) -> None:
        for number in range(seed, seed + calls):
            if self._kill_every and number % self._kill_every == 0:
                self.killer.kill()
            try:
                if number % _SLOW_EVERY == 1:
                    self._attack(self._slow[number // _SLOW_EVERY % len(self._slow)])
                elif number % _ATTACK_EVERY == 0:
                    self._attack(self._quick[number // _ATTACK_EVERY % len(self._quick)])
                elif self._honest.execute({"n": number}).result != {"ok": True}:
                    self.wrong.append("an honest call had a wrong result")
            except WorkerCrashedError as error:
                self.crashed += 1
                if not self._kill_every:
                    self.wrong.append(f"no process was killed: {error}")
            except Exception as error:
                self.wrong.append(f"{type(error).__name__}: {error}")

    def _attack(self, tool: PreparedTool) -> None:
        self.attacks += 1
        try:
            tool.execute({})
        except ToolError as error:
            if error.code == "internal":
                self.wrong.append(f"{tool.name}: {error}")


def _median_level(work: Soak) -> Level:
    """Return the median of several measurements with calls in between, because allocator caches vary by a few MiB."""
    looks = []
    for _ in range(_SAMPLES):
        work.run(_SAMPLE_CALLS)
        looks.append(level())
    looks.sort(key=lambda look: look.resident_bytes)
    return Level(
        looks[len(looks) // 2].resident_bytes,
        sorted(look.used_bytes for look in looks)[len(looks) // 2],
        max(look.descriptors for look in looks),
        max(look.threads for look in looks),
        sorted(look.behind_bytes for look in looks)[len(looks) // 2],
        min(look.workers for look in looks),  # a killed worker takes a moment to exit
        max(look.files for look in looks),
    )


@contextmanager
def _own_temporary_files() -> Iterator[None]:
    """Use a separate folder for temporary files."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        try:
            yield
        finally:
            tempfile.tempdir = before


def soak(
    calls: int, warm: int, *, isolation: Isolation = Isolation.PROCESS, kill_every: int = 0, seed: int = 1
) -> dict[str, object]:
    """Make `warm` calls, measure the level, make the remaining calls, and compare."""
    with (
        _own_temporary_files(),
        WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation=isolation)) as runtime,
    ):
        work = Soak(runtime, kill_every, seed)
        work.run(warm)
        before = _median_level(work)
        started = time.monotonic()
        middle = calls - warm - 2 * _SAMPLES * _SAMPLE_CALLS
        work.run(middle)
        seconds = time.monotonic() - started
        after = _median_level(work)
        permits = work.running()
    return {
        "calls": calls,
        "isolation": str(isolation),
        "attacks": work.attacks,
        "kills": work.killer.kills,
        "crashed": work.crashed,
        "calls_per_second": round(middle / seconds),
        "resident_mib_before": round(before.resident_bytes / 2**20, 1),
        "resident_mib_after": round(after.resident_bytes / 2**20, 1),
        "growth_resident": round(after.resident_bytes / before.resident_bytes - 1, 4),
        "used_kib_before": before.used_bytes // 1024,
        "used_kib_after": after.used_bytes // 1024,
        "growth": round(after.used_bytes / before.used_bytes - 1, 4),
        "behind_mib_before": round(before.behind_bytes / 2**20, 1),
        "behind_mib_after": round(after.behind_bytes / 2**20, 1),
        "descriptors_left": after.descriptors - before.descriptors,
        "threads_left": after.threads - before.threads,
        "workers_before": before.workers,
        "workers_after": after.workers,
        "files_left": after.files - before.files,
        "permits_left": permits,
        "processes_left": len(children(os.getpid())),
        "wrong": work.wrong[:5],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="calls mixed with attacks, and resources that were not released")
    parser.add_argument("calls", nargs="?", type=int, default=CALLS)
    parser.add_argument("--warm", type=int, metavar="N", help="calls before the first level is measured")
    parser.add_argument("--isolation", type=Isolation, choices=list(Isolation), default=Isolation.PROCESS)
    parser.add_argument("--kill-every", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    result = soak(
        chosen.calls, min(WARM_CALLS, chosen.calls // 2) if chosen.warm is None else chosen.warm,
        isolation=chosen.isolation, kill_every=chosen.kill_every, seed=chosen.seed,
    )  # fmt: skip
    print(json.dumps(result, indent=2))
    grew = not isinstance(result["growth"], float) or result["growth"] > GROWTH_ALLOWED
    left = [result[key] for key in ("wrong", "descriptors_left", "threads_left", "permits_left", "processes_left")]
    return int(grew or any(left))


if __name__ == "__main__":
    sys.exit(main())
