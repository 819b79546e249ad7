"""Read workspace files for a guest: permitted files, refusals, and races that must not succeed."""

import contextlib
import os
import shutil
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core.errors import CapabilityDeniedError, ConfigurationError
from wasmrt.core.limits import MAX_WORKSPACE_ENTRIES, MAX_WORKSPACE_FILE_BYTES
from wasmrt.core.model import Reason
from wasmrt.runtime.workspace import WorkspaceReader

SECRET = b"outside"


@pytest.fixture
def root(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_bytes(SECRET)
    root = tmp_path / "root"
    (root / "context" / "deep").mkdir(parents=True)
    (root / "private").mkdir()
    (root / "context" / "a.md").write_bytes(b"alpha")
    (root / "context" / "deep" / "b.md").write_bytes(b"beta")
    (root / "context" / "%2e%2e").mkdir()
    (root / "context" / "%2e%2e" / "c.md").write_bytes(b"literal")
    (root / "private" / "key").write_bytes(b"private")
    (root / "contextual").mkdir()
    (root / "contextual" / "x").write_bytes(b"x")
    return root


@pytest.fixture
def reader(root):
    return WorkspaceReader(root, ["context/"])


@pytest.fixture
def whole(root):
    return WorkspaceReader(root, [""])


def _reason(call, *args):
    with pytest.raises(CapabilityDeniedError) as caught:
        call(*args)
    assert "/tmp" not in str(caught.value) and caught.value.decision.capability == "workspace"
    assert caught.value.decision.rule and caught.value.hint
    return caught.value.decision.reason


def test_a_denial_names_the_path(reader):
    with pytest.raises(CapabilityDeniedError, match=r"^the workspace denied reading 'private/key': no entry of"):
        reader.read("private/key")


def test_a_granted_file_is_read_unchanged(reader):
    assert reader.read("context/a.md") == b"alpha"
    assert reader.read("context/deep/b.md") == b"beta"
    assert reader.read("context/%2e%2e/c.md") == b"literal"
    for same in ("./context/a.md", "context//a.md", "context/./a.md"):
        assert reader.read(same) == b"alpha"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("contextual/x", Reason.PREFIX_NOT_ALLOWED),
        ("private/key", Reason.PREFIX_NOT_ALLOWED),
        ("context/../private/key", Reason.INVALID_PATH),
        ("../root/context/a.md", Reason.INVALID_PATH),
        ("../outside/secret.txt", Reason.INVALID_PATH),
        ("/etc/passwd", Reason.INVALID_PATH),
        ("context/a.md/", Reason.INVALID_PATH),
        ("context/a.md/.", Reason.INVALID_PATH),
        ("./contextual/x", Reason.PREFIX_NOT_ALLOWED),
        ("context\\a.md", Reason.INVALID_PATH),
        ("context/a.md\x00.txt", Reason.INVALID_PATH),
        ("C:/context/a.md", Reason.INVALID_PATH),
        ("context/missing", Reason.NOT_FOUND),
        ("context/a.md/x", Reason.NOT_FOUND),
        ("context/%2e%2e/%2e%2e/private/key", Reason.NOT_FOUND),
        ("context/．．/private/key", Reason.NOT_FOUND),
        ("context/deep", Reason.NOT_A_FILE),
        ("context", Reason.NOT_A_FILE),
    ],
)
def test_a_path_that_is_not_a_granted_file_is_refused_with_its_reason(reader, path, reason):
    assert _reason(reader.read, path) == reason


def test_a_link_out_of_the_root_is_refused_however_it_is_spelled(root, whole, tmp_path):
    os.symlink("../../outside/secret.txt", root / "context" / "relative")
    os.symlink(tmp_path / "outside" / "secret.txt", root / "context" / "absolute")
    os.symlink("../../outside", root / "context" / "folder")
    os.symlink("../../root/context/a.md", root / "context" / "out-and-in")
    os.symlink(root / "context" / "a.md", root / "context" / "absolute-inside")
    os.symlink("relative", root / "context" / "chain")
    for name in ("relative", "absolute", "folder/secret.txt", "out-and-in", "absolute-inside", "chain"):
        assert _reason(whole.read, f"context/{name}") == Reason.INVALID_PATH, name
    assert _reason(whole.list, "context/folder") == Reason.INVALID_PATH


