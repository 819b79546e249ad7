"""Write workspace files for a guest: atomic replacement, refusals, races that must not succeed, and kills."""

import contextlib
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.tiers import kills
from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.core.errors import CapabilityDeniedError, ConfigurationError
from wasmrt.core.model import Addition, Reason
from wasmrt.runtime.workspace import WorkspaceWriter, WriteBudget

SECRET = b"outside"
RACES = int(os.environ.get("WASMRT_WRITE_RACES", "300"))
KILLS = kills(15)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_bytes(SECRET)
    root = tmp_path / "root"
    (root / "out" / "deep").mkdir(parents=True)
    (root / "private").mkdir()
    (root / "out" / "a.txt").write_bytes(b"old")
    (root / "private" / "key").write_bytes(b"private")
    return root


class Writing:
    """A writer with the budget of one call."""

    def __init__(self, root, *prefixes, **bounds):
        self._writer = WorkspaceWriter(root, WorkspaceWriteCapability(prefixes, **bounds))
        self._budget = WriteBudget()

    def size(self, path):
        return self._writer.size(path)

    def __getattr__(self, name):
        act = getattr(self._writer, name)
        return lambda *values, **named: act(*values, self._budget, **named)


@pytest.fixture
def out(root):
    return Writing(root, "out/")


def reason_of(call, *args, **named):
    with pytest.raises(CapabilityDeniedError) as caught:
        call(*args, **named)
    assert "/tmp" not in str(caught.value) and caught.value.decision.capability == "workspace_write"
    assert caught.value.decision.rule and caught.value.hint
    return caught.value.decision.reason


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_are_created_and_replaced_atomically(root, out):
    out.write("out/new.txt", b"first")
    out.write("out/a.txt", b"longer than before")
    out.write("./out//deep/b.txt", b"")
    assert (root / "out" / "new.txt").read_bytes() == b"first"
    assert (root / "out" / "a.txt").read_bytes() == b"longer than before"
    assert names(root / "out") == ["a.txt", "deep", "new.txt"] and names(root / "out" / "deep") == ["b.txt"]
    assert [out.size(path) for path in ("out/new.txt", "out/deep/b.txt", "out/none")] == [5, 0, None]


def test_a_new_file_does_not_replace_an_existing_one(root, out):
    out.write("out/new.txt", b"mine", new=True)
    assert reason_of(out.write, "out/a.txt", b"mine", new=True) == Reason.ALREADY_EXISTS
    assert (root / "out" / "a.txt").read_bytes() == b"old"
    assert names(root / "out") == ["a.txt", "deep", "new.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444, 0o4755, 0o2755])
def test_a_replaced_file_keeps_its_permissions_without_setuid(root, out, mode):
    (root / "out" / "a.txt").chmod(mode)
    out.write("out/a.txt", b"new")
    assert stat.S_IMODE((root / "out" / "a.txt").stat().st_mode) == mode & 0o777


def test_a_new_file_gets_the_permissions_of_the_umask(root, out):
    before = os.umask(0o027)
    try:
        out.write("out/new.txt", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "out" / "new.txt").stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("outer/a", Reason.PREFIX_NOT_ALLOWED),
        ("private/key", Reason.PREFIX_NOT_ALLOWED),
        ("out/../private/key", Reason.INVALID_PATH),
        ("../outside/secret.txt", Reason.INVALID_PATH),
        ("/etc/passwd", Reason.INVALID_PATH),
        ("out\\a", Reason.INVALID_PATH),
        ("out/a\x00.txt", Reason.INVALID_PATH),
        ("out/AGENTS.md", Reason.PROTECTED_FILE),
        ("out/missing/a", Reason.NOT_FOUND),
        ("out/a.txt/x", Reason.NOT_A_FILE),
        ("out/deep", Reason.NOT_A_FILE),
        ("out", Reason.NOT_A_FILE),
    ],
)
def test_a_path_without_write_permission_is_refused_with_the_reason(root, out, path, reason):
    assert reason_of(out.write, path, b"x") == reason
    assert (root / "private" / "key").read_bytes() == b"private" and (root / "out" / "a.txt").read_bytes() == b"old"


