"""Receipts are written completely or not at all, in order, also with concurrent writers and after crashes."""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wasmrt.runtime.audit._writer as writing
from tests.runtime.audit.conftest import Chain, receipt
from wasmrt import WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_TORN_BYTES
from wasmrt.core.model import Decision, Reason, Usage
from wasmrt.runtime.audit import Approval, Receipt, ReceiptWriter

Open = Callable[[], ReceiptWriter]


def records(chain: Chain) -> list[dict[str, object]]:
    return [
        json.loads(line) for file in sorted(chain.folder.glob("receipts-*")) for line in file.read_bytes().splitlines()
    ]


def calls(chain: Chain) -> list[object]:
    return [record["call_id"] for record in records(chain) if record["type"] == "receipt"]


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    """Limit files to a size, like a disk that fills up within a line."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# -- a receipt -----------------------------------------------------------------------------------------------------

_words = st.text(st.sampled_from('[]{}"\\ab\n\u00e9\u2028')) | st.text(max_size=6)
_counts = st.integers(0, 2**63)
_usages = st.builds(
    Usage,
    _counts,
    st.integers(0, 10**12).map(lambda microseconds: microseconds / 1e6),
    *[_counts] * (len(Usage._fields) - 2),
)
_decisions = st.builds(
    Decision, st.booleans(), st.sampled_from(list(Reason)), _words, st.none() | _words, _words, _words
)
_lists = st.lists(_words, max_size=3).map(tuple)
_hashes = st.just("") | st.from_regex(r"[0-9a-f]{64}", fullmatch=True)


@pytest.mark.ci("slow")
@given(
    st.builds(
        Receipt,
        *[_counts] * 2,
        *[_words] * 9,
        _lists,
        *[_hashes] * 2,
        _lists,
        _words,
        st.none() | st.builds(Approval, _words, _words, _words),
        st.just("ok") | _words,
        _usages,
        st.lists(_decisions, max_size=3).map(tuple),
        _counts,
        _hashes | st.just("dropped"),
    )
)
def test_a_line_contains_its_whole_receipt(known: Receipt) -> None:
    content = known.content()
    assert b"\n" not in content
    told = {"type": "receipt"} | known.as_dict()
    expected = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
    assert json.loads(b"{%b}" % content) == json.loads(expected)


def test_text_hashes_depend_on_the_installations_key(tmp_path: Path) -> None:
    one, other = Chain(tmp_path / "one").writer(), Chain(tmp_path / "other").writer()
    assert one.hashed("yes") == one.hashed("yes") != one.hashed("no")
    assert one.hashed("yes") != other.hashed("yes")
    one.close()
    other.close()


# -- writing -------------------------------------------------------------------------------------------------------


def test_receipts_of_every_size_are_written_once_in_order(chain: Chain) -> None:
    writer = chain.writer()
    for number in range(600):
        writer(receipt(number, user="u" * (number % 900 + 1)))
    writer(receipt(600, user="long" * 50_000))
    writer(receipt(601))
    writer.close()
    assert calls(chain) == [f"call-{number}" for number in range(602)]
    assert chain.verified().broken is None


def test_threads_share_a_writer(open_writer: Open, chain: Chain) -> None:
    writer = open_writer()
    threads = [
        threading.Thread(target=lambda: [writer(receipt(number)) for number in range(100)] and None) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls(chain)) == 800
    assert chain.verified().broken is None


def test_chain_files_are_private(chain: Chain) -> None:
    chain.write(1)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [chain.folder, chain.key, *chain.folder.iterdir()]}
    assert modes == {"receipts": 0o700, "receipts.key": 0o600, "head": 0o600, "receipts-000001.jsonl": 0o600}


def test_a_receipt_on_a_full_disk_leaves_no_partial_line(chain: Chain, open_writer: Open) -> None:
    writer = open_writer()
    writer(receipt(1))
    whole = chain.file().stat().st_size
    with no_file_over(whole + 40), pytest.raises(ConfigurationError, match="cannot write the receipt") as caught:
        writer(receipt(2))
    assert caught.value.hint == "free disk space for the receipts"
    assert chain.file().stat().st_size == whole
    writer(receipt(3))
    assert calls(chain) == ["call-1", "call-3"]
    assert chain.verified().broken is None


def test_an_unusable_receipts_folder_is_refused_before_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot use the receipts folder"):
        WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=tmp_path / "file/receipts"))
    gc.collect()  # a partially constructed writer must not print a warning


@pytest.mark.parametrize("name", ["head", "receipts-000001.jsonl"])
def test_a_special_file_is_an_error_without_waiting(chain: Chain, name: str) -> None:
    chain.write(1)
    (chain.folder / name).unlink()
    os.mkfifo(chain.folder / name)
    with pytest.raises(ConfigurationError, match=r"regular file|cannot be"):
        chain.write(1)


def test_a_key_that_others_can_read_is_refused(chain: Chain) -> None:
    chain.write(1)
    chain.key.chmod(0o644)
    with pytest.raises(ConfigurationError, match="other users"):
        chain.writer()


def test_a_closed_writer_refuses_receipts(open_writer: Open) -> None:
    writer = open_writer()
    writer.close()
    writer.close()
    with pytest.raises(ConfigurationError, match="closed"):
        writer(receipt())


def test_an_unclosed_writer_ends_with_its_last_user(chain: Chain) -> None:
    writer = chain.writer()
    writer(receipt())
    opened = len(os.listdir("/proc/self/fd"))
    del writer
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == opened - 2


# -- after a crash -------------------------------------------------------------------------------------------------


def test_a_written_but_uncounted_line_is_adopted(chain: Chain) -> None:
    chain.write(3)
    head = (chain.folder / "head").read_bytes()
    chain.write(1, first=4)
    (chain.folder / "head").write_bytes(head)  # as left by a process that was killed in between
    assert (chain.verified().broken, chain.verified().notes) == (None, ())
    chain.write(1, first=5)
    assert calls(chain) == [f"call-{number}" for number in range(1, 6)]
    assert chain.verified().broken is None


@pytest.mark.parametrize("size", [1, 60, 400])
def test_an_unfinished_line_is_set_aside_and_not_reported_as_a_break(chain: Chain, size: int) -> None:
    chain.write(3)
    head = (chain.folder / "head").read_bytes()
    chain.write(1, first=4)
    torn = chain.lines()[-1][:size]
    chain.rewrite([*chain.lines()[:-1], torn])
    (chain.folder / "head").write_bytes(head)
    found = chain.verified()
    assert found.broken is None and "line 5 is incomplete" in found.notes[0]
    chain.write(2, first=5)
    found = chain.verified()
    assert found.broken is None and found.notes == (f"{chain.file().name}, line 5 records an incomplete line",)
    kept = records(chain)[4]
    assert (kept["type"], kept["bytes"], kept["text"]) == ("torn", size, torn.decode())
    assert calls(chain) == ["call-1", "call-2", "call-3", "call-5", "call-6"]


def test_the_beginning_of_a_long_unfinished_line_is_kept(chain: Chain) -> None:
    chain.write(1)
    head = (chain.folder / "head").read_bytes()
    writer = chain.writer()
    writer(receipt(2, user="u" * 9000))
    writer.close()
    chain.file().write_bytes(chain.file().read_bytes()[:-100])
    (chain.folder / "head").write_bytes(head)
    chain.write(1, first=3)
    kept = records(chain)[2]
    assert (kept["type"], len(str(kept["text"]))) == ("torn", MAX_TORN_BYTES)
    found = chain.verified()
    assert (found.broken, len(found.notes), found.records) == (None, 1, 4)


def test_a_later_call_begins_a_segment_that_could_not_be_begun(
    chain: Chain, open_writer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(path: Path) -> int:
        raise OSError(24, "Too many open files")

    writer = open_writer()
    writer(receipt(1))
    with monkeypatch.context() as patched:
        patched.setattr(writing, "_open_file", none_left)
        with pytest.raises(ConfigurationError, match="Too many open files"):
            for number in range(2, 500):
                writer(receipt(number))
    writer(receipt(900))
    assert calls(chain)[-1] == "call-900"
    assert chain.verified().broken is None


def test_a_segment_that_was_announced_and_not_begun_is_begun(chain: Chain) -> None:
    chain.write(200)
    assert chain.file(2).exists()
    opening = len(chain.lines(2)[0])
    for left in (b"", chain.lines(2)[0][: opening // 2], chain.lines(2)[0]):
        whole = Chain(chain.folder.parent / f"copy-{len(left)}")
        whole.folder.mkdir(parents=True)
        whole.key.write_bytes(chain.key.read_bytes())
        whole.key.chmod(0o600)
        for file in (chain.file(1), chain.folder / "head"):
            (whole.folder / file.name).write_bytes(file.read_bytes())
        announce(whole)
        if left:
            whole.file(2).write_bytes(left)
        assert whole.verified().broken is None
        whole.write(2, first=900)
        assert whole.verified().broken is None
        assert calls(whole)[-2:] == ["call-900", "call-901"]


def announce(chain: Chain) -> None:
    """Restore the head of a process that was killed before it began the second segment."""
    from wasmrt.runtime.audit._chain import Head, read_keys, split_line

    last = split_line(chain.lines(1)[-1])
    assert last is not None
    head = Head(last.number, 2, 0, last.hash, "size")
    (chain.folder / "head").write_bytes(head.pack(read_keys(chain.key)))


def test_a_folder_removed_during_writing_is_recorded_in_the_chain(
    chain: Chain, open_writer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "LOOK_SECONDS", 0.0)
    writer = open_writer()
    writer(receipt(1))
    chain.file().unlink()
    writer(receipt(2))
    assert chain.verified(first={0: 2}).broken is None
    assert "before 2 was missing when segment 2 was started" in chain.verified(first={0: 2}).notes[0]
    (chain.folder / "head").unlink()
    writer(receipt(3))
    assert [cut.segment for cut in chain.verified(first={0: 2}).cuts] == [3]


def test_a_removed_folder_is_one_error_and_is_recreated(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "LOOK_SECONDS", 0.0)
    writer = chain.writer()
    writer(receipt(1))
    shutil.rmtree(chain.folder)
    chain.folder.write_text("in its place")
    for number in (2, 3):
        with pytest.raises(ConfigurationError):
            writer(receipt(number))
    chain.folder.unlink()
    writer(receipt(4))
    writer.close()
    assert calls(chain)[-1] == "call-4"
