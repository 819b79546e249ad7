from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.engine.conftest import PLAIN, assembled
from wasmrt.core.errors import InvalidComponentError
from wasmrt.sandbox.guest.artifacts import DiskCache, NotCachedError, cache_key
from wasmrt.sandbox.guest.compiler import Compiler
from wasmrt.sandbox.guest.engine import VERSION
from wasmrt.sandbox.guest.engine import _engine as engine_module
from wasmrt.sandbox.guest.settings import EngineConfig


class Compiles:
    """Counts the compilations of the engine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = engine_module.Engine.compile
        lock = threading.Lock()

        def counted(engine: engine_module.Engine, data: bytes) -> engine_module.Component:
            with lock:
                self.count += 1
            return real(engine, data)

        monkeypatch.setattr(engine_module.Engine, "compile", counted)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> Compiles:
    return Compiles(monkeypatch)


def disk(tmp_path: Path, **options: int) -> DiskCache:
    return DiskCache(tmp_path / "cache", tmp_path / "data" / "cache.key", **options)


def compiler(cache: DiskCache | None, *, keep: bool = True) -> Compiler:
    return Compiler(EngineConfig(), keep=keep, disk=cache)


DATA = assembled(PLAIN)


def test_a_second_process_finds_the_code_on_disk(tmp_path: Path, compiles: Compiles) -> None:
    compiler(disk(tmp_path)).compile(DATA, "d")
    compiler(disk(tmp_path)).compile(DATA, "d")
    assert compiles.count == 1


def test_a_tampered_file_is_reported_once_and_never_loaded(
    tmp_path: Path, compiles: Compiles, caplog: pytest.LogCaptureFixture
) -> None:
    compiler(disk(tmp_path)).compile(DATA, "d")
    [file] = (tmp_path / "cache").glob("*.cwasm")
    blob = bytearray(file.read_bytes())
    blob[len(blob) // 2] ^= 1
    file.write_bytes(blob)
    cache = disk(tmp_path)
    with caplog.at_level(logging.WARNING, "wasmrt.sandbox.guest.engine"):
        compiler(cache).compile(DATA, "d")
        compiler(cache).compile(DATA, "d")
    assert compiles.count == 2
    assert len([r for r in caplog.records if "failed verification" in r.message]) == 1


def test_an_artifact_moved_to_another_key_does_not_verify(tmp_path: Path) -> None:
    cache = disk(tmp_path)
    cache.store("one", b"code")
    (tmp_path / "cache").joinpath(cache._path("one").name).rename(cache._path("two"))
    assert cache.load("two") is None


def test_modified_artifacts_are_not_copied_and_are_removed(tmp_path: Path) -> None:
    cache, code = disk(tmp_path), os.urandom(600_000)
    for place in (0, 31, 32, 300_000, 600_031):
        cache.store("k", code)
        blob = bytearray(cache._path("k").read_bytes())
        blob[place] ^= 1
        cache._path("k").write_bytes(blob)
        with pytest.raises(NotCachedError), (tmp_path / "out").open("wb") as target:
            cache.copy("k", target.fileno())
        assert not cache._path("k").exists()


@pytest.mark.parametrize("size", [0, 1, 262_144, 262_145, 600_000])
def test_copy_and_load_return_the_stored_artifact(tmp_path: Path, size: int) -> None:
    cache, code = disk(tmp_path), os.urandom(size)
    cache.store("k", memoryview(code))
    with (tmp_path / "out").open("wb") as target:
        cache.copy("k", target.fileno())
    assert (tmp_path / "out").read_bytes() == code == cache.load("k")


def test_code_of_a_different_engine_build_is_compiled_again(tmp_path: Path, compiles: Compiles) -> None:
    cache, key = disk(tmp_path), cache_key("d", VERSION, EngineConfig())
    cache.store(key, b"code that this engine does not read")
    assert compiler(cache).compile(DATA, "d").type.functions
    assert compiler(cache).compile(DATA, "d").type.functions
    assert compiles.count == 1 and cache.load(key) != b"code that this engine does not read"


def test_an_artifact_over_the_size_limit_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    disk(tmp_path).store("k", b"x" * 4000)
    with caplog.at_level(logging.WARNING, "wasmrt.sandbox.guest"):
        assert disk(tmp_path, max_bytes=3000).load("k") is None
    assert "larger" in caplog.text


def test_code_from_a_different_installation_is_not_loaded(tmp_path: Path) -> None:
    disk(tmp_path).store("k", b"code")
    other = DiskCache(tmp_path / "cache", tmp_path / "elsewhere" / "cache.key")
    assert other.load("k") is None


def test_the_key_file_is_private_and_created_once(tmp_path: Path) -> None:
    disk(tmp_path)
    key = tmp_path / "data" / "cache.key"
    before = key.read_bytes()
    disk(tmp_path)
    assert key.read_bytes() == before
    assert key.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes, devices and file owners")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: os.mkfifo(path, 0o600), "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "symbolic link"),
        (lambda path: (path.write_bytes(bytes(32)), path.chmod(0o666)), "by other users"),
        (lambda path: (path.write_bytes(bytes(32)), path.chmod(0o640)), "by other users"),
        (lambda path: (path.write_bytes(bytes(33)), path.chmod(0o600)), "larger"),
        (lambda path: (path.write_bytes(bytes(31)), path.chmod(0o600)), "does not contain a key"),
    ],
)
def test_unsafe_key_files_are_refused_and_calls_continue_uncached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Callable[[Path], object], words: str
) -> None:
    (tmp_path / "data").mkdir()
    make(tmp_path / "data" / "cache.key")
    with caplog.at_level(logging.WARNING):
        cache = disk(tmp_path)
    assert not cache.usable
    assert words in (cache.problem or "") and "cache.key" in caplog.text
    compiler(cache).compile(DATA, "d")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_instead_of_cached_code_does_not_block(tmp_path: Path, compiles: Compiles) -> None:
    compiler(disk(tmp_path)).compile(DATA, "d")
    [file] = (tmp_path / "cache").glob("*.cwasm")
    file.unlink()
    os.mkfifo(file)
    compiler(disk(tmp_path)).compile(DATA, "d")
    assert compiles.count == 2
    assert file.is_file(), "stored again"


def test_an_unusable_folder_is_logged_and_calls_continue_uncached(
    tmp_path: Path, compiles: Compiles, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    with caplog.at_level(logging.WARNING, "wasmrt.sandbox.guest.engine"):
        cache = disk(tmp_path)
        assert compiler(cache).compile(DATA, "d").type.functions
    assert not cache.usable
    assert "cannot use the compile cache" in caplog.text


def test_a_full_disk_is_logged_once_and_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = disk(tmp_path)

    def full(*_: object, **__: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("wasmrt.sandbox.guest.artifacts.os.fdopen", full)
    with caplog.at_level(logging.WARNING, "wasmrt.sandbox.guest.engine"):
        assert compiler(cache).compile(DATA, "d").type.functions
        assert compiler(cache).compile(DATA, "d").type.functions
    assert caplog.text.count("cannot write to the compile cache") == 1


def test_the_oldest_artifacts_are_removed_when_the_folder_is_full(tmp_path: Path) -> None:
    cache = disk(tmp_path, max_bytes=3000)
    for name in "abcd":
        cache.store(name, name.encode() * 1000)
        os.utime(cache._path(name), (ord(name), ord(name)))
    cache.store("e", b"e" * 1000)
    kept = {name for name in "abcde" if cache.load(name)}
    assert "e" in kept
    assert "a" not in kept
    assert sum(f.stat().st_size for f in (tmp_path / "cache").glob("*.cwasm")) <= 3000


def test_other_files_in_the_folder_are_ignored(tmp_path: Path) -> None:
    cache = disk(tmp_path, max_bytes=3000)
    other = tmp_path / "cache" / "notes.txt"
    other.write_bytes(bytes(5000))
    cache.store("a", b"a" * 1000)
    assert cache.load("a") == b"a" * 1000
    assert other.exists()


def test_code_larger_than_the_folder_limit_is_not_stored(tmp_path: Path) -> None:
    cache = disk(tmp_path, max_bytes=3000)
    cache.store("a", b"a" * 1000)
    cache.store("b", b"b" * 4000)
    assert list((tmp_path / "cache").iterdir()) == []


def test_cache_key_has_the_processor_name_if_features_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(path: Path, mode: str) -> None:
        raise PermissionError(13, str(path))

    listed = cache_key("d", "1", EngineConfig())
    monkeypatch.setattr(Path, "open", hidden)
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "a-machine")
    assert cache_key("d", "1", EngineConfig()) == f"{listed.rpartition('|')[0]}|a-machine"
    monkeypatch.setattr("platform.processor", lambda: "a processor")
    assert cache_key("d", "1", EngineConfig()).endswith("|a processor")


def test_many_threads_compile_one_digest_once(compiles: Compiles) -> None:
    shared = compiler(None)
    start = threading.Barrier(8)
    found: list[object] = []

    def work() -> None:
        start.wait()
        found.append(shared.compile(DATA, "d"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiles.count == 1
    assert len({id(component) for component in found}) == 1


def test_a_failed_compilation_fails_for_all_waiters_and_is_retried(compiles: Compiles) -> None:
    shared = compiler(None)
    for _ in range(2):
        with pytest.raises(InvalidComponentError):
            shared.compile(DATA[:-5], "broken")
    assert compiles.count >= 2


def test_nothing_is_cached_if_caching_is_off(compiles: Compiles) -> None:
    shared = compiler(None, keep=False)
    shared.compile(DATA, "d")
    shared.compile(DATA, "d")
    assert compiles.count == 2


def test_the_most_recently_used_components_are_cached(compiles: Compiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.sandbox.guest.compiler.MEMORY_ENTRIES", 2)
    shared = compiler(None)
    for digest in ("a", "b", "a", "c"):
        shared.compile(DATA, digest)
    assert compiles.count == 3
    shared.compile(DATA, "a")
    assert compiles.count == 3
    shared.compile(DATA, "b")
    assert compiles.count == 4