def test_a_folder_outside_the_grant_is_neither_created_nor_removed(root, out):
    for act in (out.make_directory, out.remove):
        assert reason_of(act, "private/key") == Reason.PREFIX_NOT_ALLOWED
    assert reason_of(out.rename, "private/key", "out/key") == Reason.PREFIX_NOT_ALLOWED
    assert reason_of(out.rename, "out/a.txt", "private/a") == Reason.PREFIX_NOT_ALLOWED
    assert reason_of(Writing(root, "").make_directory, "context") == Reason.PROTECTED_FILE
    assert reason_of(Writing(root, "").write, "", b"") == Reason.INVALID_PATH
    assert reason_of(Writing(root, "").write, ".", b"") == Reason.INVALID_PATH
    assert names(root) == ["out", "private"]


def test_links_are_not_followed_even_inside_the_workspace(root):
    out = Writing(root, "", remove=True)
    (root / "out" / "file").symlink_to("a.txt")
    (root / "out" / "folder").symlink_to("deep")
    (root / "out" / "far").symlink_to("../../outside")
    (root / "out" / "dangling").symlink_to("nothing")
    for path in ("out/file", "out/folder/x", "out/far/secret.txt", "out/far/new", "out/dangling"):
        assert reason_of(out.write, path, b"x") == Reason.INVALID_PATH, path
        assert reason_of(out.remove, path) == Reason.INVALID_PATH, path
        assert reason_of(out.rename, path, "out/elsewhere") == Reason.INVALID_PATH, path
        assert reason_of(out.rename, "out/a.txt", path) == Reason.INVALID_PATH, path
        assert reason_of(out.size, path) == Reason.INVALID_PATH, path
    assert reason_of(out.remove, "out/folder", directory=True) == Reason.INVALID_PATH
    assert (root.parent / "outside" / "secret.txt").read_bytes() == SECRET
    assert names(root.parent / "outside") == ["secret.txt"]


def test_kernel_folders_are_not_followed(tmp_path):
    out = Writing("/proc/self", "")
    with (tmp_path / "held").open("wb") as held:
        for path in (f"fd/{held.fileno()}", "root/etc/x", "cwd/x", "fd/new"):
            assert reason_of(out.write, path, b"x") in (Reason.INVALID_PATH, Reason.NOT_FOUND), path
    assert (tmp_path / "held").read_bytes() == b""


def test_special_files_are_refused_without_waiting(root, out):
    os.mkfifo(root / "out" / "pipe")
    for act in (lambda path: out.write(path, b"x"), out.remove, out.size):
        assert reason_of(act, "out/pipe") == Reason.NOT_A_FILE


def test_replacing_one_hard_link_keeps_the_others_content(root, out):
    os.link(root.parent / "outside" / "secret.txt", root / "out" / "hard")
    out.write("out/hard", b"new")
    assert (root / "out" / "hard").read_bytes() == b"new"
    assert (root.parent / "outside" / "secret.txt").read_bytes() == SECRET


def test_limits_are_checked_before_a_byte_is_written(root):
    out = Writing(root, "out/", max_file_bytes=10, max_bytes=15, max_files=2)
    assert reason_of(out.write, "out/a.txt", b"x" * 11) == Reason.FILE_TOO_LARGE
    out.write("out/a.txt", b"x" * 10)
    assert reason_of(out.write, "out/b", b"x" * 6) == Reason.WRITE_BUDGET
    out.write("out/b", b"x" * 5)
    assert reason_of(out.write, "out/c", b"") == Reason.WRITE_BUDGET
    assert reason_of(out.make_directory, "out/d") == Reason.WRITE_BUDGET
    assert reason_of(out.rename, "out/b", "out/e") == Reason.WRITE_BUDGET
    assert names(root / "out") == ["a.txt", "b", "deep"]


def test_existing_files_are_removed_only_with_a_grant(root, out):
    assert reason_of(out.remove, "out/a.txt") == Reason.REMOVE_NOT_ALLOWED
    assert reason_of(out.remove, "out/deep", directory=True) == Reason.REMOVE_NOT_ALLOWED
    assert names(root / "out") == ["a.txt", "deep"]
    granted = Writing(root, "out/", remove=True)
    granted.remove("out/a.txt")
    granted.remove("out/deep", directory=True)
    assert names(root / "out") == []
    assert reason_of(granted.remove, "out/a.txt") == Reason.NOT_FOUND


def test_a_call_may_remove_files_that_it_created(root, out):
    out.make_directory("out/new")
    out.write("out/new/x", b"x")
    assert reason_of(out.remove, "out/new") == Reason.NOT_A_FILE
    assert reason_of(out.remove, "out/new/x", directory=True) == Reason.NOT_A_FILE
    out.remove("out/new/x")
    out.remove("out/new", directory=True)
    out.write("out/a.txt", b"rewritten")
    assert reason_of(out.remove, "out/a.txt") == Reason.REMOVE_NOT_ALLOWED
    assert names(root / "out") == ["a.txt", "deep"]