def test_a_link_inside_the_root_is_followed_only_to_granted_places(root, reader, whole):
    os.symlink("deep/../a.md", root / "context" / "near")
    os.symlink("../private/key", root / "context" / "far")
    os.symlink("../private", root / "context" / "folder")
    os.symlink("loop", root / "context" / "loop")
    assert reader.read("context/near") == b"alpha"
    assert _reason(reader.read, "context/far") == Reason.PREFIX_NOT_ALLOWED
    assert _reason(reader.read, "context/folder/key") == Reason.PREFIX_NOT_ALLOWED
    assert _reason(reader.list, "context/folder") == Reason.PREFIX_NOT_ALLOWED
    assert whole.read("context/far") == b"private"
    assert _reason(reader.read, "context/loop") == Reason.NOT_FOUND


def test_magic_links_are_not_followed(root, tmp_path):
    reader = WorkspaceReader("/proc/self", [""])
    handle = os.open(tmp_path / "outside" / "secret.txt", os.O_RDONLY)
    try:
        for path in (f"fd/{handle}", "root/etc/passwd", "cwd/pyproject.toml", "exe"):
            assert _reason(reader.read, path) in (Reason.NOT_FOUND, Reason.INVALID_PATH), path
    finally:
        os.close(handle)


def test_special_files_are_refused_without_waiting(root, reader):
    os.mkfifo(root / "context" / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root / "context")
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    for name in ("pipe", "socket"):
        assert _reason(reader.read, f"context/{name}") == Reason.NOT_A_FILE
    assert _reason(WorkspaceReader("/dev", [""]).read, "zero") == Reason.NOT_A_FILE


def test_a_file_with_several_names_is_refused(root, reader, tmp_path):
    os.link(tmp_path / "outside" / "secret.txt", root / "context" / "hard")
    assert _reason(reader.read, "context/hard") == Reason.NOT_A_FILE


def test_a_file_over_the_cap_is_refused_and_one_at_the_cap_is_read(root, reader):
    (root / "context" / "fits").write_bytes(b"x" * MAX_WORKSPACE_FILE_BYTES)
    (root / "context" / "sparse").touch()
    os.truncate(root / "context" / "sparse", 1 << 40)
    assert len(reader.read("context/fits")) == MAX_WORKSPACE_FILE_BYTES
    assert _reason(reader.read, "context/sparse") == Reason.FILE_TOO_LARGE


def test_a_part_of_a_file_of_any_size_is_read_under_the_same_rules(root, reader, tmp_path):
    large = root / "context" / "large"
    large.write_bytes(b"abc")
    os.truncate(large, 1 << 40)
    assert reader.read_part("context/large", 1, 3) == b"bc\0"
    assert reader.read_part("context/large", (1 << 40) - 2, 9) == b"\0\0"
    assert reader.read_part("context/large", 2**63, 1) == b""
    assert len(reader.read_part("context/large", 0, 1 << 40)) == MAX_WORKSPACE_FILE_BYTES
    os.link(tmp_path / "outside" / "secret.txt", root / "context" / "hard")
    os.symlink(tmp_path / "outside" / "secret.txt", root / "context" / "link")
    (root / "other").write_bytes(b"x")
    for path, reason in {
        "context/hard": Reason.NOT_A_FILE,
        "context/link": Reason.INVALID_PATH,
        "context": Reason.NOT_A_FILE,
        "other": Reason.PREFIX_NOT_ALLOWED,
        "context/none": Reason.NOT_FOUND,
    }.items():
        assert _reason(lambda name: reader.read_part(name, 0, 1), path) == reason, path


def test_a_listing_shows_files_and_folders_and_hides_what_cannot_be_read(root, reader):
    os.symlink("a.md", root / "context" / "link")
    os.mkfifo(root / "context" / "pipe")
    (root / "context" / "odd\nname").write_bytes(b"")
    Path(os.fsdecode(os.fsencode(root / "context") + b"/\xff")).write_bytes(b"")
    entries = reader.list("context/")
    assert [(e.name, e.is_directory, e.size_bytes) for e in entries] == [
        ("%2e%2e", True, 0),
        ("a.md", False, 5),
        ("deep", True, 0),
    ]
    assert reader.list("context") == entries


def test_only_granted_folders_are_listed(reader, whole):
    assert _reason(reader.list, ".") == Reason.PREFIX_NOT_ALLOWED
    assert _reason(reader.list, "") == Reason.PREFIX_NOT_ALLOWED
    assert _reason(reader.list, "private") == Reason.PREFIX_NOT_ALLOWED
    assert _reason(reader.list, "..") == Reason.INVALID_PATH
    assert _reason(reader.list, "context/a.md") == Reason.NOT_A_FILE
    assert _reason(reader.list, "context/missing") == Reason.NOT_FOUND
    assert [entry.name for entry in whole.list("")] == ["context", "contextual", "private"]


