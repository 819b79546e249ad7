"""Undo a call's changes: byte for byte, with permissions, and never overwriting later changes by others."""

import contextlib
import errno
import itertools
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.tiers import examples, kills
from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.core.errors import CapabilityDeniedError, UndoError
from wasmrt.core.model import Reason
from wasmrt.runtime.workspace import (
    Act,
    UndoJournal,
    WorkspaceWriter,
    _journal,
    check_conflicts,
    plan_undo,
    plan_undo_all,
    undo,
)

KILLS = kills(10)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"old\r\n\0\xff")
    (root / "a.txt").chmod(0o640)
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "deep" / "b.txt").write_bytes(b"b")
    (root / "deep" / "er" / "c").write_bytes(b"")
    (root / "empty").mkdir(mode=0o700)
    return root


@pytest.fixture
def journal(tmp_path):
    return UndoJournal(tmp_path / "undo")


class Writing:
    """The writer of one call."""

    def __init__(self, root, journal, call_id="one-1", within="", **bounds):
        self._writer = WorkspaceWriter(root, WorkspaceWriteCapability(("",), remove=True, **bounds), journal)
        known = {"call_id": call_id, "tool": "files.write_file", "user": "local", "within": within}
        self._budget = self._writer.new_budget(**known)
        self.close = self._budget.journal.close

    def __getattr__(self, name):
        act = getattr(self._writer, name)
        return lambda *values, **named: act(*values, self._budget, **named)