def test_a_folder_that_is_not_empty_is_not_removed(root):
    (root / "out" / "deep" / "x").write_bytes(b"")
    assert reason_of(Writing(root, "out/", remove=True).remove, "out/deep", directory=True) == Reason.NOT_EMPTY


def test_moving_over_a_file_needs_permission_to_remove_it(root, out):
    (root / "out" / "b.txt").write_bytes(b"kept")
    out.rename("out/a.txt", "out/deep/a.txt")
    assert reason_of(out.rename, "out/deep/a.txt", "out/b.txt") == Reason.REMOVE_NOT_ALLOWED
    assert (root / "out" / "b.txt").read_bytes() == b"kept"
    Writing(root, "out/", remove=True).rename("out/deep/a.txt", "out/b.txt")
    assert (root / "out" / "b.txt").read_bytes() == b"old" and names(root / "out") == ["b.txt", "deep"]
    assert reason_of(out.rename, "out/gone", "out/x") == Reason.NOT_FOUND


def test_a_calls_draft_may_replace_a_file_once(root, out):
    out.write("out/a.tmp", b"new")
    out.rename("out/a.tmp", "out/a.txt")
    assert (root / "out" / "a.txt").read_bytes() == b"new" and names(root / "out") == ["a.txt", "deep"]
    assert reason_of(out.remove, "out/a.txt") == Reason.REMOVE_NOT_ALLOWED
    out.rename("out/a.txt", "out/a.txt")
    assert (root / "out" / "a.txt").read_bytes() == b"new"


def test_only_a_folder_created_by_the_call_can_be_moved(root, out):
    (root / "out" / "deep" / "AGENTS.md").write_bytes(b"identity")
    for granted in (out, Writing(root, "out/", remove=True)):
        assert reason_of(granted.rename, "out/deep", "out/moved") == Reason.REMOVE_NOT_ALLOWED
    out.make_directory("out/new")
    out.write("out/new/x", b"x")
    assert reason_of(out.rename, "out/new", "out/deep") == Reason.ALREADY_EXISTS
    out.rename("out/new", "out/moved")
    out.remove("out/moved/x")
    assert names(root / "out") == ["a.txt", "deep", "moved"]


def test_wasmrts_own_settings_are_never_writable(root, monkeypatch):
    monkeypatch.setenv("WASMRT_HOME", str(root / "home"))
    out = Writing(root, "", remove=True)
    # Also before the folder exists: a call that could create it would control its content.
    assert reason_of(out.make_directory, "home/data") in (Reason.NOT_FOUND, Reason.PROTECTED_FILE)
    out.make_directory("home")
    for path in ("home/data", "home/DATA", "home/cache"):
        assert reason_of(out.make_directory, path) == Reason.PROTECTED_FILE
    (root / "home" / "data" / "deep").mkdir(parents=True)
    (root / "home" / "data" / "config.toml").write_bytes(b"# operator")
    for path in ("home/data/config.toml", "home/data/new", "home/data/deep/new"):
        assert reason_of(out.write, path, b"x") == Reason.PROTECTED_FILE
    assert reason_of(out.remove, "home/data/config.toml") == Reason.PROTECTED_FILE
    assert reason_of(out.remove, "home/data/deep", directory=True) == Reason.PROTECTED_FILE
    assert reason_of(out.rename, "home/data/config.toml", "config.toml") == Reason.PROTECTED_FILE
    assert (root / "home" / "data" / "config.toml").read_bytes() == b"# operator"


def test_a_workspace_inside_wasmrts_own_folder_is_not_writable(root, monkeypatch):
    monkeypatch.setenv("WASMRT_HOME", str(root))
    (root / "data" / "notes").mkdir(parents=True)
    assert reason_of(Writing(root / "data" / "notes", "").write, "a", b"x") == Reason.PROTECTED_FILE