@pytest.mark.ci("slow")
def test_a_folder_with_too_many_names_is_refused(root, reader):
    crowded = root / "context" / "crowded"
    crowded.mkdir()
    for number in range(MAX_WORKSPACE_ENTRIES + 1):
        (crowded / str(number)).touch()
    assert _reason(reader.list, "context/crowded") == Reason.TOO_MANY_ENTRIES
    (crowded / "0").unlink()
    assert len(reader.list("context/crowded")) == MAX_WORKSPACE_ENTRIES


def test_an_unreadable_or_missing_root_is_reported(tmp_path):
    with pytest.raises(ConfigurationError):
        WorkspaceReader(tmp_path / "absent", [""])
    with pytest.raises(ConfigurationError):
        WorkspaceReader(tmp_path, ["../x"])
    gone = tmp_path / "gone"
    gone.mkdir()
    reader = WorkspaceReader(gone, [""])
    gone.rmdir()
    assert _reason(reader.read, "a") == Reason.NOT_FOUND


@pytest.mark.parametrize(
    ("swapped", "look_number"),
    [("context", 1), ("context/deep", 1), ("context/deep/b.md", 1), ("context/deep/b.md", 2)],
)
def test_a_name_swapped_for_a_link_after_its_check_is_not_followed(root, reader, monkeypatch, swapped, look_number):
    outside = root.parent / "outside"
    for folder in (outside, outside / "deep"):
        folder.mkdir(exist_ok=True)
        (folder / "b.md").write_bytes(SECRET)
    look, looks = os.stat, []

    def look_then_swap(name, *, dir_fd=None, follow_symlinks=True):
        seen = look(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if dir_fd is None:
            return seen
        looks.append(name)
        if name == Path(swapped).name and looks.count(name) == look_number:
            (root / swapped).rename(root / "kept")
            target = {"context": outside, "context/deep": outside / "deep"}.get(swapped, outside / "b.md")
            (root / swapped).symlink_to(target)
        return seen

    monkeypatch.setattr(os, "stat", look_then_swap)
    refusal_of = (Reason.NOT_FOUND, Reason.INVALID_PATH, Reason.NOT_A_FILE)
    assert _reason(reader.read, "context/deep/b.md") in refusal_of


def test_a_file_swapped_for_a_pipe_after_its_check_does_not_block(root, reader, monkeypatch):
    look = os.stat

    def look_then_swap(name, *, dir_fd=None, follow_symlinks=True):
        seen = look(name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if name == "a.md":
            (root / "context" / "a.md").unlink()
            os.mkfifo(root / "context" / "a.md")
        return seen

    monkeypatch.setattr(os, "stat", look_then_swap)
    assert _reason(reader.read, "context/a.md") == Reason.NOT_A_FILE


def test_a_concurrently_changed_folder_cannot_reveal_outside_files(root, reader):
    outside = root.parent / "outside"
    (outside / "b.md").write_bytes(SECRET)
    place, real = root / "context" / "deep", root / "private" / "kept"
    shutil.move(place, real)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            real.rename(place)
            place.rename(real)
            place.symlink_to(outside)
            place.unlink()

    racer = threading.Thread(target=swap)
    racer.start()
    seen = set()
    try:
        for _ in range(2000):
            with contextlib.suppress(CapabilityDeniedError):
                seen.add(reader.read("context/deep/b.md"))
    finally:
        stop.set()
        racer.join()
    assert seen <= {b"beta"}


def test_no_descriptor_is_leaked(root, reader):
    before = len(os.listdir("/proc/self/fd"))
    for path in ("context/a.md", "context/missing", "context/deep/b.md", "context/deep"):
        for call in (reader.read, reader.list):
            with contextlib.suppress(CapabilityDeniedError):
                call(path)
    assert len(os.listdir("/proc/self/fd")) == before


@settings(max_examples=examples(300), deadline=None)
@given(
    path=st.text(max_size=30)
    | st.lists(st.sampled_from(["..", ".", "", "context", "private", "key", "a.md"])).map("/".join)
)
def test_no_path_reads_outside_its_grant(path, tmp_path_factory):
    root = tmp_path_factory.getbasetemp() / "fuzzed"
    (root / "context").mkdir(parents=True, exist_ok=True)
    (root / "private").mkdir(exist_ok=True)
    (root / "private" / "key").write_bytes(b"private")
    (root / "context" / "a.md").write_bytes(b"alpha")
    try:
        assert WorkspaceReader(root, ["context/"]).read(path) == b"alpha"
    except CapabilityDeniedError as error:
        assert error.decision.hint and error.decision.rule