def tree(root):
    """Everything below a folder, with content, permissions and times."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        times = status.st_mtime_ns if content is not None else 0
        found[path.relative_to(root).as_posix()] = (oct(status.st_mode), content, times)
    return found


def contents(root):
    """Everything below a folder without times: unchanged files are not rewritten."""
    return {path: known[:2] for path, known in tree(root).items()}


def everything(call):
    call.write("a.txt", b"new")
    call.write("a.txt", b"newer")
    call.write("made.txt", b"made")
    call.make_directory("folder")
    call.make_directory("folder/in")
    call.write("folder/in/x", b"x")
    call.rename("folder", "moved")
    call.write("moved/in/y", b"y")
    call.rename("run.sh", "moved/run.sh")
    call.write("moved/run.sh", b"rewritten where it went")
    call.remove("deep/er/c")
    call.remove("deep/er", directory=True)
    call.remove("empty", directory=True)
    call.rename("deep/b.txt", "a.txt")
    call.close()


def test_every_kind_of_change_is_undone_byte_for_byte(root, journal):
    before = tree(root)
    everything(Writing(root, journal))
    assert tree(root) != before
    plan = undo(journal, "one-1")
    assert tree(root) == before
    assert {step.do for step in plan.steps} == set(Act)
    assert journal.call_ids() == []


def test_a_plan_describes_the_undo_without_doing_it(root, journal):
    everything(Writing(root, journal))
    changed = tree(root)
    plan = plan_undo(journal, "one-1").as_dict()
    assert tree(root) == changed
    assert plan["workspace"] == str(root) and plan["tool"] == "files.write_file" and plan["conflicts"] == []
    assert {"do": "restore", "path": "a.txt", "bytes": 7, "mode": "0640"} in plan["steps"]
    assert plan["steps"][-1] == {"do": "remove-folder", "path": "moved"}
    json.dumps(plan)


NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/a", "n", "n/a"])
CONTENTS = st.binary(max_size=3)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, CONTENTS),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("rmdir"), NAMES),
        st.tuples(st.just("make_directory"), NAMES),
        st.tuples(st.just("rename"), NAMES, NAMES),
    ),
    max_size=12,
)


@pytest.mark.ci("slow")
@given(acts=ACTS)
@settings(
    max_examples=int(os.environ.get("WASMRT_UNDO_LAWS", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_undo_is_the_inverse_of_any_call(tmp_path_factory, acts):
    root, journal = start(tmp_path_factory.mktemp("law"))
    before = contents(root)
    apply(Writing(root, journal), acts)
    if journal.call_ids():
        undo(journal, "one-1")
    assert contents(root) == before


def test_a_folder_cannot_be_moved_into_itself(root, journal):
    before = tree(root)
    call = Writing(root, journal)
    call.make_directory("new")
    call.rename("a.txt", "new/a.txt")
    with pytest.raises(CapabilityDeniedError, match="into itself") as caught:
        call.rename("new", "new/x")
    assert caught.value.decision.reason == Reason.INVALID_PATH
    call.write("new/a.txt", b"junk")
    call.close()
    undo(journal, "one-1")
    assert tree(root) == before


def test_a_failed_moves_source_is_still_stored(root, journal, monkeypatch):
    before = tree(root)
    call = Writing(root, journal)
    call.make_directory("new")
    call.rename("a.txt", "new/a.txt")
    with monkeypatch.context() as patched, pytest.raises(CapabilityDeniedError):
        patched.setattr(os, "rename", stopping(os.rename, [0]))
        call.rename("new", "other")
    call.write("new/a.txt", b"junk")
    call.close()
    undo(journal, "one-1")
    assert tree(root) == before


def test_a_file_created_just_before_a_call_is_restored(root, journal, monkeypatch):
    call = Writing(root, journal)
    link = os.link

    def late(*values, **named):
        (root / "mine").write_bytes(b"mine")
        link(*values, **named)

    with monkeypatch.context() as patched, pytest.raises(CapabilityDeniedError, match="taken"):
        patched.setattr(os, "link", late)
        call.write("mine", b"new", new=True)
    call.write("mine", b"over it")
    call.close()
    undo(journal, "one-1")
    assert (root / "mine").read_bytes() == b"mine"


@pytest.mark.ci("slow")
@given(acts=ACTS, failing=st.sets(st.integers(0, 25), min_size=1))
@example(
    acts=[
        ("make_directory", "n"),
        ("rename", "a", "n/a"),
        ("rename", "n", "m"),
        ("write", "n/a", b"junk"),
    ],
    failing={3},
)
@settings(
    max_examples=int(os.environ.get("WASMRT_UNDO_LAWS", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_undo_is_the_inverse_of_a_call_with_failed_changes(tmp_path_factory, acts, failing):
    root, journal = start(tmp_path_factory.mktemp("law"))
    before = contents(root)
    with pytest.MonkeyPatch.context() as patched:
        made = itertools.count()
        for name in ("rename", "unlink", "rmdir", "mkdir", "link"):
            patched.setattr(os, name, failing_at(getattr(os, name), made, failing))
        apply(Writing(root, journal), acts)
    for draft in root.rglob(".wasmrt-*"):
        draft.unlink()
    if journal.call_ids():
        undo(journal, "one-1")
    assert contents(root) == before


def failing_at(act, made, failing):
    """Fail some system calls without effect, but never two in a row, since a partial move is then reverted."""

    def maybe(*values, **named):
        if not named:  # a file of the journal itself
            return act(*values)
        number = next(made)
        if number in failing and number - 1 not in failing:
            raise OSError(errno.EIO, "failed")
        return act(*values, **named)

    return maybe


def start(folder):
    root = folder / "root"
    (root / "d" / "e").mkdir(parents=True)
    (root / "a").write_bytes(b"a")
    (root / "d" / "a").write_bytes(b"da")
    (root / "d" / "e" / "a").write_bytes(b"a")
    return root, UndoJournal(folder / "undo")


def apply(call, acts):
    for act, *values in acts:
        with contextlib.suppress(CapabilityDeniedError):
            if act == "rmdir":
                call.remove(*values, directory=True)
            else:
                getattr(call, act)(*values)
    call.close()


@given(acts=ACTS, after=st.integers(0, 12))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_interrupted_undo_can_be_resumed(tmp_path_factory, acts, after):
    folder = tmp_path_factory.mktemp("law")
    root, journal = start(folder)
    before = contents(root)
    apply(Writing(root, journal), acts)
    with pytest.MonkeyPatch.context() as patched:
        left = [after]
        for name in ("rename", "unlink", "rmdir", "mkdir", "link"):
            patched.setattr(os, name, stopping(getattr(os, name), left))
        if journal.call_ids():
            with contextlib.suppress(UndoError):
                undo(journal, "one-1")
    for draft in root.rglob(".wasmrt-*"):
        draft.unlink()
    if journal.call_ids():
        undo(journal, "one-1")
    assert contents(root) == before


def stopping(act, left):
    def stop(*values, **named):
        if not left[0]:
            raise OSError(errno.EIO, "stopped")
        left[0] -= 1
        return act(*values, **named)

    return stop


@pytest.fixture
def twins(root):
    """Two files with the same content."""
    for name, mode in (("one", 0o600), ("two", 0o644)):
        (root / name).write_bytes(b"same")
        (root / name).chmod(mode)
        os.utime(root / name, ns=(mode, mode))
    return root / "one", root / "two"


def test_moved_equal_files_are_restored_as_two_files(root, journal, twins):
    before = tree(root)
    inodes = [each.stat().st_ino for each in twins]
    call = Writing(root, journal)
    call.rename("one", "deep/one")
    call.rename("two", "deep/two")
    call.close()
    undo(journal, "one-1")
    assert tree(root) == before and [each.stat().st_ino for each in twins] == inodes


def test_an_unmoved_file_is_not_linked_to_a_restored_equal_one(root, journal, twins):
    twins[1].chmod(0o600)
    before = contents(root)
    call = Writing(root, journal)
    call.rename("one", "deep/one")
    call.rename("two", "deep/two")
    call.rename("deep/two", "two")
    call.close()
    undo(journal, "one-1")
    assert contents(root) == before and twins[0].stat().st_ino != twins[1].stat().st_ino


@pytest.mark.parametrize("after", range(8))
def test_equal_files_are_restored_as_two_after_an_interrupted_undo(root, journal, twins, after):
    twins[1].chmod(0o600)
    before = tree(root)
    call = Writing(root, journal)
    call.rename("one", "deep/one")
    call.rename("two", "deep/two")
    call.close()
    with pytest.MonkeyPatch.context() as patched, contextlib.suppress(UndoError):
        left = [after]
        for name in ("rename", "unlink", "link"):
            patched.setattr(os, name, stopping(getattr(os, name), left))
        undo(journal, "one-1")
    if journal.call_ids():
        undo(journal, "one-1")
    for draft in root.rglob(".wasmrt-*"):
        draft.unlink()
    assert tree(root) == before and twins[0].stat().st_ino != twins[1].stat().st_ino


def test_later_changes_stop_an_undo_unless_forced(root, journal):
    before = tree(root)
    call = Writing(root, journal)
    call.write("a.txt", b"new")
    call.write("made.txt", b"made")
    call.close()
    (root / "a.txt").write_bytes(b"by hand")
    changed = tree(root)
    with pytest.raises(UndoError, match=r"a\.txt has changed since") as caught:
        undo(journal, "one-1")
    assert caught.value.code == "undo-conflict" and "--force" in caught.value.hint
    assert tree(root) == changed
    undo(journal, "one-1", force=True)
    assert tree(root) == before


@pytest.mark.parametrize("change", ["mode", "content", "gone", "folder", "link"])
def test_every_kind_of_later_change_is_detected(root, journal, change):
    call = Writing(root, journal)
    call.write("a.txt", b"new")
    call.close()
    path = root / "a.txt"
    if change == "mode":
        path.chmod(0o600)
    elif change == "content":
        path.write_bytes(b"new ")
    else:
        path.unlink()
    if change == "folder":
        path.mkdir()
    elif change == "link":
        path.symlink_to("/etc/passwd")
    seen = tree(root)
    with pytest.raises(UndoError):
        undo(journal, "one-1")
    assert tree(root) == seen
    (conflict,) = plan_undo(journal, "one-1").conflicts
    assert (conflict.step is None) == (change in ("folder", "link"))


def test_a_folder_with_another_file_in_it_is_kept(root, journal):
    call = Writing(root, journal)
    call.make_directory("folder")
    call.write("folder/x", b"x")
    call.close()
    (root / "folder" / "mine").write_bytes(b"mine")
    with pytest.raises(UndoError, match="files that the call did not create"):
        undo(journal, "one-1")
    undo(journal, "one-1", force=True)
    assert sorted(os.listdir(root / "folder")) == ["mine"]


def test_links_cannot_lead_an_undo_out_of_the_workspace(root, journal, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.txt").write_bytes(b"outside")
    call = Writing(root, journal)
    call.write("deep/b.txt", b"new")
    call.close()
    (root / "deep").rename(root / "kept")
    (root / "deep").symlink_to(outside)
    for force in (False, True):
        try:
            undo(journal, "one-1", force=force)
        except UndoError:
            continue
    assert (outside / "b.txt").read_bytes() == b"outside" and os.listdir(outside) == ["b.txt"]


def test_a_file_that_could_not_be_stored_is_not_changed(root, journal, monkeypatch):
    monkeypatch.setattr(_journal, "MAX_UNDO_FILE_BYTES", 100)
    monkeypatch.setattr(_journal, "MAX_UNDO_CALL_BYTES", 1000)
    (root / "large").write_bytes(b"x" * 101)
    before = tree(root)
    call = Writing(root, journal)
    for act in (lambda: call.write("large", b""), lambda: call.remove("large"), lambda: call.rename("a.txt", "large")):
        with pytest.raises(CapabilityDeniedError, match="could not be undone") as caught:
            act()
        assert caught.value.decision.reason == Reason.NOT_UNDOABLE
        assert "wasmrt config set workspace.undo false" in caught.value.decision.hint
    assert tree(root) == before
    call.rename("large", "larger")  # loses nothing
    with pytest.raises(CapabilityDeniedError, match="could not be undone"):
        call.write("larger", b"")
    call.close()
    undo(journal, "one-1")
    assert tree(root) == before


def test_repeated_writes_of_one_file_are_limited(root, journal, monkeypatch):
    monkeypatch.setattr(_journal, "MAX_UNDO_CALL_BYTES", 5000)
    call = Writing(root, journal)
    with pytest.raises(CapabilityDeniedError, match="could not be undone"):
        for _ in range(1000):
            call.write("a.txt", b"")
    call.close()
    (file,) = (journal._folder).iterdir()
    assert file.stat().st_size < 6000


def test_old_calls_are_removed_for_new_ones(root, journal, monkeypatch):
    monkeypatch.setattr(_journal, "MAX_UNDO_CALLS", 3)
    for number in range(5):
        call = Writing(root, journal, f"call-{number}")
        call.write("a.txt", b"%d" % number)
        call.close()
    assert journal.call_ids() == ["call-4", "call-3", "call-2"]
    with pytest.raises(UndoError, match="no recorded changes of call") as caught:
        plan_undo(journal, "call-0")
    assert "--list" in caught.value.hint


@pytest.mark.parametrize(("bound", "most"), [("MAX_UNDO_CALLS", 6), ("_ROOM_BYTES", 6000)])
def test_a_user_cannot_evict_calls_of_users_with_less(root, journal, monkeypatch, bound, most):
    monkeypatch.setattr(_journal, bound, most)
    for number in range(3):
        changing(root, journal, "ann", number)
    for number in range(20):
        changing(root, journal, "bob", number)
    known = journal.call_ids()
    assert [each for each in known if each.startswith("ann")] == ["ann-2", "ann-1", "ann-0"]
    assert known[0] == "bob-19" and len(known) in (6, 7)
    changing(root, journal, "cid", 0)
    for number in range(3, 20):
        changing(root, journal, "ann", number)
    known = journal.call_ids()
    assert known[0] == "ann-19" and "cid-0" in known and "bob-19" in known


def changing(root, journal, user, number):
    (root / "a.txt").write_bytes(b"%7d" % number * 100)
    writer = WorkspaceWriter(root, WorkspaceWriteCapability(("",)), journal)
    budget = writer.new_budget(call_id=f"{user}-{number}", tool="t", user=user)
    writer.write("a.txt", b"x", budget)
    budget.journal.close()


def test_a_full_journal_refuses_the_change(root, journal):
    before = tree(root)
    call = Writing(root, journal)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    (root / "a.txt").write_bytes(b"x" * 50_000)
    before = tree(root)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        with pytest.raises(CapabilityDeniedError, match="no space left for the undo journal") as caught:
            call.write("a.txt", b"short")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.decision.reason == Reason.NO_SPACE
    assert tree(root) == before
    call.write("a.txt", b"short")
    call.close()
    undo(journal, "one-1")
    assert tree(root) == before


def test_an_unwritable_journal_refuses_the_change(root, tmp_path):
    (tmp_path / "undo").write_bytes(b"a file")
    call = Writing(root, UndoJournal(tmp_path / "undo"))
    with pytest.raises(CapabilityDeniedError, match="cannot be written"):
        call.write("a.txt", b"new")
    assert (root / "a.txt").read_bytes() == b"old\r\n\0\xff"


def test_a_journal_is_private_and_exists_only_for_calls_with_changes(root, journal):
    call = Writing(root, journal)
    with pytest.raises(CapabilityDeniedError):
        call.write("AGENTS.md", b"x")
    call.close()
    assert journal.call_ids() == []
    call = Writing(root, journal)
    call.write("a.txt", b"new")
    call.close()
    (file,) = journal._folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(journal._folder.stat().st_mode) == 0o700


def test_a_truncated_entry_means_that_the_change_did_not_begin(root, journal):
    call = Writing(root, journal)
    call.write("made.txt", b"made")
    known = tree(root)
    call.write("a.txt", b"new")
    call.close()
    (root / "a.txt").write_bytes(b"old\r\n\0\xff")
    (root / "a.txt").chmod(0o640)
    (file,) = journal._folder.iterdir()
    whole = file.read_bytes()
    first = whole.index(b"\n", whole.index(b"\n") + 1) + 2
    for end in range(first, len(whole)):
        file.write_bytes(whole[:end])
        assert [step.path for step in plan_undo(journal, "one-1").steps] == ["made.txt"], end
    undo(journal, "one-1")
    assert set(tree(root)) == set(known) - {"made.txt"}


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "", "a//b"])
def test_a_damaged_journal_is_reported_and_not_followed(root, journal, path):
    call = Writing(root, journal)
    call.write("a.txt", b"new")
    call.close()
    (file,) = journal._folder.iterdir()
    for damaged in (file.read_bytes().replace(b'"a.txt"', json.dumps(path).encode()), b"{}\n", b"[2]\n", b"\xff\n"):
        file.write_bytes(damaged)
        with pytest.raises(UndoError, match="damaged"):
            undo(journal, "one-1", force=True)


def test_damaged_content_in_the_journal_is_not_restored(root, journal):
    call = Writing(root, journal)
    call.write("a.txt", b"new")
    call.close()
    (file,) = journal._folder.iterdir()
    file.write_bytes(file.read_bytes().replace(b"old\r", b"bad\r"))
    with pytest.raises(UndoError, match="damaged"):
        undo(journal, "one-1")
    assert (root / "a.txt").read_bytes() == b"new" and sorted(os.listdir(root)) == ["a.txt", "deep", "empty", "run.sh"]


_CHANGE_FOREVER = """
import itertools, sys
from pathlib import Path
from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.runtime.workspace import UndoJournal, WorkspaceWriter
writer = WorkspaceWriter(sys.argv[1], WorkspaceWriteCapability(("",), remove=True))
writer._journal = UndoJournal(Path(sys.argv[2]))
print("ready", flush=True)
for number in itertools.count():
    budget = writer.new_budget(call_id=f"call-{number}", tool="t", user="u")
    writer.write("a.txt", bytes([number % 256]) * 200_000, budget)
    writer.write("new.txt", b"n" * 100_000, budget)
    writer.rename("new.txt", "deep/new.txt", budget)
    writer.remove("deep/new.txt", budget)
    budget.journal.close()
