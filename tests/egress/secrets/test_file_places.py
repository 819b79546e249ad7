"""The location of the encrypted file and its key, and concurrent changes by other processes."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import keyring.backend
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf import scrypt

from tests.egress.secrets.test_stores import DictKeyring
from wasmrt.core.errors import SecretBackendError, SecretError
from wasmrt.core.limits import MAX_SECRET_BYTES, MAX_USER_BYTES
from wasmrt.egress.secrets import (
    EnvironmentSecrets,
    FileKey,
    FileSecrets,
    KeyringSecrets,
    Secret,
    check_usable,
    check_user,
    open_store,
)


def test_created_directories_are_private(tmp_path: Path) -> None:
    path, key = tmp_path / "data/of/mine/secrets", tmp_path / "keys/of/mine/key"
    store = FileSecrets(path, FileKey(path=key))
    assert (store.path, store.key_path, store.is_new) == (path, key, True)
    store.set("ann", "token", Secret("a value of some length"))
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, key.parent)] == [0o700, 0o700]
    assert not store.is_new
    assert FileSecrets(path, FileKey(passphrase="right")).key_path is None


def test_a_secrets_file_may_be_a_symlink(tmp_path: Path) -> None:
    key = FileKey(path=tmp_path / "key")
    FileSecrets(tmp_path / "kept", key).set("ann", "token", Secret("a value of some length"))
    (tmp_path / "secrets").symlink_to("kept")
    assert FileSecrets(tmp_path / "secrets", key).get("ann", "token").reveal() == "a value of some length"


def test_a_recreated_file_uses_its_new_salt_and_the_key_is_derived_once_per_salt(
    tmp_path: Path, cheap_scrypt: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived: list[bytes] = []

    def make(**how: object) -> object:
        made = type("Made", (), {})()
        inner = real_scrypt(**how)

        def derive(material: bytes) -> bytes:
            derived.append(material)
            return inner.derive(material)

        made.derive = derive
        return made

    real_scrypt = scrypt.Scrypt
    monkeypatch.setattr(scrypt, "Scrypt", make)
    path = tmp_path / "secrets"
    store, other = (FileSecrets(path, FileKey(passphrase="right")) for _ in range(2))
    store.set("ann", "token", Secret("the first value"))
    assert store.get("ann", "token").reveal() == "the first value"
    assert derived == [b"right"]
    path.unlink()
    other.set("ann", "token", Secret("the second value"))
    assert store.get("ann", "token").reveal() == "the second value"
    assert derived == [b"right"] * 3


def test_the_environment_backend_can_be_selected(tmp_path: Path) -> None:
    environ = {"WASMRT_SECRETS_BACKEND": "environment"}
    assert isinstance(open_store(tmp_path, environ=environ), EnvironmentSecrets)
    assert isinstance(open_store(tmp_path, backend="environment", environ={}), EnvironmentSecrets)


def test_a_keyring_without_priority_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unwanted(DictKeyring):
        priority = 0  # type: ignore[assignment]

    monkeypatch.setattr(keyring, "get_keyring", Unwanted)
    with pytest.raises(SecretBackendError, match="no keyring"):
        KeyringSecrets()


def test_a_removed_secret_is_removed_from_the_keyrings_index() -> None:
    backend = DictKeyring()
    store = KeyringSecrets(backend)
    for name in ("one", "two"):
        store.set("ann", name, Secret("a value of some length"))
    store.remove("ann", "one")
    assert backend.kept["wasmrt/ann", ".names"] == '["two"]'


def test_a_users_name_may_have_the_maximum_number_of_bytes() -> None:
    assert check_user("x" * MAX_USER_BYTES) == "x" * MAX_USER_BYTES
    assert check_user("ü" * (MAX_USER_BYTES // 2))
    with pytest.raises(SecretError, match="printable"):
        check_user("ü" * (MAX_USER_BYTES // 2) + "x")


def test_a_secret_never_equals_a_string() -> None:
    assert (Secret("a value of some length") == "a value of some length") is False


@pytest.mark.ci("slow")
def test_a_file_in_this_versions_format_is_read_and_written(tmp_path: Path) -> None:
    salt, nonce = bytes(range(16)), bytes(range(12))
    how = {"key": "scrypt", "n": 131072, "r": 8, "p": 1, "salt": base64.b64encode(salt).decode()}
    head = b"WASMRT-SECRETS-1\n" + json.dumps(how).encode() + b"\n"
    key = scrypt.Scrypt(salt=salt, length=32, n=131072, r=8, p=1).derive(b"right")
    entry = {"value": "a value of some length", "created_at": 1.0, "expires_at": None}
    plain = json.dumps({"ann": {"token": entry}}).encode()
    path = tmp_path / "secrets"
    path.write_bytes(head + nonce + AESGCM(key).encrypt(nonce, plain, head))
    store = FileSecrets(path, FileKey(passphrase="right"))
    assert store.get("ann", "token").reveal() == "a value of some length"
    store.set("ann", "token", Secret("another value of it"))
    blob = path.read_bytes()
    sealed = blob.removeprefix(head)
    assert len(sealed) < len(blob)
    assert sealed[:12] != nonce
    assert b"another value of it" in AESGCM(key).decrypt(sealed[:12], sealed[12:], head)


def test_a_new_file_has_its_own_salt(tmp_path: Path, cheap_scrypt: None) -> None:
    salts = set()
    for name in ("one", "two"):
        FileSecrets(tmp_path / name, FileKey(passphrase="right")).set("ann", "token", Secret("a value of some length"))
        salts.add(base64.b64decode(json.loads((tmp_path / name).read_bytes().splitlines()[1])["salt"]))
    assert [len(salt) for salt in salts] == [16, 16]


def test_the_largest_allowed_secret_is_accepted() -> None:
    assert len(Secret("x" * MAX_SECRET_BYTES).reveal()) == MAX_SECRET_BYTES


@pytest.mark.parametrize(
    ("char", "kind"), [("\n", "a line break"), ("\r", "a line break"), ("\x01", "a control character"), ("ü", "ASCII")]
)
def test_a_character_that_is_invalid_in_a_header_is_reported_by_its_kind(char: str, kind: str) -> None:
    told = check_usable("token", Secret(f"a-value{char}of-some-length"))
    assert told is not None
    assert told.endswith(f"character 8 is {'outside ' if kind == 'ASCII' else ''}{kind}")
