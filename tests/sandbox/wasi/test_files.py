"""Reading files: the granted part of the workspace at `/`, without a grant to write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.wasi.conftest import Guest
from wasmrt.capabilities import Capabilities
from wasmrt.core.errors import BudgetExceededError
from wasmrt.core.limits import MAX_STREAM_CHUNK_BYTES, MAX_WORKSPACE_BYTES_PER_CALL, MIB
from wasmrt.core.model import Reason
from wasmrt.runtime.workspace import WorkspaceReader
from wasmrt.sandbox.component import Case, Err, Ok

_TYPES = "filesystem/types#[method]descriptor."
_NONE: frozenset[str] = frozenset()
_READ = frozenset(("read",))


class Files:
    """A guest with a workspace, and short methods for its calls."""

    def __init__(self, root: Path, *prefixes: str) -> None:
        grant = Capabilities.none().with_workspace_read(prefixes)
        self.guest = Guest(workspace=WorkspaceReader(root, prefixes), grant=grant)
        ((self.top, self.name),) = self.guest("filesystem/preopens#get-directories")

    def open(self, path: str, how: frozenset[str] = _NONE, flags: frozenset[str] = _READ) -> Any:
        return self.guest(_TYPES + "open-at", self.top, frozenset(("symlink-follow",)), path, how, flags)

    def handle(self, path: str) -> int:
        answer = self.open(path)
        assert isinstance(answer, Ok), answer
        return int(answer.value)

    def __call__(self, method: str, *values: Any) -> Any:
        return self.guest(_TYPES + method, *values)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "notes" / "old").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "notes" / "a.md").write_bytes(b"hello workspace")
    (tmp_path / "private" / "key").write_bytes(b"do not read")
    (tmp_path / "notes" / "out").symlink_to("/etc")
    return tmp_path


@pytest.fixture
def files(root: Path) -> Files:
    return Files(root, "notes/")


def test_the_workspace_is_the_root_folder(files: Files) -> None:
    assert files.name == "/"
    assert files("get-type", files.top) == Ok("directory")
    assert files("get-flags", files.top) == Ok(_READ)


@pytest.mark.parametrize("path", ["notes/a.md", "./notes/a.md", "notes//a.md", "notes/./a.md"])
def test_a_granted_file_is_read_in_parts(files: Files, path: str) -> None:
    handle = files.handle(path)
    assert files("read", handle, 5, 0) == Ok((b"hello", False))
    assert files("read", handle, 100, 6) == Ok((b"workspace", True))
    assert files("read", handle, 100, 2**63) == Ok((b"", True))


def test_a_granted_file_is_read_as_a_stream(files: Files) -> None:
    stream = files("read-via-stream", files.handle("notes/a.md"), 6).value
    assert files.guest("io/streams#[method]input-stream.blocking-read", stream, 4) == Ok(b"work")
    assert files.guest("io/streams#[method]input-stream.skip", stream, 100) == Ok(5)
    assert files.guest("io/streams#[method]input-stream.read", stream, 4) == Err(Case("closed"))


def test_stat_returns_the_size_and_no_timestamps(files: Files) -> None:
    status = files("stat-at", files.top, _NONE, "notes/a.md").value
    assert (status["type"], status["size"]) == ("regular-file", 15)
    assert status["data-modification-timestamp"] is None
    assert files("stat", files.handle("notes")).value["type"] == "directory"


def test_reading_a_directory_lists_its_entries(files: Files) -> None:
    stream = files("read-directory", files.handle("notes")).value
    following = "filesystem/types#[method]directory-entry-stream.read-directory-entry"
    assert [files.guest(following, stream).value for _ in range(3)] == [
        {"type": "regular-file", "name": "a.md"},
        {"type": "directory", "name": "old"},
        None,
    ]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("private/key", "access"),
        ("notes/../private/key", "not-permitted"),
        ("../etc/passwd", "not-permitted"),
        ("/etc/passwd", "not-permitted"),
        ("notes/out/passwd", "not-permitted"),
        ("notes/nothing", "no-entry"),
        ("notes/a\x00b", "not-permitted"),
        ("private", "access"),
    ],
)
def test_denied_paths_return_wasi_error_codes(files: Files, path: str, code: str) -> None:
    assert files.open(path) == Err(code)
    assert files("stat-at", files.top, _NONE, path) == Err(code)


def test_denied_path_is_recorded_with_a_fix(files: Files) -> None:
    files.open("private/key")
    files.open("private/key")
    (decision,) = files.guest.call.decisions
    assert decision.reason == Reason.PREFIX_NOT_ALLOWED
    assert "private" in (decision.hint or "")


@pytest.mark.parametrize("how", ["create", "truncate", "exclusive"])
def test_opening_for_writing_without_a_grant_is_refused(files: Files, root: Path, how: str) -> None:
    assert files.open("notes/a.md", frozenset((how,))) == Err("read-only")
    assert files.open("notes/a.md", flags=frozenset(("write",))) == Err("read-only")
    assert (root / "notes" / "a.md").read_bytes() == b"hello workspace"


@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("write", (b"x", 0)),
        ("write-via-stream", (0,)),
        ("append-via-stream", ()),
        ("set-size", (0,)),
        ("set-times", (Case("now"), Case("now"))),
        ("create-directory-at", ("notes/new",)),
        ("remove-directory-at", ("notes/old",)),
        ("unlink-file-at", ("notes/a.md",)),
        ("symlink-at", ("a", "b")),
        ("rename-at", ("notes/a.md", 1, "notes/b.md")),
        ("link-at", (_NONE, "notes/a.md", 1, "notes/b.md")),
        ("set-times-at", (_NONE, "notes/a.md", Case("now"), Case("now"))),
    ],
)
def test_changes_without_a_write_grant_are_refused(
    files: Files, root: Path, method: str, values: tuple[Any, ...]
) -> None:
    before = sorted(os.listdir(root / "notes"))
    assert files(method, files.top, *values) == Err("read-only")
    assert sorted(os.listdir(root / "notes")) == before
    decision = files.guest.call.decisions[-1]
    by_path = method in ("create-directory-at", "remove-directory-at", "unlink-file-at", "rename-at")
    assert decision.reason == (Reason.NOT_GRANTED if by_path else Reason.FILESYSTEM_DENIED)
    assert not by_path or decision.hint == 'add "workspace_write": {"allowed_prefixes": ["notes/"]}'


def test_file_methods_fail_on_folders_and_folder_methods_on_files(files: Files) -> None:
    folder, file = files.handle("notes"), files.handle("notes/a.md")
    assert files("read", folder, 1, 0) == Err("is-directory")
    assert files("read-via-stream", folder, 0) == Err("is-directory")
    assert files("read-directory", file) == Err("not-directory")
    assert files("stat-at", file, _NONE, "x") == Err("not-directory")
    assert files.open("notes/a.md", frozenset(("directory",))) == Err("not-directory")


def test_two_descriptors_of_a_file_are_the_same_object(files: Files) -> None:
    one, two, other = files.handle("notes/a.md"), files.handle("notes/./a.md"), files.handle("notes")
    assert files("is-same-object", one, two)
    assert not files("is-same-object", one, other)
    assert files("metadata-hash", one) == files("metadata-hash-at", files.top, _NONE, "notes/a.md")
    assert files("metadata-hash", one) != files("metadata-hash", other)


def test_links_are_not_read_and_syncing_does_nothing(files: Files) -> None:
    assert files("readlink-at", files.top, "notes/out") == Err("invalid")
    assert files("sync", files.top) == Ok()
    assert files("advise", files.handle("notes/a.md"), 0, 1, "random") == Ok()


def test_single_reads_and_total_bytes_read_are_limited(root: Path) -> None:
    (root / "notes" / "big").write_bytes(bytes(4 * MIB))
    files = Files(root, "notes/")
    data, at_end = files("read", files.handle("notes/big"), 2**64 - 1, 0).value
    assert (len(data), at_end) == (MAX_STREAM_CHUNK_BYTES, False)
    with pytest.raises(BudgetExceededError):
        for _ in range(MAX_WORKSPACE_BYTES_PER_CALL // (4 * MIB)):
            files.handle("notes/big")


def test_the_root_is_listed_only_if_the_whole_workspace_is_granted(root: Path) -> None:
    assert Files(root, "notes/")("read-directory", 1) == Err("access")
    assert isinstance(Files(root, "")("read-directory", 1), Ok)


def test_hard_links_are_refused_and_recorded(root: Path, files: Files) -> None:
    os.link(root / "private" / "key", root / "notes" / "again")
    assert files.open("notes/again") == Err("access")
    (decision,) = files.guest.call.decisions
    assert (decision.allowed, decision.reason) == (False, Reason.NOT_A_FILE)


def test_opening_folders_and_missing_paths_is_not_recorded(files: Files) -> None:
    assert isinstance(files.open("notes/old"), Ok)
    assert isinstance(files.open("notes/none"), Err)
    assert files.guest.call.decisions == []
