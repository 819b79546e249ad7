"""Private files are written atomically, and checked when they are opened."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import wasmrt.core.files
from wasmrt.core.files import Unfit, UnfitFileError, create_file, open_file, read_file, replace_file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_written_file_is_private_and_complete(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    replace_file(path, b"one, ", b"two")
    assert path.read_bytes() == b"one, two"
    assert mode_of(path) == 0o600
    replace_file(path, b"three", durable=False)
    assert path.read_bytes() == b"three"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def test_a_files_mode_is_kept_on_request(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(0o664)
    replace_file(path, b"new", mode=None)
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o664)
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "absent", b"new", mode=None)


def test_a_public_mode_is_reduced_by_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "made", b"x", mode=0o666)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "made") == 0o640


def test_a_symlink_is_replaced_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"untouched")
    link = tmp_path / "link"
    link.symlink_to(elsewhere)
    replace_file(link, b"new")
    assert not link.is_symlink()
    assert elsewhere.read_bytes() == b"untouched"


def test_the_first_of_several_creators_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert create_file(path, b"first") is True
    assert create_file(path, b"second") is False
    assert (path.read_bytes(), mode_of(path)) == (b"first", 0o600)
    link = tmp_path / "dangling"
    link.symlink_to(tmp_path / "nowhere")
    assert create_file(link, b"x") is False, "a dangling link holds the name"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["dangling", "key"]


def test_a_durable_write_syncs_the_file_and_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
    )
    replace_file(tmp_path / "one", b"x")
    create_file(tmp_path / "two", b"x")
    assert synced == ["file", "folder"] * 2
    replace_file(tmp_path / "three", b"x", durable=False)
    create_file(tmp_path / "four", b"x", durable=False)
    assert synced == ["file", "folder"] * 2


def test_the_temporary_file_is_in_the_given_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    seen: list[list[str]] = []

    def look(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            seen.append([entry.name[:5] for entry in drafts.iterdir()])

    monkeypatch.setattr(os, "fsync", look)
    replace_file(tmp_path / "kept", b"x", drafts=drafts)
    assert seen == [[".new-"]]
    assert list(drafts.iterdir()) == []


def test_an_existing_file_with_the_temporary_name_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"untouched")
    monkeypatch.setattr(os, "urandom", bytes)  # a predictable name
    (tmp_path / f".new-{bytes(8).hex()}").symlink_to(target)
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "kept", b"new")
    assert target.read_bytes() == b"untouched"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def killed_at_each_line(change: Callable[[], object], reset: Callable[[], object]) -> int:
    """Fork a child for every line that `change` executes in the module, and kill it there; return their number."""
    for step in range(1, 10_000):
        reset()
        child = os.fork()
        if child == 0:
            count = 0

            def trace(frame: FrameType, event: str, _: Any, step: int = step) -> Any:
                nonlocal count
                if frame.f_code.co_filename != wasmrt.core.files.__file__:
                    return None
                if event == "line":
                    count += 1
                    if count == step:
                        os.kill(os.getpid(), signal.SIGKILL)
                return trace

            sys.settrace(trace)
            change()
            os._exit(0)
        if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
            return step
    raise AssertionError("it never ends")


@pytest.mark.ci("kills")
def test_a_kill_at_any_line_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    seen: set[bytes] = set()

    def reset() -> None:
        if path.exists():
            seen.add(path.read_bytes())
        path.write_bytes(b"old")

    steps = killed_at_each_line(lambda: replace_file(path, b"new" * 50_000), reset)
    assert steps > 10
    assert seen == {b"old", b"new" * 50_000}


@pytest.mark.ci("kills")
def test_a_kill_at_any_line_leaves_no_file_or_a_complete_one(tmp_path: Path) -> None:
    path = tmp_path / "key"
    seen: set[bytes | None] = set()

    def reset() -> None:
        seen.add(path.read_bytes() if path.exists() else None)
        path.unlink(missing_ok=True)

    assert killed_at_each_line(lambda: create_file(path, b"k" * 32), reset) > 5
    assert seen == {None, b"k" * 32}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.symlink_to("/dev/zero"), Unfit.LINK),
        (lambda path: os.mkfifo(path, 0o600), Unfit.NOT_REGULAR),
        (lambda path: path.mkdir(mode=0o700), Unfit.NOT_REGULAR),
        (lambda path: (path.write_bytes(b"x"), path.chmod(0o640)), Unfit.EXPOSED),
        (lambda path: (path.write_bytes(b"x"), path.chmod(0o602)), Unfit.EXPOSED),
        (lambda path: (path.write_bytes(b"x" * 11), path.chmod(0o600)), Unfit.TOO_LARGE),
    ],
    ids=["a link", "a pipe", "a folder", "readable by the group", "writable by others", "too large"],
)
def test_a_file_that_is_not_private_or_too_large_is_refused(
    tmp_path: Path, make: Callable[[Path], object], reason: Unfit
) -> None:
    path = tmp_path / "key"
    make(path)
    with pytest.raises(UnfitFileError) as caught:
        read_file(path, max_bytes=10, follow_link=False, private=True)
    assert caught.value.reason is reason
    assert caught.value.strerror == f"key {reason}"
    assert str(tmp_path) not in str(caught.value)


def test_a_file_of_another_user_is_not_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    create_file(path, b"x")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(UnfitFileError, match="another user"):
        read_file(path, max_bytes=10, follow_link=False, private=True)
    assert read_file(path, max_bytes=10, follow_link=False) == b"x"


def test_a_symlink_is_only_followed_to_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"0123456789")
    link = tmp_path / "link"
    link.symlink_to("real")
    assert read_file(link, max_bytes=10, follow_link=True) == b"0123456789"
    link.unlink()
    link.symlink_to("/dev/zero")
    with pytest.raises(UnfitFileError, match="not a regular file"):
        read_file(link, max_bytes=10, follow_link=True)


def test_a_missing_file_raises_an_ordinary_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "absent", max_bytes=1, follow_link=False)


def test_a_name_relative_to_an_open_directory_is_opened_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").write_bytes(b"here")
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    monkeypatch.chdir("/")
    try:
        with open_file("real", folder=folder, follow_link=False) as (file, status):
            assert (file.read(), status.st_size) == (b"here", 4)
    finally:
        os.close(folder)
    assert file.closed
