"""Generated components are accepted or refused with a typed error; they neither crash nor hang the process.

WASMRT_FUZZ is the number of components, 240 by default; `python tools/fuzz.py` runs 20,000 and prints the figures.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.sandbox.fuzz import child
from tests.sandbox.fuzz.campaign import CampaignReport, Child, run_campaign
from tests.sandbox.fuzz.components import Generator, Sample
from wasmrt.authoring.project import find_wasm_tools
from wasmrt.core.errors import InvalidComponentError, MissingToolchainError

pytestmark = pytest.mark.usefixtures("unmeasured")
SEED = 1
COUNT = int(os.environ.get("WASMRT_FUZZ", "240"))
OUTCOME = {"install": "accepted", "install_seconds": 0.0, "prepare": "accepted", "prepare_seconds": 0.0, "peak_kib": 1}


@pytest.fixture(autouse=True)
def wasm_tools() -> None:
    try:
        find_wasm_tools()
    except MissingToolchainError as missing:
        pytest.skip(f"{missing.message}: {missing.hint}")


@pytest.mark.timeout(3600)
@pytest.mark.ci("slow")
def test_every_component_is_accepted_or_refused_with_a_typed_error() -> None:
    report = run_campaign(SEED, range(COUNT))
    assert report.failures == []
    assert report.count == COUNT
    # A campaign with only one kind of outcome would prove nothing.
    assert set(report.kinds) == {"smith", "wit-smith", "mutate", "bytes"}
    assert {"accepted", "InvalidComponentError", "UnknownWorldError"} <= set(report.installs)
    assert {"accepted", "InvalidComponentError", "InstantiationError"} <= set(report.prepares)
    assert report.prepares["accepted"] > COUNT / 10


@pytest.mark.ci("slow")
def test_a_seed_and_a_number_always_generate_the_same_component(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    one, two = (Generator(SEED, tmp_path / folder) for folder in ("one", "two"))
    for number in (3, 1, 2):
        made = one.make(number)
    assert two.make(2) == made


def test_a_crash_is_detected_and_reported(tmp_path: Path) -> None:
    process = Child(tmp_path)
    try:
        assert isinstance(process.attempt(b""), dict)
        os.kill(process.pid, signal.SIGKILL)
        assert process.attempt(b"") == "the process crashed with exit code -9"
    finally:
        process.close()


def test_an_untyped_error_is_a_failure_with_its_traceback() -> None:
    outcome: dict[str, object] = {}

    def fails(_data: bytes) -> None:
        raise ValueError("escaped")

    def refuses(_data: bytes) -> None:
        raise InvalidComponentError("no")

    child.attempt(outcome, "install", refuses, b"")
    child.attempt(outcome, "prepare", fails, b"")
    assert outcome["install"] == "InvalidComponentError"
    report = CampaignReport()
    report.add(Sample("seed 1, number 2: bytes", b""), OUTCOME | outcome)
    (failure,) = report.failures
    assert failure.startswith("seed 1, number 2: bytes: prepare: untyped ValueError\n")
    assert "escaped" in failure


def test_disagreeing_readers_are_a_failure_and_slowness_is_reported() -> None:
    report = CampaignReport()
    report.add(
        Sample("seed 1, number 2: bytes", b""), OUTCOME | {"mismatch": "imports differ", "prepare_seconds": 99.0}
    )
    assert report.failures == ["seed 1, number 2: bytes: imports differ"]
    assert report.slow == ["seed 1, number 2: bytes: prepare took 99.0 s"]
