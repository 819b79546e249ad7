"""Every modification of a chain of receipts without its key is reported, with the file and the line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.audit.conftest import Chain, receipt
from tests.tiers import examples
from wasmrt.core.errors import ConfigurationError
from wasmrt.runtime.audit import Cut, ReceiptWriter, read_keys
from wasmrt.runtime.audit import _writer as writing
from wasmrt.runtime.audit.reading import read_receipts
from wasmrt.runtime.audit.verify import Break, BreakKind, chain_heads, format_heads, parse_heads

FIRST = "receipts-000001.jsonl"


def broken(chain: Chain, **options: object) -> tuple[BreakKind, str, int]:
    found = chain.verified(**options).broken
    assert isinstance(found, Break)
    return found.kind, found.file, found.line


def long(chain: Chain) -> int:
    """Write a chain of several segments; return their number."""
    chain.write(500)
    return len(list(chain.folder.glob("receipts-*.jsonl")))


def test_an_unmodified_chain_is_valid(chain: Chain) -> None:
    segments = long(chain)
    found = chain.verified()
    assert (found.broken, found.notes, found.segments) == (None, (), segments)
    assert found.records == 500 + segments and segments > 2


def test_empty_and_missing_folders_are_valid(chain: Chain) -> None:
    assert chain.verified().broken is None
    chain.write(0)
    assert chain.verified().records == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"outcome":"ok"', b'"outcome":"no"'),
        (b'"call_id":"call-4"', b'"call_id":"call-5"'),
        (b'{"n":5,', b'{"n":5, '),
    ],
)
def test_an_edited_line_is_reported(chain: Chain, old: bytes, new: bytes) -> None:
    chain.write(9)
    lines = chain.lines()
    assert old in lines[4]
    lines[4] = lines[4].replace(old, new)
    chain.rewrite(lines)
    assert broken(chain) == (BreakKind.EDITED, FIRST, 5)


def test_the_hash_of_a_line_has_one_accepted_form(chain: Chain) -> None:
    chain.write(9)
    lines = chain.lines()
    spelled = next(line for line in lines if any(digit in line[-67:-3] for digit in b"abcdef"))
    place = lines.index(spelled)
    lines[place] = spelled[:-67] + spelled[-67:-3].upper() + spelled[-3:]
    chain.rewrite(lines)
    assert broken(chain) == (BreakKind.EDITED, FIRST, place + 1)


def test_a_removed_line_is_reported(chain: Chain) -> None:
    chain.write(9)
    lines = chain.lines()
    del lines[4:6]
    chain.rewrite(lines)
    assert broken(chain) == (BreakKind.REMOVED, FIRST, 5)
    assert "2 records, starting with 5, are missing" in str(chain.verified().broken)


def test_swapped_lines_are_reported(chain: Chain) -> None:
    chain.write(9)
    lines = chain.lines()
    lines[4], lines[7] = lines[7], lines[4]
    chain.rewrite(lines)
    assert broken(chain) == (BreakKind.SWAPPED, FIRST, 5)


def test_a_repeated_line_is_reported(chain: Chain) -> None:
    chain.write(9)
    lines = chain.lines()
    chain.rewrite([*lines[:6], lines[4], *lines[6:]])
    assert broken(chain) == (BreakKind.INSERTED, FIRST, 7)


def test_a_missing_newest_line_is_reported(chain: Chain) -> None:
    chain.write(9)
    chain.rewrite(chain.lines()[:-2])
    assert broken(chain) == (BreakKind.TRUNCATED, FIRST, 9)
    assert "the newest 2 records are missing" in str(chain.verified().broken)


def test_a_truncated_newest_line_is_reported_and_not_treated_as_a_crash(chain: Chain) -> None:
    chain.write(9)
    chain.file().write_bytes(chain.file().read_bytes()[:-40])
    assert broken(chain) == (BreakKind.TRUNCATED, FIRST, 10)
    assert "the file ends in the middle of record 10" in str(chain.verified().broken)
    assert chain.verified().notes == ()


def test_a_segment_truncated_within_a_line_is_reported(chain: Chain) -> None:
    long(chain)
    chain.file(2).write_bytes(chain.file(2).read_bytes()[:-40])
    assert broken(chain) == (BreakKind.TRUNCATED, chain.file(2).name, len(chain.lines(2)))
    assert "the file ends in the middle" in str(chain.verified().broken)


def test_a_truncation_is_still_reported_after_later_records(chain: Chain) -> None:
    chain.write(9)
    chain.rewrite(chain.lines()[:-2])
    chain.write(3, first=10)
    assert broken(chain) == (BreakKind.TRUNCATED, FIRST, 9)
    assert [json.loads(line)["call_id"] for line in chain.lines(2)[1:]] == ["call-10", "call-11", "call-12"]


def test_a_truncated_middle_segment_is_reported(chain: Chain) -> None:
    long(chain)
    lines = chain.lines(2)
    chain.rewrite(lines[:-1], 2)
    assert broken(chain) == (BreakKind.TRUNCATED, "receipts-000002.jsonl", len(lines))


def test_a_missing_segment_is_reported_at_any_position(chain: Chain) -> None:
    count = long(chain)
    for segment in (1, 2, count):
        kept = chain.file(segment).rename(chain.folder / "elsewhere")
        assert broken(chain) == (BreakKind.MISSING_SEGMENT, chain.file(segment).name, 0)
        kept.rename(chain.file(segment))
    assert chain.verified().broken is None


def test_segments_removed_by_the_operator_are_accepted(chain: Chain) -> None:
    long(chain)
    chain.file(1).unlink()
    assert broken(chain)[0] is BreakKind.MISSING_SEGMENT
    assert chain.verified(first={0: 2}).broken is None
    lines = chain.lines(2)
    chain.rewrite([*lines[:3], *lines[4:]], 2)
    assert broken(chain, first={0: 2}) == (BreakKind.REMOVED, chain.file(2).name, 4)


def test_a_segment_with_a_changed_header_is_reported(chain: Chain) -> None:
    long(chain)
    lines = chain.lines(2)
    chain.rewrite([lines[0].replace(b'"why":"size"', b'"why":"none"'), *lines[1:]], 2)
    assert broken(chain) == (BreakKind.EDITED, chain.file(2).name, 1)
    chain.rewrite([b'{"type":"segment"}\n', *lines[1:]], 2)
    assert broken(chain) == (BreakKind.EDITED, chain.file(2).name, 1)


def test_swapped_segments_are_reported(chain: Chain) -> None:
    long(chain)
    second, third = chain.lines(2), chain.lines(3)
    chain.rewrite(third, 2)
    chain.rewrite(second, 3)
    assert broken(chain)[1:] == (chain.file(2).name, 1)


def test_a_chain_with_another_key_is_reported(chain: Chain) -> None:
    chain.write(3)
    chain.key.unlink()
    assert broken(chain) == (BreakKind.FOREIGN_KEY, FIRST, 1)
    chain.write(3, first=4)
    assert broken(chain) == (BreakKind.FOREIGN_KEY, FIRST, 1)
    found = chain.verified(first={0: 2})
    assert found.broken is None and "written with a different key" in found.notes[0]


def test_a_missing_or_changed_head_is_reported_and_recorded(chain: Chain) -> None:
    chain.write(3)
    head = chain.folder / "head"
    kept = head.read_bytes()
    head.unlink()
    assert broken(chain) == (BreakKind.HEAD, "head", 0)
    head.write_bytes(kept.replace(b'"n":4', b'"n":3'))
    assert broken(chain) == (BreakKind.EDITED, "head", 0)
    chain.write(1, first=4)
    assert broken(chain) == (BreakKind.POSSIBLE_CUT, chain.file(2).name, 1)
    assert "the head had been changed" in str(chain.verified().broken)
    head.unlink()
    chain.write(1, first=5)
    assert broken(chain) == (BreakKind.POSSIBLE_CUT, chain.file(2).name, 1)
    assert [cut.segment for cut in chain.verified().cuts] == [2, 3]


@pytest.mark.parametrize("cut", [0, 5])
@pytest.mark.parametrize("damage", ["remove", "empty", "zero", "garble", "another's"])
@pytest.mark.parametrize("running", [False, True])
def test_a_cut_before_a_damaged_head_is_reported_until_it_is_acknowledged(
    chain: Chain,
    open_writer: Callable[[], ReceiptWriter],
    cut: int,
    damage: str,
    running: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "LOOK_SECONDS", 0.0)
    writer = open_writer()
    for number in range(10):
        writer(receipt(number))
    chain.rewrite(chain.lines()[: 11 - cut])
    if not running:
        writer.close()
    head = chain.folder / "head"
    kept = head.read_bytes()
    {
        "remove": head.unlink,
        "empty": lambda: head.write_bytes(b""),
        "zero": lambda: head.write_bytes(b"\0" * len(kept)),
        "garble": lambda: head.write_bytes(kept[::-1]),
        "another's": lambda: head.write_bytes(kept.replace(b'"key":"', b'"key":"0')[: len(kept)]),
    }[damage]()
    if not running:
        writer = open_writer()
    for number in range(11, 14):
        writer(receipt(number))
        assert chain.verified().broken is not None
    assert broken(chain)[0] in (BreakKind.POSSIBLE_CUT, BreakKind.TRUNCATED)
    (cut,) = chain.verified().cuts or (Cut(0, 2, ""),)
    writer.acknowledge(cut._replace(opening="0" * 64), "ann")
    assert chain.verified().broken is not None, "it was about another segment"
    writer.acknowledge(cut, "ann", "the disk was full")
    found = chain.verified()
    if found.broken is None:
        assert "acknowledged by ann" in found.notes[-1]
    else:
        assert found.broken.kind is BreakKind.TRUNCATED, "records are known to be missing: nothing acknowledges that"
    writer.close()
    head.unlink()
    open_writer()(receipt(20))
    assert chain.verified().broken is not None, "a later cut is another one"


def test_a_chain_removed_under_a_running_writer_is_reported(
    chain: Chain, open_writer: Callable[[], ReceiptWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "LOOK_SECONDS", 0.0)
    writer = open_writer()
    for number in range(3):
        writer(receipt(number))
    shutil.rmtree(chain.folder)
    writer(receipt(4))
    assert broken(chain)[0] is BreakKind.POSSIBLE_CUT
    assert "had disappeared" in str(chain.verified().broken)


def test_an_older_head_of_the_same_folder_is_reported(chain: Chain) -> None:
    chain.write(3)
    (chain.folder / "head").rename(chain.folder / "old")
    other = Chain(chain.folder.parent / "other")
    other.folder.parent.mkdir()
    shutil.copy(chain.key, other.key)
    other.write(3, first=4)
    shutil.copy(other.folder / "head", chain.folder / "head")
    assert broken(chain) == (BreakKind.HEAD, "head", 0)


def test_a_stored_head_detects_a_restored_older_folder(chain: Chain) -> None:
    chain.write(5)
    older = chain.folder.parent / "older"
    shutil.copytree(chain.folder, older)
    chain.write(3, first=6)
    noted = chain_heads(chain.folder, read_keys(chain.key))
    assert parse_heads(format_heads(noted)) == noted and noted[0].number == 9
    assert chain.verified(expected=noted).broken is None
    shutil.rmtree(chain.folder)
    shutil.copytree(older, chain.folder)
    assert chain.verified().broken is None  # the folder alone does not reveal it
    assert broken(chain, expected=noted) == (BreakKind.TRUNCATED, FIRST, 7)
    chain.write(7, first=6)
    chain.write(1, first=90)
    assert broken(chain, expected=(noted[0]._replace(hash="0" * 64),)) == (BreakKind.HEAD, FIRST, 9)


def test_an_invalid_head_is_refused() -> None:
    for text in ("12", f"12:{'0' * 64},12:{'0' * 64}", ""):
        with pytest.raises(ConfigurationError, match="not a chain head"):
            parse_heads(text)


def test_a_foreign_last_line_is_reported_and_the_chain_continues(chain: Chain) -> None:
    chain.write(3)
    with chain.file().open("ab") as file:
        file.write(chain.lines()[1])
    assert broken(chain) == (BreakKind.INSERTED, FIRST, 5)
    chain.write(2, first=4)
    assert broken(chain) == (BreakKind.INSERTED, FIRST, 5)
    assert len(chain.lines(2)) == 3


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_changed_added_or_removed_byte_of_a_chain_is_detected(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chain = Chain(tmp_path_factory.mktemp("chain"))
    chain.write(4)
    chain.writer()(receipt(5, user='"}\n{'))
    whole = chain.file().read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    byte = bytes([data.draw(st.integers(0, 255))])
    spoiled = data.draw(
        st.sampled_from([whole[:place] + byte + whole[place + 1 :], whole[:place] + whole[place + 1 :], whole[:place]])
    )
    chain.file().write_bytes(spoiled)
    assert (chain.verified().broken is None) == (spoiled == whole)


def test_a_chain_can_be_verified_while_it_is_written(chain: Chain) -> None:
    writer = chain.writer()
    for number in range(300):
        writer(receipt(number))
        if number % 50 == 0:
            assert chain.verified().broken is None
    writer.close()


def test_a_link_instead_of_a_segment_is_not_followed(chain: Chain, tmp_path: Path) -> None:
    chain.write(3)
    chain.file().rename(tmp_path / "elsewhere")
    chain.file().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="symbolic link"):
        chain.verified()
    with pytest.raises(ConfigurationError, match="symbolic link"):
        list(read_receipts(chain.folder))