def test_a_full_disk_leaves_only_the_old_file(root, out):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        told = reason_of(out.write, "out/a.txt", b"x" * 100_000)
        again = reason_of(out.write, "out/new", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert told == again == Reason.NO_SPACE
    assert (root / "out" / "a.txt").read_bytes() == b"old" and names(root / "out") == ["a.txt", "deep"]


def test_a_missing_root_is_reported(tmp_path):
    with pytest.raises(ConfigurationError):
        WorkspaceWriter(tmp_path / "absent", WorkspaceWriteCapability(("",)))


def test_no_descriptor_is_leaked(root, out):
    before = len(os.listdir("/proc/self/fd"))
    for path in ("out/a.txt", "out/missing/x", "out/deep", "private/key", "out/new"):
        for act in (lambda path: out.write(path, b"x"), out.make_directory, out.remove, out.size):
            with contextlib.suppress(CapabilityDeniedError):
                act(path)
        with contextlib.suppress(CapabilityDeniedError):
            out.rename(path, "out/deep/x")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("swapped", ["out", "out/deep", "out/deep/b.txt"])
def test_a_name_swapped_for_a_link_after_its_check_is_not_followed(root, out, monkeypatch, swapped):
    outside = root.parent / "outside"
    (outside / "deep").mkdir()
    for folder in (outside, outside / "deep", root / "out" / "deep"):
        (folder / "b.txt").write_bytes(SECRET)
    look, looks = os.stat, []

    def look_then_swap(name, *, dir_fd=None, follow_symlinks=True):
        seen = look(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if dir_fd is not None and name == Path(swapped).name and not looks:
            looks.append(name)
            (root / swapped).rename(root / "kept")
            target = {"out": outside, "out/deep": outside / "deep"}.get(swapped, outside / "b.txt")
            (root / swapped).symlink_to(target)
        return seen

    monkeypatch.setattr(os, "stat", look_then_swap)
    with contextlib.suppress(CapabilityDeniedError):
        out.write("out/deep/b.txt", b"written")
    assert looks
    assert (outside / "b.txt").read_bytes() == (outside / "deep" / "b.txt").read_bytes() == SECRET


def test_a_concurrently_changed_folder_cannot_redirect_a_write(root, out):
    outside = root.parent / "outside"
    place, real = root / "out" / "deep", root / "private" / "kept"
    place.rename(real)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            real.rename(place)
            place.rename(real)
            place.symlink_to(outside)
            place.unlink()

    racer = threading.Thread(target=swap)
    racer.start()
    written = refusal_of = 0
    try:
        for number in range(RACES):
            writing = Writing(root, "out/", remove=True)
            try:
                writing.write("out/deep/secret.txt", b"%d" % number)
                written += 1
            except CapabilityDeniedError:
                refusal_of += 1
            for act in (writing.remove, writing.make_directory):
                with contextlib.suppress(CapabilityDeniedError):
                    act("out/deep/secret.txt")
            with contextlib.suppress(CapabilityDeniedError):
                writing.rename("out/a.txt", "out/deep/a.txt")
            with contextlib.suppress(CapabilityDeniedError):
                writing.rename("out/deep/a.txt", "out/a.txt")
    finally:
        stop.set()
        racer.join()
    assert written + refusal_of == RACES
    assert names(outside) == ["secret.txt"] and (outside / "secret.txt").read_bytes() == SECRET


_WRITE_FOREVER = """
import itertools, sys
from wasmrt.capabilities import WorkspaceWriteCapability
from wasmrt.runtime.workspace import WorkspaceWriter, WriteBudget
writer = WorkspaceWriter(sys.argv[1], WorkspaceWriteCapability(("out/",)))
print("ready", flush=True)
for number in itertools.count():
    writer.write("out/a.txt", bytes([number % 256]) * 300_000, WriteBudget())
"""


@pytest.mark.ci("kills")
def test_a_process_killed_during_a_write_leaves_a_whole_file(root):
    target = root / "out" / "a.txt"
    target.write_bytes(bytes(300_000))
    for number in range(KILLS):
        writing = subprocess.Popen(
            [sys.executable, "-c", _WRITE_FOREVER, str(root)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONOPTIMIZE": ""},
        )
        try:
            assert writing.stdout.readline() == b"ready\n"
            seen = target.stat().st_ino
            while target.stat().st_ino == seen:  # until it has written once
                assert writing.poll() is None
            for _ in range(number % 50 * 20):  # at some point of the next write
                target.stat()
        finally:
            writing.send_signal(signal.SIGKILL)
            writing.wait()
            writing.stdout.close()
        content = target.read_bytes()
        assert len(content) == 300_000 and len(set(content)) == 1


def test_a_refusal_without_a_grant_names_the_missing_entry(out):
    with pytest.raises(CapabilityDeniedError) as caught:
        out.write("other/x", b"")
    assert isinstance(caught.value.decision.suggestion, Addition)
