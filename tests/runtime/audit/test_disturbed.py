"""Receipts on disks that fill up at any byte, with clocks that jump, with links in their folder, and after a kill."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import wasmrt.runtime.audit._writer as writing
from tests.runtime.audit.conftest import Chain, receipt
from tests.runtime.audit.test_writer import calls, no_file_over, records
from wasmrt.core.errors import ConfigurationError
from wasmrt.runtime.audit import ReceiptWriter
from wasmrt.runtime.audit.reading import last_receipts
from wasmrt.runtime.audit.verify import BreakKind

Open = Callable[[], ReceiptWriter]

# -- full disks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def line_bytes(tmp_path: Path) -> int:
    """The size of the line of the second receipt."""
    chain = Chain(tmp_path / "measured")
    chain.write(2)
    return len(chain.lines()[-1])


def test_a_disk_that_is_full_after_any_byte_of_a_line_loses_only_that_receipt(
    chain: Chain, open_writer: Open, line_bytes: int
) -> None:
    writer = open_writer()
    writer(receipt(1))
    whole = chain.file().stat().st_size
    for room in range(line_bytes):
        with no_file_over(whole + room), pytest.raises(ConfigurationError, match="cannot write the receipt"):
            writer(receipt(2))
        assert chain.file().stat().st_size == whole
    with no_file_over(whole + line_bytes):
        writer(receipt(2))
    assert calls(chain) == ["call-1", "call-2"]
    assert (chain.verified().broken, chain.verified().notes) == (None, ())


@pytest.mark.parametrize("room", [0, 256, 300, 400])
def test_a_disk_that_is_full_at_the_start_of_a_segment_loses_only_those_receipts(
    chain: Chain, open_writer: Open, room: int
) -> None:
    """The head fits, or its bytes are already on the disk; what does not fit is the first record of the segment."""
    writer, lost = open_writer(), []
    for number in range(400):
        if number % 3 == 0:
            with no_file_over(room), pytest.raises(ConfigurationError, match="cannot write the receipt"):
                writer(receipt(number + 1000))
        writer(receipt(number))
        lost.append(number)
    assert calls(chain) == [f"call-{number}" for number in lost]
    assert chain.verified().broken is None and chain.file(2).exists()


@pytest.mark.parametrize("room", [1, 50, 200])
def test_a_head_that_was_written_in_part_is_reported_and_loses_no_receipt(chain: Chain, room: int) -> None:
    chain.write(2)
    with no_file_over(room), pytest.raises(ConfigurationError, match="cannot write the receipt"):
        chain.write(200, first=3)  # begins a segment
    writer = chain.writer()
    for number in range(500, 600):
        writer(receipt(number))
    writer.close()
    assert chain.verified().broken is None or chain.verified().broken.kind is BreakKind.POSSIBLE_CUT  # type: ignore[union-attr]
    assert calls(chain)[:2] == ["call-1", "call-2"] and calls(chain)[-1] == "call-599"


# -- a kill ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def states(chain: Chain) -> tuple[bytes, bytes, bytes, bytes]:
    """The segment before the third receipt, its line, and the heads before and after it."""
    chain.write(2)
    before, head = chain.file().read_bytes(), (chain.folder / "head").read_bytes()
    chain.write(1, first=3)
    return before, chain.lines()[-1], head, (chain.folder / "head").read_bytes()


def restore(chain: Chain, segment: bytes, head: bytes) -> None:
    for file in chain.folder.iterdir():
        file.unlink()
    chain.file().write_bytes(segment)
    (chain.folder / "head").write_bytes(head)


@pytest.mark.ci("slow")
def test_a_line_that_a_kill_cut_at_any_byte_is_set_aside(
    chain: Chain, states: tuple[bytes, bytes, bytes, bytes]
) -> None:
    before, last, head, _ = states
    for size in range(len(last) + 1):
        restore(chain, before + last[:size], head)
        assert chain.verified().broken is None
        chain.write(1, first=4)
        assert chain.verified().broken is None
        kept = ["call-3"] if size == len(last) else []
        assert calls(chain) == ["call-1", "call-2", *kept, "call-4"]
        torn = [record["bytes"] for record in records(chain) if record["type"] == "torn"]
        assert torn == ([size] if 0 < size < len(last) else [])


@pytest.mark.ci("slow")
def test_a_counted_line_that_was_cut_at_any_byte_is_reported(
    chain: Chain, states: tuple[bytes, bytes, bytes, bytes]
) -> None:
    before, last, _, head = states
    for size in range(len(last)):
        restore(chain, before + last[:size], head)
        assert chain.verified().broken is not None
        chain.write(2, first=4)
        found = chain.verified().broken
        assert found is not None and found.kind is BreakKind.TRUNCATED, "later receipts do not hide it"
        assert [record["call_id"] for record in last_receipts(chain.folder, 2)] == ["call-4", "call-5"]


@pytest.mark.parametrize("size", [0, 1, 100, 150])
def test_a_head_that_a_full_disk_or_a_power_cut_left_incomplete_is_reported(chain: Chain, size: int) -> None:
    chain.write(3)
    head = chain.folder / "head"
    head.write_bytes(head.read_bytes()[:size])
    assert chain.verified().broken is not None
    chain.write(1, first=4)
    assert calls(chain) == [f"call-{number}" for number in range(1, 5)]
    assert chain.verified().broken is not None, "until an operator acknowledges it"


# -- clocks --------------------------------------------------------------------------------------------------------

YEAR_NS = 365 * 24 * 3600 * 10**9
CLOCKS: dict[str, Callable[[int], Iterator[int]]] = {
    "stands still": lambda now: itertools.repeat(now),
    "goes back": lambda now: itertools.count(now, -(10**9)),
    "jumps a century ahead and back": lambda now: itertools.cycle([now, now + 100 * YEAR_NS]),
    "begins at zero": lambda now: itertools.count(0, 10**6),
    "is before 1970": lambda now: itertools.count(-YEAR_NS, 1),
}


@pytest.mark.ci("slow")
@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_the_order_of_receipts_does_not_depend_on_the_clock(
    chain: Chain, clock: Callable[[int], Iterator[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = clock(time.time_ns())
    monkeypatch.setattr(time, "time_ns", lambda: next(ticks))
    one, other = chain.writer(), chain.writer()
    for number in range(0, 300, 2):
        started = next(ticks) // 1_000_000
        one(receipt(number, started_ms=started, ended_ms=next(ticks) // 1_000_000))
        other(receipt(number + 1, started_ms=started, ended_ms=started - 5))
    one.close()
    other.close()
    assert calls(chain) == [f"call-{number}" for number in range(0, 300, 2)]
    merged = chain.calls()
    assert [call for call in merged if call in calls(chain)] == calls(chain) and len(merged) == 300
    assert (chain.verified().broken, chain.verified().notes) == (None, ())
    assert chain.file(2).exists()


# -- links ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["head", "receipts-000001.jsonl", "receipts-000002.jsonl"])
@pytest.mark.parametrize("target", ["a file", "another chain's", "nothing"])
def test_a_link_in_the_folder_is_not_followed(chain: Chain, tmp_path: Path, name: str, target: str) -> None:
    chain.write(2)
    elsewhere = tmp_path / "elsewhere"
    if target == "a file":
        elsewhere.write_text("precious")
    elif target == "another chain's":
        other = Chain(tmp_path / "other")
        other.write(300)
        elsewhere = other.folder / name
    content = elsewhere.read_bytes() if elsewhere.exists() else None
    (chain.folder / name).unlink(missing_ok=True)
    (chain.folder / name).symlink_to(elsewhere)

    if name == "receipts-000002.jsonl":  # its number is skipped
        chain.write(300, first=3)
        with pytest.raises(ConfigurationError, match="is a symbolic link"):
            chain.verified()
    else:
        with pytest.raises(ConfigurationError, match="cannot"):
            chain.write(1, first=3)

    assert (elsewhere.read_bytes() if elsewhere.exists() else None) == content


def test_a_folder_that_became_a_link_to_another_chain_is_reported(
    chain: Chain, tmp_path: Path, open_writer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "LOOK_SECONDS", 0.0)
    writer = open_writer()
    writer(receipt(1))
    other = Chain(tmp_path / "other")
    other.write(5)
    shutil.rmtree(chain.folder)
    chain.folder.symlink_to(other.folder)
    writer(receipt(2))
    assert chain.verified().broken is not None
    assert calls(chain)[-1] == "call-2"


def test_a_receipt_that_says_another_number_or_hash_stays_text(chain: Chain) -> None:
    """A tool's name cannot end its record and begin another one."""
    forged = '","n":9,"type":"segment","hash":"' + "0" * 64 + '"}\n{"n":3,"type":"torn'
    writer = chain.writer()
    writer(receipt(1, tool=forged, user=forged))
    writer(receipt(2))
    writer.close()
    assert calls(chain) == ["call-1", "call-2"] and records(chain)[1]["tool"] == forged
    assert len(chain.lines()) == 3 and all(json.loads(line) for line in chain.lines())
    assert chain.verified().broken is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_refuses_the_call(chain: Chain) -> None:
    chain.write(1)
    chain.folder.chmod(0o500)
    for file in chain.folder.iterdir():
        file.chmod(0o400)
    with pytest.raises(ConfigurationError, match="cannot"):
        chain.write(1, first=2)
