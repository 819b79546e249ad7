"""A campaign: run generated components in a child process, and report those that violate a guarantee."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.sandbox.fuzz.child import ACCEPTED, LENGTH, UNTYPED
from tests.sandbox.fuzz.components import Generator, Sample
from tests.sandbox.guests.build import ROOT

HANG_SECONDS = 60.0
"""Seconds after which a component counts as hanging, and its process is killed."""
INSTALL_SECONDS = 2.0
PREPARE_SECONDS = 15.0
"""Seconds for compilation, plus a description within limits.DESCRIBE_SECONDS."""


@dataclass(slots=True)
class CampaignReport:
    """The figures of a campaign."""

    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    installs: Counter[str] = field(default_factory=Counter)
    prepares: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, tuple[float, str]] = field(default_factory=dict)
    peak_kib: int = 0
    failures: list[str] = field(default_factory=list)
    """Crashes, hangs, untyped errors and disagreements, each with its recipe."""
    slow: list[str] = field(default_factory=list)

    def add(self, sample: Sample, outcome: dict[str, Any]) -> None:
        self.count += 1
        self.kinds[sample.recipe.rpartition(" ")[2]] += 1
        self.installs[outcome["install"]] += 1
        self.prepares[outcome["prepare"]] += 1
        self.peak_kib = max(self.peak_kib, outcome["peak_kib"])
        for what, most in (("install", INSTALL_SECONDS), ("prepare", PREPARE_SECONDS)):
            seconds = outcome[f"{what}_seconds"]
            self.slowest[what] = max(self.slowest.get(what, (0.0, "")), (seconds, sample.recipe))
            if seconds > most:
                self.slow.append(f"{sample.recipe}: {what} took {seconds:.1f} s")
            if outcome[what].startswith(UNTYPED):
                self.failures.append(f"{sample.recipe}: {what}: {outcome[what]}\n{outcome['trace']}")
        if outcome.get("mismatch"):
            self.failures.append(f"{sample.recipe}: {outcome['mismatch']}")

    @property
    def accepted(self) -> int:
        return self.prepares[ACCEPTED]


def run_campaign(
    seed: int, numbers: Iterable[int], progress: Callable[[CampaignReport], None] = lambda _report: None
) -> CampaignReport:
    """Generate the components of a seed and these numbers, run each in a child process, and return the report."""
    report = CampaignReport()
    with TemporaryDirectory(prefix="wasmrt-fuzz-") as name:
        folder = Path(name)
        generator = Generator(seed, folder)
        child = Child(folder)
        try:
            for number in numbers:
                sample = generator.make(number)
                outcome = child.attempt(sample.data)
                if isinstance(outcome, str):
                    report.failures.append(f"{sample.recipe}: {outcome}")
                    child.close()
                    child = Child(folder)
                else:
                    report.add(sample, outcome)
                    progress(report)
        finally:
            child.close()
    return report


class Child:
    """A process of tests.sandbox.fuzz.child."""

    def __init__(self, folder: Path) -> None:
        env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sandbox.fuzz.child"],
            cwd=ROOT,
            env=env | {"WASMRT_HOME": str(folder / "home")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def attempt(self, data: bytes) -> dict[str, Any] | str:
        """Return the outcome of a component, or that the process crashed or hung."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(LENGTH.pack(len(data)) + data)
            stdin.flush()
        except BrokenPipeError:
            return self._crash()
        ends_at = time.monotonic() + HANG_SECONDS
        if not select.select([stdout], [], [], max(0.0, ends_at - time.monotonic()))[0]:
            return f"no answer after {HANG_SECONDS:g} s"
        line = stdout.readline()
        if not line:
            return self._crash()
        outcome: dict[str, Any] = json.loads(line)
        return outcome

    def _crash(self) -> str:
        return f"the process crashed with exit code {self._process.wait()}"

    def close(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.wait()
