"""Calls mixed with attacks, for hours' worth of them: what is left in the process afterwards.

    python benches/bench_soak.py [calls]      200,000 by default; prints JSON, ends with 1 where something grew

Resident memory is compared with its level after the first 10,000 calls.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wasmrt import ComponentError, LimitError, PreparedTool, ToolError, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.errors import DeadlineExceededError
from wasmrt.testing import attacks

CALLS = 200_000
WARM_CALLS = 10_000
GROWTH_ALLOWED = 0.05
THREADS = 4
_ATTACK_EVERY = 10
_SLOW_EVERY = 60  # often enough for every thread to have met most of them before the first level is taken


_SAMPLES = 5
_SAMPLE_CALLS = 200


@dataclass(frozen=True, slots=True)
class Level:
    """What the process holds."""

    resident_bytes: int
    descriptors: int
    threads: int


def level() -> Level:
    """What is held when nothing runs; threads that are kept for the next call are not counted yet."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Level(
        pages * os.sysconf("SC_PAGE_SIZE"),
        sum(1 for _ in Path("/proc/self/fd").iterdir()),
        threading.active_count() - _kept(),
    )


def _kept() -> int:
    return sum(thread.name == "wasmrt-guest" for thread in threading.enumerate())


def _kept_for_good() -> int:
    """How many of the kept threads do not end by themselves, as they should after ten seconds, or twenty."""
    until = time.monotonic() + 30
    while _kept() and time.monotonic() < until:
        time.sleep(0.1)
    return _kept()


class Soak:
    """Honest calls on several threads; every tenth is an attack, now and then a slow one."""

    def __init__(self, runtime: WasmToolRuntime) -> None:
        self._running = lambda: runtime.pipeline.admission.running
        self._honest = runtime.prepare("honest", attacks.Attack(name="", about="", body=attacks.Body()).component())
        self._quick: list[PreparedTool] = []
        self._slow: list[PreparedTool] = []
        for attack in (*attacks.CPU, *attacks.MEMORY, *attacks.HOST, *attacks.REACH, *attacks.ANSWERS):
            slow = DeadlineExceededError in attack.expects or attack.harmless or "megabytes" in attack.name
            with suppress(ComponentError, LimitError):  # some are refused before they can be called
                tool = runtime.prepare(attack.name, attack.component(), limits=attack.limits)
                (self._slow if slow else self._quick).append(tool)
        self.attacks = 0
        self.wrong: list[str] = []

    def run(self, calls: int) -> None:
        threads = [threading.Thread(target=self._some, args=(n, calls // THREADS)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until = time.monotonic() + 20
        while self._running() and time.monotonic() < until:  # guests that nobody waits for are still being put away
            time.sleep(0.01)
        time.sleep(0.5)  # and memory of those that somebody did is given back after the answer

    def _some(self, seed: int, calls: int) -> None:
        for number in range(seed, seed + calls):
            try:
                if number % _SLOW_EVERY == 1:
                    self._attack(self._slow[number // _SLOW_EVERY % len(self._slow)])
                elif number % _ATTACK_EVERY == 0:
                    self._attack(self._quick[number // _ATTACK_EVERY % len(self._quick)])
                elif self._honest.execute({"n": number}).result != {"ok": True}:
                    self.wrong.append("an honest call answered wrongly")
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
    """The middle of several looks, with calls between: what the allocators keep goes up and down by a few MiB."""
    looks = []
    for _ in range(_SAMPLES):
        work.run(_SAMPLE_CALLS)
        looks.append(level())
    looks.sort(key=lambda look: look.resident_bytes)
    return Level(
        looks[len(looks) // 2].resident_bytes,
        max(look.descriptors for look in looks),
        max(look.threads for look in looks),
    )


def soak(calls: int, warm: int) -> dict[str, object]:
    """Run `warm` calls, take the level, run the rest, and compare."""
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        work = Soak(runtime)
        work.run(warm)
        before = _median_level(work)
        started = time.monotonic()
        middle = calls - warm - 2 * _SAMPLES * _SAMPLE_CALLS
        work.run(middle)
        seconds = time.monotonic() - started
        after = _median_level(work)
        kept = _kept_for_good()
    growth = after.resident_bytes / before.resident_bytes - 1
    return {
        "calls": calls,
        "attacks": work.attacks,
        "calls_per_second": round(middle / seconds),
        "resident_mib_before": round(before.resident_bytes / 2**20, 1),
        "resident_mib_after": round(after.resident_bytes / 2**20, 1),
        "growth": round(growth, 4),
        "descriptors_left": after.descriptors - before.descriptors,
        "threads_left": after.threads - before.threads + kept,
        "wrong": work.wrong[:5],
    }


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    result = soak(calls, min(WARM_CALLS, calls // 2))
    print(json.dumps(result, indent=2))
    grew = not isinstance(result["growth"], float) or result["growth"] > GROWTH_ALLOWED
    return int(bool(grew or result["wrong"] or result["descriptors_left"] or result["threads_left"]))


if __name__ == "__main__":
    sys.exit(main())
