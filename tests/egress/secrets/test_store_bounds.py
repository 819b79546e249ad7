"""Bounds of the stores, and names of backends."""

from __future__ import annotations

from pathlib import Path

import pytest
from wasmrt.testing import MemorySecrets

import wasmrt.egress.secrets._file as secrets_file
from wasmrt.core.errors import SecretBackendError, SecretError
from wasmrt.core.limits import MAX_ENV_FILE_BYTES
from wasmrt.egress.secrets import (
    BACKENDS,
    OAUTH_SUFFIX,
    EnvironmentSecrets,
    FileKey,
    FileSecrets,
    KeyringSecrets,
    Secret,
    name_backend,
    parse_env_file,
)


def test_a_backend_is_identified_by_its_name_and_a_custom_one_by_its_type(tmp_path: Path) -> None:
    file = FileSecrets(tmp_path / "secrets", FileKey(path=tmp_path / "key"))
    assert [name_backend(store) for store in (file, EnvironmentSecrets({}))] == ["file", "environment"]
    assert name_backend(MemorySecrets()) == "MemorySecrets"
    assert {"file", "environment", "keyring"} <= set(BACKENDS)
    assert name_backend(KeyringSecrets.__new__(KeyringSecrets)) == "keyring"


def test_a_file_that_would_exceed_its_limit_stays_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets_file, "MAX_SECRETS_FILE_BYTES", 1000)
    store = FileSecrets(tmp_path / "secrets", FileKey(path=tmp_path / "key"))
    store.set("ann", "small", Secret("a value that fits in it"))
    with pytest.raises(SecretBackendError, match="exceed 1000 bytes"):
        store.set("ann", "large", Secret("x" * 1000))
    assert [info.name for info in store.list("ann")] == ["small"]
    assert store.get("ann", "small").reveal() == "a value that fits in it"


def test_the_state_of_a_login_can_be_removed_separately() -> None:
    store = MemorySecrets()
    store.set("ann", "token", Secret("an access token of a login"))
    store.set("ann", "token" + OAUTH_SUFFIX, Secret("what renews the access token"))
    store.remove("ann", "token" + OAUTH_SUFFIX)
    assert store.exists("ann", "token")
    assert not store.exists("ann", "token" + OAUTH_SUFFIX)


@pytest.mark.parametrize("size", [31, 33, 100_000])
def test_a_key_of_another_length_decrypts_nothing(tmp_path: Path, size: int) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * size)
    key.chmod(0o600)
    with pytest.raises(SecretBackendError, match="32"):
        FileSecrets(tmp_path / "secrets", FileKey(path=key)).set("ann", "token", Secret("a long enough value"))


def test_a_dotenv_file_over_its_limit_is_refused_before_it_is_parsed() -> None:
    line = "A=" + "x" * 100 + "\n"
    with pytest.raises(SecretError, match=f"{MAX_ENV_FILE_BYTES} bytes"):
        parse_env_file("# " + "x" * (MAX_ENV_FILE_BYTES - len(line) - 1) + "\n" + line)
    assert len(parse_env_file("#" + "x" * (MAX_ENV_FILE_BYTES - len(line) - 2) + "\n" + line)) == 1