"""


@pytest.mark.ci("slow")
def test_after_a_kill_files_are_whole_and_the_call_can_be_undone(root, journal):
    target = root / "a.txt"
    target.write_bytes(bytes(200_000))
    known = 0
    untouched = {name for name in tree(root) if name != "a.txt"}
    for number in range(KILLS):
        running = subprocess.Popen(
            [sys.executable, "-c", _CHANGE_FOREVER, str(root), str(journal._folder)], stdout=subprocess.PIPE
        )
        try:
            assert running.stdout.readline() == b"ready\n"
            seen = target.stat().st_ino
            while target.stat().st_ino == seen:
                assert running.poll() is None
            for _ in range(number % 50 * 20):
                target.stat()
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
            running.stdout.close()
        content = target.read_bytes()
        assert len(content) == 200_000 and len(set(content)) == 1
        ids = journal.call_ids()
        undo(journal, ids[0])
        expected = int(ids[1].partition("-")[2]) % 256 if len(ids) > 1 else known
        assert set(target.read_bytes()) == {expected}
        known = expected
        for draft in root.rglob(".wasmrt-*"):
            draft.unlink()
        assert set(tree(root)) - {"a.txt"} == untouched
        for each in Path(journal._folder).iterdir():
            each.unlink()


def program(root, journal):
    """Three calls of one program that build on each other, and one call of another program."""
    first = Writing(root, journal, "in-1", within="prog-t1.1")
    first.make_directory("new")
    first.write("a.txt", b"first")
    first.remove("run.sh")
    first.close()
    second = Writing(root, journal, "in-2", within="prog-t1.1")
    second.write("new/x", b"x")
    second.write("a.txt", b"second")
    second.write("run.sh", b"again")
    second.close()
    third = Writing(root, journal, "in-3", within="prog-t1.3")
    third.rename("new/x", "deep/x")
    third.remove("new", directory=True)
    third.close()
    other = Writing(root, journal, "other-1", within="prog-t2.1")
    other.write("other", b"other")
    other.close()


def test_a_programs_calls_are_undone_newest_first_by_any_of_its_ids(root, journal):
    before = tree(root)
    program(root, journal)
    for call_id in ("prog-t1", "prog-t1.1", "prog-t1.2", "prog-t1.3"):
        assert journal.calls_of(call_id) == ["in-3", "in-2", "in-1"]
    assert journal.calls_of("in-2") == ["in-2"] and journal.calls_of("prog-t3.1") == ["prog-t3.1"]
    plans = plan_undo_all(journal, journal.calls_of("prog-t1.3"))
    assert [plan.head.call_id for plan in plans if not plan.conflicts] == ["in-3", "in-2", "in-1"]
    done = [undo(journal, plan.head.call_id) for plan in plans]
    assert [plan.steps for plan in done] == [plan.steps for plan in plans]
    (root / "other").unlink()
    assert tree(root) == before and journal.call_ids() == ["other-1"]


def test_a_plan_of_several_calls_detects_changes_between_them(root, journal):
    program(root, journal)
    late = Writing(root, journal, "in-4", within="prog-t1.4")
    (root / "a.txt").write_bytes(b"by hand")
    late.write("a.txt", b"fourth")
    late.close()
    after = tree(root)
    plans = plan_undo_all(journal, journal.calls_of("prog-t1"))
    conflicts = [[(each.path, each.problem) for each in plan.conflicts] for plan in plans]
    assert conflicts == [[], [], [("a.txt", "has changed since")], []]
    with pytest.raises(UndoError, match=r"a\.txt has changed since"):
        check_conflicts(plans[2])
    assert tree(root) == after


def test_a_folder_filled_by_a_later_call_is_not_expected_to_be_removed(root, journal):
    first = Writing(root, journal, "in-1", within="prog-t1.1")
    first.make_directory("new")
    first.close()
    (root / "new" / "mine").write_bytes(b"mine")
    second = Writing(root, journal, "in-2", within="prog-t1.1")
    second.remove("new/mine")
    second.close()
    plans = plan_undo_all(journal, journal.calls_of("prog-t1"))
    assert [each.problem for each in plans[1].conflicts] == ["contains files that the call did not create"]


def test_a_journal_of_the_previous_version_is_read(root, journal):
    writing = Writing(root, journal)
    writing.write("a.txt", b"new")
    writing.close()
    path, record = journal.read("one-1")
    head, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(json.dumps([1, *json.loads(head)[1:-1]]).encode() + b"\n" + rest)
    assert journal.read("one-1")[1].head == record.head
