"""Tests of `wasmrt undo`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.core.places import find_places
from wasmrt.runtime.workspace import UndoJournal, WorkspaceWriter

Run = Callable[..., Result]


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.txt").write_bytes(b"old")
    return root


def change(root: Path, call_id: str, content: bytes = b"new", within: str = "") -> None:
    writer = WorkspaceWriter(root, WorkspaceWriteCapability(("",)), UndoJournal(find_places().undo))
    budget = writer.new_budget(call_id=call_id, tool="files.write_file", user="local", within=within)
    writer.write("a.txt", content, budget)
    writer.write("b.txt", content, budget)
    assert budget.journal is not None
    budget.journal.close()


def test_last_call_is_undone(wasmrt: Run, root: Path) -> None:
    change(root, "first-1", b"first")
    change(root, "second-1", b"second")
    said = wasmrt("undo", "--yes").stderr
    assert "call second-1 of files.write_file" in said and "restore a.txt (5 B)" in said
    assert (root / "a.txt").read_bytes() == (root / "b.txt").read_bytes() == b"first"
    wasmrt("undo", "first-1", "--yes")
    assert (root / "a.txt").read_bytes() == b"old" and not (root / "b.txt").exists()
    assert "nothing to undo" in wasmrt("undo", "--yes", code=1).stderr


def test_undo_without_a_terminal_needs_yes(wasmrt: Run, root: Path) -> None:
    change(root, "first-1")
    said = wasmrt("undo", code=2).stderr
    assert "restore a.txt (3 B)" in said and "remove b.txt" in said and "wasmrt undo first-1 --yes" in said
    assert (root / "a.txt").read_bytes() == b"new"


def test_undo_list_shows_every_call(wasmrt: Run, root: Path) -> None:
    assert "nothing to undo" in wasmrt("undo", "--list").stderr
    assert json.loads(wasmrt("undo", "--list", "--json").stdout) == []
    change(root, "first-1")
    change(root, "second-1")
    lines = wasmrt("undo", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["CALL", "second-1", "first-1"] and str(root) in lines[1]
    listed = json.loads(wasmrt("undo", "--list", "--json").stdout)
    assert [each["call_id"] for each in listed] == ["second-1", "first-1"]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A local time zone that is not UTC."""
    monkeypatch.setenv("TZ", "XXX-11")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_undo_times_are_in_utc(wasmrt: Run, root: Path, elsewhere: None) -> None:
    change(root, "first-1")
    header, row = wasmrt("undo", "--list").stdout.splitlines()
    at_ms = json.loads(wasmrt("undo", "--list", "--json").stdout)[0]["at_ms"]
    expected = f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    assert "TIME (UTC)" in header and expected in row
    assert f"{expected} UTC" in wasmrt("undo", code=2).stderr


@pytest.mark.parametrize(
    ("files", "folders", "said"),
    [(1, 0, "1 file"), (2, 0, "2 files"), (0, 1, "1 folder"), (1, 2, "1 file and 2 folders")],
)
def test_undo_counts_files_and_folders_separately(wasmrt: Run, root: Path, files: int, folders: int, said: str) -> None:
    writer = WorkspaceWriter(root, WorkspaceWriteCapability(("",)), UndoJournal(find_places().undo))
    budget = writer.new_budget(call_id="first-1", tool="t", user="local")
    for number in range(files):
        writer.write(f"file-{number}", b"", budget)
    for number in range(folders):
        writer.make_directory(f"folder-{number}", budget)
    assert budget.journal is not None
    budget.journal.close()
    assert "FILES AND FOLDERS" in wasmrt("undo", "--list").stdout
    assert f"undid first-1: {said}\n" in wasmrt("undo", "--yes").stderr


def test_later_changes_are_overwritten_only_with_force(wasmrt: Run, root: Path) -> None:
    change(root, "first-1")
    (root / "a.txt").write_bytes(b"by hand")
    refused = wasmrt("undo", "--yes", code=1).stderr
    assert "conflict: a.txt has changed since; --force would restore a.txt (3 B)" in refused
    error = json.loads(wasmrt("undo", "--yes", "--json", code=1).stderr)
    assert error["code"] == "undo-conflict" and "--force" in error["hint"]
    assert (root / "a.txt").read_bytes() == b"by hand"
    done = json.loads(wasmrt("undo", "--yes", "--force", "--json").stdout)
    assert done["undone"] and done["conflicts"][0]["path"] == "a.txt" and len(done["steps"]) == 2
    assert (root / "a.txt").read_bytes() == b"old"


def test_unknown_call_and_missing_workspace_are_errors(wasmrt: Run, root: Path) -> None:
    assert "wasmrt undo --list" in wasmrt("undo", "what", "--yes", code=1).stderr
    change(root, "first-1")
    root.rename(root.with_name("elsewhere"))
    assert "the workspace of the call is missing" in wasmrt("undo", "--yes", code=1).stderr
    assert "the workspace of the call is missing" in wasmrt("undo", "--list").stderr


def test_program_is_undone_by_its_id_call_by_call(wasmrt: Run, root: Path) -> None:
    change(root, "in-1", b"first", within="prog-t1.1")
    change(root, "in-2", b"second", within="prog-t1.2")
    asked = wasmrt("undo", "prog-t1.2", code=2).stderr
    assert asked.index("call in-2 of") < asked.index("call in-1 of") and asked.count("by the program prog-t1\n") == 2
    assert "wasmrt undo prog-t1.2 --yes" in asked and (root / "a.txt").read_bytes() == b"second"
    done = json.loads(wasmrt("undo", "prog-t1.2", "--yes", "--json").stdout)
    assert (done["call_id"], [call["call_id"] for call in done["calls"]], done["undone"]) == (
        "prog-t1.2", ["in-2", "in-1"], True,
    )  # fmt: skip
    assert (root / "a.txt").read_bytes() == b"old" and not (root / "b.txt").exists()


def test_program_is_not_undone_if_one_call_conflicts(wasmrt: Run, root: Path) -> None:
    change(root, "in-1", b"first", within="prog-t1.1")
    (root / "a.txt").write_bytes(b"by hand")
    change(root, "in-2", b"second", within="prog-t1.1")
    assert "a.txt has changed since" in wasmrt("undo", "prog-t1", "--yes", code=1).stderr
    assert (root / "a.txt").read_bytes() == b"second"
    wasmrt("undo", "prog-t1", "--yes", "--force")
    assert (root / "a.txt").read_bytes() == b"old"


def test_partial_undo_of_a_program_lists_the_calls(wasmrt: Run, root: Path) -> None:
    change(root, "in-1", b"first", within="prog-t1.1")
    change(root, "in-2", b"second", within="prog-t1.1")
    journal = UndoJournal(find_places().undo)
    path, record = journal.read("in-1")
    offset = record.contents[next(iter(record.contents))].offset
    data = path.read_bytes()
    path.write_bytes(data[:offset] + b"bad" + data[offset + 3 :])
    error = json.loads(wasmrt("undo", "prog-t1", "--yes", "--json", code=1).stderr)
    assert error["message"] == "in-1: the call's undo journal is damaged; already undone: in-2; not undone: in-1"
    assert (root / "a.txt").read_bytes() == b"first" and journal.calls_of("prog-t1") == ["in-1"]
