"""Each writer has a separate chain, readers see one log, and `verify` names a chain that is missing or was replaced."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wasmrt.runtime.audit._check as checking
import wasmrt.runtime.audit._writer as writing
from tests.runtime.audit.conftest import Chain, receipt
from tests.tiers import examples
from wasmrt.core.errors import ConfigurationError
from wasmrt.runtime.audit import ReceiptWriter, read_keys
from wasmrt.runtime.audit._chain import GENESIS, Head, Keys, keyed_hash, seal_record
from wasmrt.runtime.audit._files import Snapshot
from wasmrt.runtime.audit.reading import Filter, last_receipts, read_receipts
from wasmrt.runtime.audit.verify import BreakKind, chain_heads, format_heads, parse_heads

ROOT = Path(__file__).parents[3]
Open = Callable[[], ReceiptWriter]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers check their files, and link other chains, before every receipt."""
    monkeypatch.setattr(writing, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(writing, "LINK_SECONDS", 0.0)


def write_in_turn(writers: list[ReceiptWriter], count: int, first: int = 1) -> None:
    for number in range(first, first + count):
        writers[number % len(writers)](receipt(number))


def broken(chain: Chain, **options: object) -> tuple[BreakKind, str]:
    found = chain.verified(**options).broken
    assert found is not None
    return found.kind, found.file


# -- one log -------------------------------------------------------------------------------------------------------


def test_each_writer_has_a_chain_and_readers_see_one_log(chain: Chain, open_writer: Open) -> None:
    write_in_turn([open_writer() for _ in range(3)], 600)
    assert chain.calls() == [f"call-{number}" for number in range(1, 601)]
    found = chain.verified()
    assert (found.broken, found.notes, found.chains) == (None, (), 3) and found.segments > 3
    folders = {path.relative_to(chain.folder).as_posix() for path in chain.folder.rglob("*") if path.is_dir()}
    assert folders == {"chains", "chains/0001", "chains/0002"}
    modes = {path.stat().st_mode & 0o777 for path in chain.folder.rglob("*") if path.is_dir()}
    assert modes == {0o700}


def test_a_writer_takes_the_lowest_chain_that_is_free(chain: Chain, open_writer: Open) -> None:
    writers = [open_writer() for _ in range(3)]
    write_in_turn(writers, 3)
    writers[1].close()
    open_writer()(receipt(4))
    assert b"call-4" in chain.file(chain=1).read_bytes()
    assert chain.verified().broken is None


def test_more_writers_than_chains_are_refused(chain: Chain, open_writer: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MAX_RECEIPT_CHAINS", 2)
    writers = [open_writer(), open_writer()]
    with pytest.raises(ConfigurationError, match="the receipts folder already has 2 writers"):
        open_writer()
    writers[0].close()
    open_writer()(receipt(1))
    assert chain.calls() == ["call-1"]


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    written=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.sampled_from(["ann", "bob"])), max_size=40),
    count=st.integers(1, 9),
)
def test_the_newest_receipts_are_the_end_of_the_log(
    written: list[tuple[int, int, str]], count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chain = Chain(tmp_path_factory.mktemp("chain"))
    writers, now = [chain.writer() for _ in range(3)], 1_000
    for number, (writer, later, user) in enumerate(written):
        now += later
        writers[writer](receipt(number, user=user, ended_ms=now, client="c" * (number * 7919 % 70_000)))
    for writer in writers:
        writer.close()
    for wanted in (Filter(), Filter(user="ann")):
        assert last_receipts(chain.folder, count, wanted) == list(read_receipts(chain.folder, wanted))[-count:]
    assert len(chain.calls()) == len(written)


FORKED = """
import os, sys
from pathlib import Path
from tests.runtime.audit.conftest import Chain, receipt
chain = Chain(Path(sys.argv[1]))
writer = chain.writer()
writer(receipt(1))
writer._lock.acquire()  # as if held by a thread of the parent at the fork
written, closed = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(closed[1])
    writer(receipt(2))
    os.close(written[1])
    os.read(closed[0], 1)  # until the parent has closed its writer
    chain.writer()(receipt(4))
    os._exit(0)
os.close(written[1])
os.read(written[0], 1)
writer._lock.release()
writer(receipt(3))
writer.close()
os.close(closed[1])
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_forked_child_writes_its_own_chain_and_does_not_hold_the_parents(chain: Chain) -> None:
    subprocess.run([sys.executable, "-c", FORKED, chain.folder.parent], check=True, timeout=60, cwd=ROOT)
    assert sorted(map(str, chain.calls())) == ["call-1", "call-2", "call-3", "call-4"]
    assert b"call-2" in chain.file(chain=1).read_bytes() and b"call-4" in chain.file().read_bytes()
    found = chain.verified()
    assert found.broken is None and [note for note in found.notes if "chains/0001/head is not sealed" in note]


# -- links ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(chain: Chain, always: None) -> Chain:
    """Three closed chains that link one another."""
    writers = [chain.writer() for _ in range(3)]
    write_in_turn(writers, 30)
    for writer in writers:
        writer.close()
    assert chain.verified().broken is None
    return chain


def test_links_contain_the_heads_of_the_other_chains(three: Chain) -> None:
    records = [json.loads(line) for line in three.lines()]
    last = [record for record in records if record["type"] == "link"][-1]
    for head in last["heads"]:
        place = three.file(chain=head["chain"]).read_bytes()[: head["bytes"]].splitlines()
        assert (len(place), json.loads(place[-1])["hash"]) == (head["n"], head["hash"])
    assert {head["chain"] for head in last["heads"]} == {1, 2}
    assert json.loads(three.lines_of(1)[1])["type"] == "link"


@pytest.mark.parametrize("number", [1, 2])
def test_a_missing_chain_is_named(three: Chain, number: int) -> None:
    shutil.rmtree(three.part(number))
    assert broken(three) == (BreakKind.MISSING_CHAIN, f"chains/{number:04d}")
    three.write(1, first=90)
    assert broken(three)[0] in (BreakKind.MISSING_CHAIN, BreakKind.ROLLED_BACK)


def test_a_missing_chain_without_records_is_named(chain: Chain, open_writer: Open) -> None:
    open_writer(), open_writer(), open_writer()(receipt(1))
    shutil.rmtree(chain.part(1))
    assert broken(chain) == (BreakKind.MISSING_CHAIN, "chains/0001")


def test_swapped_chains_are_named(three: Chain) -> None:
    three.part(1).rename(three.folder / "kept")
    three.part(2).rename(three.part(1))
    (three.folder / "kept").rename(three.part(2))
    assert broken(three) == (BreakKind.SWAPPED, "chains/0001/receipts-000001.jsonl")
    assert "chain 1 was replaced by chain 2" in str(three.verified().broken)


def test_the_head_of_another_chain_is_named(chain: Chain, open_writer: Open, always: None) -> None:
    one, other, third = (open_writer() for _ in range(3))
    third(receipt(1))
    write_in_turn([one, other], 20, first=2)
    for writer in (one, other, third):
        writer.close()
    shutil.copy(chain.part(2) / "head", chain.part(1) / "head")
    assert broken(chain) == (BreakKind.EDITED, "chains/0001/head")


def test_a_cut_chain_is_named(three: Chain) -> None:
    three.file(chain=1).write_bytes(b"".join(three.lines_of(1)[:-2]))
    assert broken(three) == (BreakKind.TRUNCATED, "chains/0001/receipts-000001.jsonl")


@pytest.mark.parametrize("then", ["nothing", "grow"])
def test_a_chain_that_was_rolled_back_is_named(chain: Chain, always: None, then: str) -> None:
    writers = [chain.writer(), chain.writer()]
    write_in_turn(writers, 10)
    shutil.copytree(chain.part(1), chain.folder / "older")
    write_in_turn(writers, 10, first=11)
    for writer in writers:
        writer.close()
    shutil.rmtree(chain.part(1))
    (chain.folder / "older").rename(chain.part(1))
    if then == "grow":
        held = chain.writer()
        chain.write(40, first=50)
        held(receipt(99))
        held.close()
    assert broken(chain) == (BreakKind.ROLLED_BACK, "chains/0001/receipts-000001.jsonl")
    assert "chain 1 was rolled back or cut: receipts-000001.jsonl, line" in str(chain.verified().broken)


def test_a_lock_that_another_process_holds_does_not_hide_a_rolled_back_chain(chain: Chain, always: None) -> None:
    """A chain with a running writer is verified up to its head, so the rest may be anything."""
    writers = [chain.writer(), chain.writer()]
    write_in_turn(writers, 10)
    head, lines = (chain.part(1) / "head").read_bytes(), chain.lines_of(1)
    write_in_turn(writers, 10, first=11)
    for writer in writers:
        writer.close()
    file = chain.file(chain=1)
    size, kept = file.stat().st_size, b"".join(lines)
    for tail in range(size - len(kept)):  # keep the end of the file, and with it the linked hashes
        if tail % 50 == 0:
            file.write_bytes(kept + b"x" * tail + file.read_bytes()[len(kept) + tail :])
    (chain.part(1) / "head").write_bytes(head)
    with (chain.part(1) / "head").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert broken(chain) == (BreakKind.ROLLED_BACK, "chains/0001/receipts-000001.jsonl")


def test_a_chain_of_another_folder_with_the_same_key_is_named(three: Chain) -> None:
    other = Chain(three.folder.parent / "other")
    other.folder.mkdir(parents=True)
    shutil.copy(three.key, other.key)
    writers = [other.writer(), other.writer()]
    write_in_turn(writers, 60)
    for writer in writers:
        writer.close()
    shutil.rmtree(three.part(1))
    shutil.copytree(other.part(1), three.part(1))
    assert broken(three) == (BreakKind.ROLLED_BACK, "chains/0001/receipts-000001.jsonl")


def test_a_chain_without_links_is_named(chain: Chain, open_writer: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReceiptWriter, "_link_chains", lambda writer: None)
    write_in_turn([open_writer(), open_writer()], 4)
    assert broken(chain) == (BreakKind.UNLINKED, "chains/0001/receipts-000001.jsonl")


def test_links_to_removed_segments_are_accepted_from_the_operator(chain: Chain, always: None) -> None:
    writers = [chain.writer(), chain.writer()]
    write_in_turn(writers, 700)
    for writer in writers:
        writer.close()
    assert chain.file(2, chain=1).exists()
    chain.file(chain=1).unlink()
    assert broken(chain)[0] is BreakKind.MISSING_SEGMENT
    assert chain.verified(first={1: 2}).broken is None


def test_links_written_during_a_verification_are_no_breaks(
    chain: Chain, open_writer: Open, always: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = [open_writer(), open_writer()]
    write_in_turn(writers, 4)
    take_snapshot = checking.take_snapshot

    def write_after_snapshot(folder: Path, keys: Keys) -> Snapshot:
        found = take_snapshot(folder, keys)
        write_in_turn(writers, 4, first=5)
        return found

    monkeypatch.setattr(checking, "take_snapshot", write_after_snapshot)
    assert chain.verified().broken is None


def test_stored_heads_cover_all_chains(three: Chain) -> None:
    noted = chain_heads(three.folder, read_keys(three.key))
    assert [head.chain for head in noted] == [0, 1, 2] and parse_heads(format_heads(noted)) == noted
    assert three.verified(expected=noted).broken is None
    for path in three.folder.rglob("*"):
        if path.is_file():
            path.unlink()
    shutil.rmtree(three.folder / "chains")
    assert three.verified().broken is None  # the folder alone does not reveal it
    assert broken(three, expected=noted[1:]) == (BreakKind.MISSING_CHAIN, "chains/0001")


# -- a lost chain --------------------------------------------------------------------------------------------------


def test_a_cut_in_any_chain_is_reported_until_it_is_acknowledged_from_another(
    chain: Chain, open_writer: Open, always: None
) -> None:
    writers = [open_writer() for _ in range(3)]
    write_in_turn(writers, 9)
    (chain.part(1) / "head").unlink()
    write_in_turn(writers, 9, first=10)
    assert broken(chain) == (BreakKind.POSSIBLE_CUT, "chains/0001/receipts-000002.jsonl")
    (cut,) = chain.verified().cuts
    assert (cut.chain, cut.segment) == (1, 2)
    writers[2].acknowledge(cut._replace(opening="0" * 64), "ann")
    assert broken(chain)[0] is BreakKind.POSSIBLE_CUT
    writers[2].acknowledge(cut, "ann")
    found = chain.verified()
    assert (found.broken, found.cuts) == (None, ()) and "acknowledged by ann" in found.notes[-1]


@pytest.mark.parametrize("ended", [False, True])
def test_a_writer_whose_chain_another_one_took_reports_missing_records(
    chain: Chain, open_writer: Open, always: None, ended: bool
) -> None:
    one = open_writer()
    one(receipt(1))
    shutil.rmtree(chain.folder)
    other = open_writer()
    write_in_turn([other], 3, first=2)
    if ended:
        other.close()
    one(receipt(5))
    file = "receipts-000002.jsonl" if ended else "chains/0001/receipts-000001.jsonl"
    assert broken(chain) == (BreakKind.POSSIBLE_CUT, file)
    assert "had disappeared" in str(chain.verified().broken)
    assert chain.calls() == [f"call-{number}" for number in range(2, 6)]


def test_a_link_in_place_of_a_chain_is_not_followed(chain: Chain, tmp_path: Path, open_writer: Open) -> None:
    open_writer()(receipt(1))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for place in (chain.folder / "chains", chain.part(1)):
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(elsewhere)
        with pytest.raises(ConfigurationError, match="symbolic link"):
            chain.write(1)
        for read in (chain.verified, chain.calls):
            with pytest.raises(ConfigurationError, match="symbolic link"):
                read()
        place.unlink()
    assert not list(elsewhere.iterdir())


# -- folders of one chain ------------------------------------------------------------------------------------------


def test_a_folder_from_before_there_were_chains_is_verified_and_continued(chain: Chain, open_writer: Open) -> None:
    keys = read_keys(chain.key)
    chain.folder.mkdir()
    opening = b'"type":"segment","segment":1,"version":1,"key":"%b","previous":"%b","started_ms":1,"why":"first"'
    contents = [opening % (keys.id.encode(), GENESIS.hex().encode()), *(receipt(n).content() for n in (1, 2))]
    digest, text = GENESIS, b""
    for number, content in enumerate(contents, 1):
        line, digest = seal_record(keys, digest, number, content)
        text += line
    chain.file().write_bytes(text)
    body = Head(3, 1, len(text), digest).pack(keys).partition(b',"sealed"')[0]
    (chain.folder / "head").write_bytes(body + b',"mac":"%b"}\n' % keyed_hash(keys.head, body).hex().encode())
    found = chain.verified()
    assert (found.broken, found.notes, found.records) == (None, (), 3)
    writers = [open_writer(), open_writer()]
    write_in_turn(writers, 4, first=3)
    assert chain.calls() == [f"call-{number}" for number in range(1, 7)]
    assert chain.verified().broken is None and not chain.file(2).exists()


def test_a_writer_that_was_not_closed_is_noted(chain: Chain) -> None:
    chain.write(1)
    older = (chain.folder / "head").read_bytes()
    assert chain.verified().notes == ()
    writer = chain.writer()
    writer(receipt(2))
    unsealed = (chain.folder / "head").read_bytes()
    assert chain.verified().notes == ()
    writer.close()
    assert (chain.folder / "head").read_bytes() not in (older, unsealed)
    (chain.folder / "head").write_bytes(unsealed)
    assert chain.verified().notes == ("head is not sealed: the writer was killed, or this is an older copy",)
