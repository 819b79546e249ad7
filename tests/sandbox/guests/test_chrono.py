"""The timestamps that `time` reads, next to the answers of chrono and chrono-tz; each difference has a reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sandbox.guests.build import BUILT, HERE

TABLE, DIFFERENCES = HERE / "timestamps.txt", HERE / "timestamps_chrono.txt"


def rows(path: Path) -> list[list[str]]:
    return [line.split(" | ") for line in path.read_text().splitlines() if not line.startswith("# ")]


@pytest.mark.ci("toolchain")
@pytest.mark.timeout(900)
def test_chrono_reads_the_same_instants_except_for_listed_differences() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is missing: install Rust with rustup")
    expected = {given: answer for given, answer, *_ in rows(TABLE)}
    differences = {given: answer for given, answer, reason in rows(DIFFERENCES) if reason}
    done = subprocess.run(
        ["cargo", "run", "--quiet", "--locked", "--release", "-p", "chrono-answers"], cwd=HERE / "rust", check=True,
        env=os.environ | {"CARGO_TARGET_DIR": str(BUILT / "cargo")}, input="\n".join(expected), capture_output=True,
        text=True,
    )  # fmt: skip
    found = dict(zip(expected, done.stdout.splitlines(), strict=True))
    assert {given: answer for given, answer in found.items() if answer != expected[given]} == differences
    assert len(expected) >= 200
