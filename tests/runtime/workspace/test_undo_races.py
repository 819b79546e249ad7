"""A person works in the workspace while a call is undone: no later work is lost without an error."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.workspace.test_undo import Writing, tree
from wasmrt.core.errors import UndoError
from wasmrt.runtime.workspace import UndoJournal, _restore, plan_undo, undo

MINE = b"a day of work"
Change = Callable[[Path], object]


def prepare(folder: Path) -> tuple[Path, UndoJournal]:
    """Return a workspace and its journal, after a call that changed, created, removed and moved files."""
    root = folder / "root"
    (root / "deep").mkdir(parents=True)
    for name in ("a.txt", "deep/b.txt", "gone.txt", "moved.txt"):
        (root / name).write_bytes(b"old " + name.encode())
    journal = UndoJournal(folder / "undo")
    call = Writing(root, journal)
    call.write("a.txt", b"new a")
    call.write("deep/b.txt", b"new b")
    call.write("made.txt", b"made")
    call.make_directory("folder")
    call.write("folder/in", b"in")
    call.remove("gone.txt")
    call.rename("moved.txt", "deep/moved.txt")
    call.close()
    return root, journal


@pytest.fixture
def changed(tmp_path: Path) -> tuple[Path, UndoJournal]:
    return prepare(tmp_path)


# -- changes before the undo ---------------------------------------------------------------------------------------


def saved_over(path: Path) -> None:
    """Save a file as many editors do: a new file replaces the old one."""
    path.with_name("draft").write_bytes(MINE)
    path.with_name("draft").replace(path)


def become(kind: str) -> Change:
    def change(path: Path) -> None:
        path.unlink(missing_ok=True)
        if kind == "folder":
            path.mkdir()
            (path / "mine").write_bytes(MINE)
        elif kind == "link to a file":
            path.with_name("mine").write_bytes(MINE)
            path.symlink_to("mine")
        elif kind == "hard link":
            path.with_name("mine").write_bytes(MINE)
            os.link(path.with_name("mine"), path)
        else:
            os.mkfifo(path)

    return change


CHANGES: dict[str, Change] = {
    "written": lambda path: path.write_bytes(MINE),
    "appended": lambda path: path.write_bytes(path.read_bytes() + MINE if path.exists() else MINE),
    "saved over": saved_over,
    "written with the same size and time": lambda path: same_size_and_time(path),
    "folder": become("folder"),
    "link": become("link to a file"),
    "hard link": become("hard link"),
    "pipe": become("pipe"),
}
NAMES = ["a.txt", "deep/b.txt", "made.txt", "folder/in", "gone.txt", "moved.txt", "deep/moved.txt"]


def same_size_and_time(path: Path) -> None:
    status = path.stat() if path.exists() else None
    path.write_bytes(MINE if status is None else b"m" * status.st_size)
    if status is not None:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_undo_after_a_persons_change_changes_nothing(
    changed: tuple[Path, UndoJournal], change: Change, name: str
) -> None:
    root, journal = changed
    change(root / name)
    seen = tree(root)
    with pytest.raises(UndoError) as caught:
        undo(journal, "one-1")
    assert caught.value.code == "undo-conflict"
    assert tree(root) == seen


def test_a_file_that_a_person_restored_is_no_conflict(changed: tuple[Path, UndoJournal]) -> None:
    root, journal = changed
    (root / "a.txt").write_bytes(b"old a.txt")
    assert "a.txt" not in [step.path for step in undo(journal, "one-1").steps]
    assert (root / "gone.txt").read_bytes() == b"old gone.txt"


@pytest.mark.parametrize("again", ["nothing", "folder", "link", "file"])
def test_an_undo_below_a_renamed_folder_changes_nothing(
    changed: tuple[Path, UndoJournal], tmp_path: Path, again: str
) -> None:
    root, journal = changed
    (root / "deep").rename(root / "kept")
    (tmp_path / "outside").mkdir()
    if again == "folder":
        (root / "deep").mkdir()
        (root / "deep/b.txt").write_bytes(MINE)
    elif again == "link":
        (root / "deep").symlink_to(tmp_path / "outside")
    elif again == "file":
        (root / "deep").write_bytes(MINE)
    seen = tree(root)
    with pytest.raises(UndoError) as caught:
        undo(journal, "one-1")
    assert caught.value.code == "undo-conflict"
    assert tree(root) == seen and os.listdir(tmp_path / "outside") == []


# -- changes during the undo ---------------------------------------------------------------------------------------

STEPS = 40
"""More changes than the undo of these calls makes."""


def meddle(patched: pytest.MonkeyPatch, moment: int, change: Callable[[], object]) -> list[bool]:
    """Make a person's change after the undo's change with this number; return a list that then has an entry."""
    left = [moment]
    happened: list[bool] = []

    def after(act: Callable[..., object]) -> Callable[..., object]:
        def run(*values: object, **named: object) -> object:
            done = act(*values, **named)
            if named.keys() & {"dir_fd", "src_dir_fd"} and not happened:
                left[0] -= 1
                if left[0] < 0:
                    happened.append(True)
                    change()
            return done

        return run

    for name in ("rename", "unlink", "rmdir", "mkdir", "link"):
        patched.setattr(os, name, after(getattr(os, name)))
    write = _restore.draft

    @contextlib.contextmanager
    def draft(*values: Any) -> Iterator[str]:
        with write(*values) as name:
            yield after(lambda **_: name)(dir_fd=0)  # type: ignore[misc]

    patched.setattr(_restore, "draft", draft)
    return happened


@pytest.mark.table
@pytest.mark.parametrize("name", ["a.txt", "deep/b.txt", "made.txt", "gone.txt", "moved.txt", "deep/moved.txt"])
@pytest.mark.parametrize("kind", ["saved over", "link", "folder", "hard link"])
@pytest.mark.parametrize("force", [False, True], ids=["", "forced"])
def test_a_change_between_two_steps_of_an_undo_is_kept(
    tmp_path: Path, name: str, kind: str, force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = 0
    for moment in range(STEPS):
        root, journal = prepare(tmp_path / str(moment))
        with monkeypatch.context() as patched:
            happened = meddle(patched, moment, partial(CHANGES[kind], root / name))
            try:
                undo(journal, "one-1", force=force)
            except UndoError:
                stopped += 1
        if not happened:
            break
        assert MINE in [path.read_bytes() for path in root.rglob("*") if path.is_file()], f"lost at moment {moment}"
        assert not list(root.rglob(".wasmrt-*"))
    assert happened == [] and moment > 5 and stopped


def test_a_file_put_into_a_folder_during_an_undo_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, journal = prepare(tmp_path)
    mine = root / "folder/mine"
    with monkeypatch.context() as patched:
        meddle(patched, 0, lambda: mine.write_bytes(MINE))
        with pytest.raises(UndoError, match="could not be undone"):
            undo(journal, "one-1")
    assert mine.read_bytes() == MINE
    mine.unlink()
    undo(journal, "one-1")
    assert not mine.parent.exists()


# -- two at once ---------------------------------------------------------------------------------------------------

UNDO = """
import sys
from pathlib import Path
from wasmrt.core.errors import UndoError
from wasmrt.runtime.workspace import UndoJournal, undo
journal = UndoJournal(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
try:
    undo(journal, "one-1")
    print("done")
except UndoError as error:
    print(error.code)
"""


@pytest.mark.ci("slow")
def test_of_several_undos_at_once_one_is_carried_out(tmp_path: Path) -> None:
    root, _ = prepare(tmp_path)
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", UNDO, str(tmp_path / "undo")]
    running = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for each in running:
        assert each.stdout is not None and each.stdout.readline() == "ready\n"
    for each in running:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    said = sorted(each.communicate()[0].strip() for each in running)
    assert said.count("done") == 1
    assert set(said) <= {"done", "undo-busy", "undo-unknown"}
    assert (root / "a.txt").read_bytes() == b"old a.txt" and not list(root.rglob(".wasmrt-*"))


def test_a_second_undo_during_the_first_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, journal = prepare(tmp_path)
    second: list[str] = []

    def undo_again() -> None:
        with pytest.raises(UndoError) as caught:
            undo(journal, "one-1")
        second.append(caught.value.code)

    with monkeypatch.context() as patched:
        meddle(patched, 2, undo_again)
        undo(journal, "one-1")
    assert second == ["undo-busy"]
    assert (root / "gone.txt").read_bytes() == b"old gone.txt"


def test_a_call_is_undone_only_after_its_end(tmp_path: Path) -> None:
    root, journal = prepare(tmp_path)
    call = Writing(root, journal, "two-1")
    call.write("a.txt", b"running")
    with pytest.raises(UndoError, match="still running") as caught:
        undo(journal, "two-1")
    assert caught.value.code == "undo-busy"
    assert plan_undo(journal, "two-1").steps, "a plan changes nothing"
    call.write("a.txt", b"and on")
    call.close()
    undo(journal, "two-1")
    assert (root / "a.txt").read_bytes() == b"new a"


# -- clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [-(10**17), -(10**9), 0, 10**17], ids=["years back", "back", "still", "years ahead"])
def test_the_last_call_is_undone_first_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    root, journal = prepare(tmp_path)
    undo(journal, "one-1")
    before = tree(root)
    times = itertools.count(time.time_ns(), step)
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    for number in range(5):
        call = Writing(root, journal, f"in-{number}", within="prog-t1.1")
        call.write("a.txt", b"%d" % number)
        call.close()
    assert journal.calls_of("prog-t1") == [f"in-{number}" for number in reversed(range(5))]
    for call_id in journal.calls_of("prog-t1"):
        undo(journal, call_id)
    assert tree(root) == before
