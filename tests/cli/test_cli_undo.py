"""`wasmrt undo`: what a run changed is taken back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.places import find_places
from wasmrt.workspace import UndoJournal, WorkspaceWriter

Run = Callable[..., Result]


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.txt").write_bytes(b"old")
    return root


def change(root: Path, call_id: str, content: bytes = b"new") -> None:
    writer = WorkspaceWriter(root, WorkspaceWriteCapability(("",)), UndoJournal(find_places().undo))
    budget = writer.new_budget(call_id=call_id, tool="files.write_file", user="local")
    writer.write("a.txt", content, budget)
    writer.write("b.txt", content, budget)
    assert budget.journal is not None
    budget.journal.close()


def test_the_last_call_is_taken_back(wasmrt: Run, root: Path) -> None:
    change(root, "first-1", b"first")
    change(root, "second-1", b"second")
    said = wasmrt("undo", "--yes").stderr
    assert "call second-1 of files.write_file" in said and "restore a.txt (5 B)" in said
    assert (root / "a.txt").read_bytes() == (root / "b.txt").read_bytes() == b"first"
    wasmrt("undo", "first-1", "--yes")
    assert (root / "a.txt").read_bytes() == b"old" and not (root / "b.txt").exists()
    assert "nothing to take back" in wasmrt("undo", "--yes", code=1).stderr


def test_nothing_is_done_where_nobody_can_be_asked(wasmrt: Run, root: Path) -> None:
    change(root, "first-1")
    said = wasmrt("undo", code=2).stderr
    assert "restore a.txt (3 B)" in said and "remove b.txt" in said and "wasmrt undo first-1 --yes" in said
    assert (root / "a.txt").read_bytes() == b"new"


def test_the_list_names_every_call(wasmrt: Run, root: Path) -> None:
    assert "nothing to take back" in wasmrt("undo", "--list").stderr
    assert json.loads(wasmrt("undo", "--list", "--json").stdout) == []
    change(root, "first-1")
    change(root, "second-1")
    lines = wasmrt("undo", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["CALL", "second-1", "first-1"] and str(root) in lines[1]
    listed = json.loads(wasmrt("undo", "--list", "--json").stdout)
    assert [each["call_id"] for each in listed] == ["second-1", "first-1"]


def test_what_was_changed_since_is_lost_only_where_somebody_insists(wasmrt: Run, root: Path) -> None:
    change(root, "first-1")
    (root / "a.txt").write_bytes(b"by hand")
    refused = wasmrt("undo", "--yes", code=1).stderr
    assert "conflict: a.txt was changed since; --force would restore a.txt (3 B)" in refused
    error = json.loads(wasmrt("undo", "--yes", "--json", code=1).stderr)
    assert error["code"] == "undo-conflict" and "--force" in error["hint"]
    assert (root / "a.txt").read_bytes() == b"by hand"
    done = json.loads(wasmrt("undo", "--yes", "--force", "--json").stdout)
    assert done["undone"] and done["conflicts"][0]["path"] == "a.txt" and len(done["steps"]) == 2
    assert (root / "a.txt").read_bytes() == b"old"


def test_an_unknown_call_and_a_workspace_that_is_gone_are_said(wasmrt: Run, root: Path) -> None:
    assert "wasmrt undo --list" in wasmrt("undo", "what", "--yes", code=1).stderr
    change(root, "first-1")
    root.rename(root.with_name("elsewhere"))
    assert "the workspace of the call is gone" in wasmrt("undo", "--yes", code=1).stderr
    assert "the workspace of the call is gone" in wasmrt("undo", "--list").stderr
