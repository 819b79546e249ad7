"""The encrypted file: its content on disk, access by other users, and crashes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core.errors import SecretBackendError
from wasmrt.egress.secrets import FileKey, FileSecrets, Secret


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "home" / "secrets", tmp_path / "home" / "secrets.key"


def test_the_file_is_encrypted_and_private(files: tuple[Path, Path]) -> None:
    path, key = files
    FileSecrets(path, FileKey(path=key)).set("ann", "api_token", Secret("the-plain-value"))
    for file in path.parent.iterdir():
        content = file.read_bytes()
        assert b"the-plain-value" not in content and b"api_token" not in content and b"ann" not in content
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {file.name for file in path.parent.iterdir()} == {"secrets", "secrets.key", "secrets.lock"}


@pytest.mark.ci("slow")
def test_a_passphrase_decrypts_the_file_at_full_scrypt_cost(files: tuple[Path, Path]) -> None:
    path, _ = files
    FileSecrets(path, FileKey(passphrase="right")).set("ann", "token", Secret("value"))
    assert b"131072" in path.read_bytes()[:200]
    assert FileSecrets(path, FileKey(passphrase="right")).get("ann", "token").reveal() == "value"
    with pytest.raises(SecretBackendError, match="cannot be decrypted"):
        FileSecrets(path, FileKey(passphrase="wrong")).get("ann", "token")


def test_a_key_file_readable_by_others_is_refused(files: tuple[Path, Path]) -> None:
    path, key = files
    store = FileSecrets(path, FileKey(path=key))
    store.set("ann", "token", Secret("value"))
    key.chmod(0o640)
    with pytest.raises(SecretBackendError, match="read or written by other users") as caught:
        store.get("ann", "token")
    assert caught.value.path == key
    assert "secrets.key" in str(caught.value.hint) and str(key.parent) not in str(caught.value.hint)


def test_a_key_file_behind_a_symlink_is_refused(files: tuple[Path, Path]) -> None:
    path, key = files
    FileSecrets(path, FileKey(path=key)).set("ann", "token", Secret("value"))
    key.rename(key.with_name("elsewhere"))
    key.symlink_to(key.with_name("elsewhere"))
    with pytest.raises(SecretBackendError):
        FileSecrets(path, FileKey(path=key)).get("ann", "token")


@pytest.mark.parametrize("which", ["secrets", "secrets.key"])
def test_a_pipe_instead_of_a_file_does_not_block(files: tuple[Path, Path], which: str) -> None:
    path, key = files
    path.parent.mkdir(mode=0o700)
    os.mkfifo(path.with_name(which), 0o600)
    with pytest.raises(SecretBackendError, match="not a regular file"):
        FileSecrets(path, FileKey(path=key)).set("ann", "token", Secret("value"))


def test_a_key_file_of_the_wrong_length_is_refused(files: tuple[Path, Path]) -> None:
    path, key = files
    key.parent.mkdir()
    key.touch(mode=0o600)
    with pytest.raises(SecretBackendError, match="32 bytes"):
        FileSecrets(path, FileKey(path=key)).set("ann", "token", Secret("value"))


def test_the_wrong_kind_of_key_is_reported(files: tuple[Path, Path], cheap_scrypt: None) -> None:
    path, key = files
    FileSecrets(path, FileKey(passphrase="p")).set("ann", "token", Secret("value"))
    with pytest.raises(SecretBackendError, match="needs a passphrase"):
        FileSecrets(path, FileKey(path=key)).get("ann", "token")


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_any_changed_byte_is_detected(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("changed")
    store = FileSecrets(home / "s", FileKey(path=home / "k"), now=lambda: 1.0)
    store.set("ann", "token", Secret("value"))
    blob = bytearray((home / "s").read_bytes())
    position = data.draw(st.integers(0, len(blob) - 1))
    blob[position] ^= data.draw(st.integers(1, 255))
    (home / "s").write_bytes(blob)
    with pytest.raises(SecretBackendError):
        store.get("ann", "token")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"WASMRT-SECRETS-1\n",
        b"x" * (8 * 1024 * 1024 + 1),
        b'WASMRT-SECRETS-1\n{"key": "file"}\n',
        b"WASMRT-SECRETS-1\n{broken\n",
    ],
)
def test_a_truncated_or_foreign_file_is_refused(files: tuple[Path, Path], content: bytes) -> None:
    path, key = files
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(SecretBackendError) as caught:
        FileSecrets(path, FileKey(path=key)).get("ann", "token")
    assert caught.value.path == path


def test_an_unwritable_store_is_reported_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "secrets"
    with pytest.raises(SecretBackendError) as caught:
        FileSecrets(path, FileKey(path=tmp_path / "k")).set("ann", "token", Secret("value"))
    assert str(tmp_path) not in str(caught.value) + str(caught.value.hint)
    assert caught.value.path == path


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, key = files
    store = FileSecrets(path, FileKey(path=key))
    store.set("ann", "token", Secret("old"))
    before = sorted(path.parent.iterdir())

    def no_space(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_space)
        with pytest.raises(SecretBackendError, match="No space left"):
            store.set("ann", "token", Secret("new"))
    assert sorted(path.parent.iterdir()) == before
    assert store.get("ann", "token").reveal() == "old"


def test_concurrent_processes_lose_no_writes(files: tuple[Path, Path]) -> None:
    path, key = files
    program = (
        "import sys; from pathlib import Path; from wasmrt.egress.secrets import *\n"
        "store = FileSecrets(Path(sys.argv[1]), FileKey(path=Path(sys.argv[2])))\n"
        "for n in range(10): store.set('ann', f'{sys.argv[3]}_{n}', Secret('v'))\n"
    )
    command = [sys.executable, "-c", program, str(path), str(key)]
    writers = [subprocess.Popen([*command, f"p{number}"]) for number in range(3)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    assert len(FileSecrets(path, FileKey(path=key)).list("ann")) == 30


@pytest.mark.parametrize("key", [{}, {"passphrase": "x", "path": Path("y")}, {"passphrase": ""}])
def test_a_file_key_needs_a_passphrase_or_a_path_but_not_both(key: dict[str, object]) -> None:
    with pytest.raises(SecretBackendError):
        FileKey(**key)  # type: ignore[arg-type]
    assert "open sesame" not in repr(FileKey(passphrase="open sesame"))
