"""Writing files: shared descriptors, renames, removed files, and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.wasi.conftest import Guest
from wasmrt.capabilities import Capabilities, WorkspaceWriteCapability
from wasmrt.core.errors import BudgetExceededError, ToolError
from wasmrt.core.limits import MAX_WRITE_BYTES, MIB
from wasmrt.core.model import Reason
from wasmrt.runtime.workspace import WorkspaceReader, WorkspaceWriter
from wasmrt.sandbox.component import Case, Err, Ok

_TYPES = "filesystem/types#[method]descriptor."
_NONE: frozenset[str] = frozenset()
_READ, _WRITE, _BOTH = frozenset(("read",)), frozenset(("write",)), frozenset(("read", "write"))
_CREATE = frozenset(("create",))


class Files:
    """A guest that may read the whole workspace and write to `out/`, with short methods for its calls."""

    def __init__(self, root: Path, **bounds: Any) -> None:
        writing = WorkspaceWriteCapability(("out/",), **bounds)
        grant = Capabilities.none().with_workspace_read([""]).with_workspace_write(writing)
        self.guest = Guest(workspace=WorkspaceReader(root, [""]), writer=WorkspaceWriter(root, writing), grant=grant)
        ((self.top, _),) = self.guest("filesystem/preopens#get-directories")

    def open(self, path: str, how: frozenset[str] = _NONE, flags: frozenset[str] = _BOTH) -> Any:
        return self.guest(_TYPES + "open-at", self.top, _NONE, path, how, flags)

    def handle(self, path: str, how: frozenset[str] = _NONE, flags: frozenset[str] = _BOTH) -> int:
        answer = self.open(path, how, flags)
        assert isinstance(answer, Ok), answer
        return int(answer.value)

    def close(self, handle: int) -> None:
        self.guest.drop("filesystem/types#descriptor", handle)

    def __call__(self, method: str, *values: Any) -> Any:
        return self.guest(_TYPES + method, *values)

    @property
    def refusals(self) -> list[Reason]:
        return [one.reason for one in self.guest.call.decisions]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "a.txt").write_bytes(b"alpha")
    (tmp_path / "kept.txt").write_bytes(b"kept")
    return tmp_path


@pytest.fixture
def files(root: Path) -> Files:
    return Files(root)


def test_a_file_changes_only_when_it_is_closed(files: Files, root: Path) -> None:
    handle = files.handle("out/a.txt", frozenset(("truncate",)))
    assert files("write", handle, b"new", 0) == Ok(3)
    assert (root / "out/a.txt").read_bytes() == b"alpha"
    files.close(handle)
    assert (root / "out/a.txt").read_bytes() == b"new"


@pytest.mark.parametrize("sync", ["sync", "sync-data"])
def test_sync_stores_an_open_file(files: Files, root: Path, sync: str) -> None:
    handle = files.handle("out/a.txt")
    assert files("write", handle, b"ALPHABET", 0) == Ok(8)
    assert files(sync, handle) == Ok()
    assert (root / "out/a.txt").read_bytes() == b"ALPHABET"


def test_descriptors_of_one_file_share_what_is_written(files: Files, root: Path) -> None:
    one, two = files.handle("out/a.txt"), files.handle("out/./a.txt")
    files("write", one, b"ph", 0)
    files("write", two, b"!", 7)
    assert files("read", one, 100, 0) == Ok((b"phpha\0\0!", True))
    assert files("read", files.handle("out/a.txt", flags=_READ), 2, 0) == Ok((b"ph", False))
    assert files("stat-at", files.top, _NONE, "out/a.txt").value["size"] == 8
    files.close(one)
    files.close(two)
    assert (root / "out/a.txt").read_bytes() == b"phpha\0\0!"


def test_streams_write_at_their_offset_or_append(files: Files, root: Path) -> None:
    handle = files.handle("out/a.txt")
    place = files("write-via-stream", handle, 3).value
    end = files("append-via-stream", handle).value
    for stream, data in ((place, b"12"), (end, b"+"), (place, b"3"), (end, b"-")):
        assert files.guest("io/streams#[method]output-stream.blocking-write-and-flush", stream, data) == Ok()
    files.close(handle)
    assert (root / "out/a.txt").read_bytes() == b"alp123-"


def test_flags_show_the_permissions_of_a_descriptor(files: Files) -> None:
    assert files("get-flags", files.top) == Ok(frozenset(("read", "mutate-directory")))
    assert files("get-flags", files.handle("out/a.txt")) == Ok(_BOTH)
    reading = files.handle("out/a.txt", flags=_READ)
    assert files("get-flags", reading) == Ok(_READ)
    assert files("write", reading, b"x", 0) == Err("bad-descriptor")
    assert files("set-size", files.top, 0) == Err("is-directory")


@pytest.mark.parametrize(
    ("path", "how", "code"),
    [
        ("out/none", _NONE, "no-entry"),
        ("out/none/x", _CREATE, "no-entry"),
        ("out/a.txt", frozenset(("create", "exclusive")), "exist"),
        ("out/deep", _CREATE, "is-directory"),
        ("kept.txt", _NONE, "access"),
        ("out/USER.md", _CREATE, "not-permitted"),
        ("../x", _CREATE, "not-permitted"),
        ("/out/x", _CREATE, "not-permitted"),
        ("out/x", frozenset(("create", "directory")), "invalid"),
    ],
)
def test_opening_a_file_that_cannot_be_written_fails(files: Files, path: str, how: frozenset[str], code: str) -> None:
    assert files.open(path, how) == Err(code)


def test_open_file_is_stored_under_its_new_name_after_a_rename(files: Files, root: Path) -> None:
    assert files("create-directory-at", files.top, "out/new") == Ok()
    handle = files.handle("out/new/x", _CREATE)
    files("write", handle, b"one", 0)
    assert files("rename-at", files.top, "out/new", files.top, "out/old") == Ok()
    files("write", handle, b"two", 3)
    assert files("rename-at", files.top, "out/old/x", files.top, "out/y") == Ok()
    files("write", handle, b"!", 6)
    files.close(handle)
    assert (root / "out/y").read_bytes() == b"onetwo!"
    assert not (root / "out/new").exists() and not list((root / "out/old").iterdir())


def test_removed_file_is_not_stored_when_it_is_closed(files: Files, root: Path) -> None:
    handle = files.handle("out/x", _CREATE)
    files("write", handle, b"x", 0)
    assert files("unlink-file-at", files.top, "out/x") == Ok()
    assert files("write", handle, b"y", 0) == Err("no-entry")
    files.close(handle)
    files.guest.ctx.finish()
    assert not (root / "out/x").exists()


def test_open_files_are_stored_when_the_guest_succeeds(files: Files, root: Path) -> None:
    files("write", files.handle("out/x", _CREATE), b"open", 0)
    assert (root / "out/x").read_bytes() == b""
    files.guest.ctx.finish()
    assert (root / "out/x").read_bytes() == b"open"


def test_growing_a_file_over_the_granted_size_is_refused_and_recorded(root: Path) -> None:
    files = Files(root, max_file_bytes=8)
    handle = files.handle("out/a.txt")
    assert files("write", handle, b"xyz", 6) == Err("file-too-large")
    assert files("set-size", handle, 2**63) == Err("file-too-large")
    stream = files("append-via-stream", handle).value
    failed = files.guest("io/streams#[method]output-stream.write", stream, b"12345")
    assert isinstance(failed, Err) and isinstance(failed.value, Case)
    assert files.guest("filesystem/types#filesystem-error-code", failed.value.value) == "file-too-large"
    assert files.refusals == [Reason.FILE_TOO_LARGE]
    files.close(handle)
    assert (root / "out/a.txt").read_bytes() == b"alpha"


def test_closing_a_file_that_cannot_be_stored_ends_the_call(root: Path) -> None:
    files = Files(root, max_bytes=4)
    handle = files.handle("out/a.txt")
    files("write", handle, b"longer", 0)
    assert files("sync", handle) == Err("quota")
    files("write", handle, b"longer", 0)
    with pytest.raises(ToolError, match="cannot store"):
        files.close(handle)
    assert files.refusals == [Reason.WRITE_BUDGET]
    assert (root / "out/a.txt").read_bytes() == b"alpha"


def test_total_size_of_open_files_is_limited(root: Path) -> None:
    files = Files(root, max_file_bytes=MAX_WRITE_BYTES, max_bytes=MAX_WRITE_BYTES)
    half = MAX_WRITE_BYTES // 2
    assert files("set-size", files.handle("out/x", _CREATE), half) == Ok()
    with pytest.raises(BudgetExceededError):
        files("set-size", files.handle("out/y", _CREATE), half + MIB)


def test_links_and_timestamps_are_always_refused(files: Files) -> None:
    now = Case("now")
    assert files("symlink-at", files.top, "a.txt", "out/link") == Err("read-only")
    assert files("link-at", files.top, _NONE, "out/a.txt", files.top, "out/b.txt") == Err("read-only")
    assert files("set-times-at", files.top, _NONE, "out/a.txt", now, now) == Err("read-only")
    assert files("set-times", files.handle("out/a.txt"), now, now) == Err("read-only")
    assert set(files.refusals) == {Reason.FILESYSTEM_DENIED}


def test_unlink_removes_files_and_remove_directory_removes_folders(root: Path) -> None:
    files = Files(root, remove=True)
    assert files("remove-directory-at", files.top, "out/a.txt") == Err("not-directory")
    assert files("unlink-file-at", files.top, "out/deep") == Err("is-directory")
    assert files("remove-directory-at", files.top, "out/deep") == Ok()
    assert files("unlink-file-at", files.top, "out/a.txt") == Ok()
    assert files("unlink-file-at", files.top, "out/a.txt") == Err("no-entry")
    assert files("unlink-file-at", files.top, ".") == Err("not-permitted")
    assert list((root / "out").iterdir()) == []
