"""Choice of a backend, the environment, and .env files."""

from __future__ import annotations

from pathlib import Path

import keyring
import keyring.backend
import keyring.backends.fail
import pytest
from keyring.backends.chainer import ChainerBackend
from keyrings.alt.file import EncryptedKeyring, PlaintextKeyring

from wasmrt.core.errors import ConfigurationError, SecretBackendError, SecretError, SecretNotFoundError
from wasmrt.egress.secrets import EnvironmentSecrets, FileSecrets, KeyringSecrets, Secret, open_store, parse_env_file


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "get_keyring", keyring.backends.fail.Keyring)


def test_without_a_keyring_the_encrypted_file_is_used(tmp_path: Path, no_keyring: None) -> None:
    store = open_store(tmp_path, environ={})
    assert isinstance(store, FileSecrets)
    store.set("local", "token", Secret("value"))
    assert open_store(tmp_path, environ={}).get("local", "token").reveal() == "value"


def test_a_plain_text_keyring_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "get_keyring", PlaintextKeyring)
    assert keyring.get_keyring().priority > 0
    assert isinstance(open_store(tmp_path, environ={}), FileSecrets)
    with pytest.raises(SecretBackendError, match="no keyring"):
        open_store(tmp_path, backend="keyring", environ={})


def test_the_first_protecting_keyring_of_a_chain_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [EncryptedKeyring(), PlaintextKeyring()]
    monkeypatch.setattr(keyring.backend, "get_all_keyring", lambda: list(found))
    monkeypatch.setattr(keyring, "get_keyring", ChainerBackend)
    assert keyring.get_keyring().priority > 0
    assert isinstance(open_store(tmp_path, environ={}), FileSecrets)
    with pytest.raises(SecretBackendError, match="no keyring"):
        open_store(tmp_path, backend="keyring", environ={})
    kept: dict[tuple[str, ...], str] = {}
    desktop = type(
        "Desktop",
        (),
        {
            "priority": 0.1,
            "get_password": lambda self, *key: kept.get(key),
            "set_password": lambda self, *given: kept.update({given[:-1]: given[-1]}),
        },
    )
    found.append(desktop())
    open_store(tmp_path, environ={}).set("local", "token", Secret("value"))
    assert ("wasmrt/local", "token") in kept
    assert not (tmp_path / "secrets").exists()


def test_a_keyring_is_used_if_there_is_one_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "get_keyring", type("Desktop", (), {"priority": 5}))
    assert isinstance(open_store(tmp_path, environ={}), KeyringSecrets)
    open_store(tmp_path, backend="file", environ={}).set("local", "token", Secret("value"))
    assert isinstance(open_store(tmp_path, environ={}), FileSecrets)


def test_an_unknown_backend_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="vault"):
        open_store(tmp_path, environ={"WASMRT_SECRETS_BACKEND": "vault"})


@pytest.mark.parametrize(("wrong", "near"), [("env", "environment"), ("flie", "file"), ("Keyring", "keyring")])
def test_an_unknown_backend_gets_the_nearest_suggestion(tmp_path: Path, wrong: str, near: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{wrong}'") as caught:
        open_store(tmp_path, environ={"WASMRT_SECRETS_BACKEND": wrong})
    assert str(caught.value.hint).startswith(f"did you mean {near}?")


def test_an_unknown_backend_without_a_similar_one_gets_the_whole_list(tmp_path: Path) -> None:
    for wrong in ("1password", "x" * 10_000):
        with pytest.raises(ConfigurationError) as caught:
            open_store(tmp_path, environ={"WASMRT_SECRETS_BACKEND": wrong})
        assert caught.value.hint == "choose one of auto, keyring, file, environment, command, vault"
        assert len(caught.value.message) < 200


def test_the_environment_serves_one_user_and_only_prefixed_names() -> None:
    store = EnvironmentSecrets({"WASMRT_SECRET_API_TOKEN": "value", "HOME": "/root", "WASMRT_SECRET_EMPTY": ""})
    assert store.get("local", "api_token").reveal() == "value"
    assert store.get("local", "api-token").reveal() == "value"
    assert [info.name for info in store.list("local")] == ["api_token"]
    for user, name in (("ann", "api_token"), ("local", "home"), ("local", "empty"), ("local", "api_token~oauth")):
        with pytest.raises(SecretNotFoundError):
            store.get(user, name)
    assert store.list("ann") == ()


def test_the_environment_is_read_only() -> None:
    store = EnvironmentSecrets({"WASMRT_SECRET_TOKEN": "value"})
    with pytest.raises(SecretBackendError) as caught:
        store.set("local", "new", Secret("value"))
    assert "WASMRT_SECRET_NEW" in str(caught.value.hint)
    with pytest.raises(SecretBackendError):
        store.remove("local", "token")
    with pytest.raises(SecretNotFoundError):
        store.remove("local", "absent")


def test_a_dotenv_file_is_read_without_expansion() -> None:
    text = "\ufeff# comment\nexport A_TOKEN=one\nB='two # $A_TOKEN'\nD = four # note\nE=\n"
    text += r"""C="a\nb \"q\" $B ${B}" # note"""
    parsed = {name: secret.reveal() for name, secret in parse_env_file(text)}
    assert parsed == {"a_token": "one", "b": "two # $A_TOKEN", "c": 'a\nb "q" $B ${B}', "d": "four"}


def test_a_quoted_dotenv_value_may_have_several_lines() -> None:
    ((name, secret),) = parse_env_file('KEY="-----BEGIN\nline\n-----END"\n')
    assert (name, secret.reveal()) == ("key", "-----BEGIN\nline\n-----END")


@pytest.mark.parametrize(
    "line", ["what is this", "LONELY", "A='open", 'A="open', "=x", "A=1\na=2", "1A=x", "x" * (1024 * 1024 + 1)]
)
def test_an_invalid_line_is_reported_by_number_and_never_shown(line: str) -> None:
    with pytest.raises(SecretError) as caught:
        parse_env_file(f"# first\n\n{line}\n")
    assert line not in str(caught.value)
    assert (
        "line 3 of the .env file is not" in str(caught.value)
        or "line 4 of the .env file sets the secret a a second time" in str(caught.value)
        or len(line) > 100
    )
