"""The common behaviour of all backends, tested on each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keyring.backend
import keyring.errors
import pytest
from keyrings.alt.file import EncryptedKeyring
from wasmrt.testing import MemorySecrets

from wasmrt.core.errors import SecretBackendError, SecretError, SecretExpiredError, SecretNotFoundError
from wasmrt.egress.secrets import FileKey, FileSecrets, KeyringSecrets, Secret, SecretsStore, UserSecrets


class DictKeyring(keyring.backend.KeyringBackend):
    """An in-memory keyring like a desktop's."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError("not there")


def file_keyring(path: Path, key: str = "a master key") -> EncryptedKeyring:
    """A real keyring that needs no desktop: the input for its terminal prompts is given here."""
    backend = EncryptedKeyring()
    backend.file_path = str(path)
    backend.keyring_key = key
    return backend


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "key file", "passphrase", "keyring", "keyring in a file"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, cheap_scrypt: None) -> SecretsStore:
    makers: dict[str, Callable[[], SecretsStore]] = {
        "memory": lambda: MemorySecrets(now=clock),
        "key file": lambda: FileSecrets(tmp_path / "s", FileKey(path=tmp_path / "k"), now=clock),
        "passphrase": lambda: FileSecrets(tmp_path / "s", FileKey(passphrase="open sesame"), now=clock),
        "keyring": lambda: KeyringSecrets(DictKeyring(), now=clock),
        "keyring in a file": lambda: KeyringSecrets(file_keyring(tmp_path / "keyring"), now=clock),
    }
    return makers[request.param]()


def test_a_stored_secret_is_returned_for_any_case_of_its_name(store: SecretsStore) -> None:
    store.set("ann", "SLACK_TOKEN", Secret("one"))
    store.set("ann", "slack_token", Secret("two"))
    assert store.get("ann", "Slack_Token").reveal() == "two"
    assert store.exists("ann", "slack_token")


def test_a_user_never_gets_the_secret_of_another_or_of_the_default_user(store: SecretsStore) -> None:
    store.set("local", "token", Secret("local's"))
    store.set("default", "token", Secret("default's"))
    with pytest.raises(SecretNotFoundError) as caught:
        store.get("ann", "token")
    assert caught.value.hint == "run: wasmrt secret set token --user ann"
    assert not store.exists("ann", "token")
    assert store.list("ann") == ()


def test_an_expired_secret_is_not_returned(store: SecretsStore, clock: Clock) -> None:
    store.set("ann", "token", Secret("short-lived"), expires_at=clock.now + 10)
    assert store.get("ann", "token").reveal() == "short-lived"
    clock.now += 10
    with pytest.raises(SecretExpiredError) as caught:
        store.get("ann", "token")
    assert "short-lived" not in str(caught.value)
    assert not store.exists("ann", "token")


def test_the_list_only_has_names_and_times(store: SecretsStore, clock: Clock) -> None:
    store.set("ann", "b_token", Secret("value-b"), expires_at=clock.now + 5)
    store.set("ann", "a_token", Secret("value-a"))
    store.set("ann", "a_token~oauth", Secret("{}"))
    listed = store.list("ann")
    assert [(i.name, i.created_at, i.expires_at) for i in listed] == [
        ("a_token", clock.now, None),
        ("b_token", clock.now, clock.now + 5),
    ]
    assert "value" not in repr(listed)


def test_removing_a_secret_also_removes_its_refresh_state(store: SecretsStore) -> None:
    store.set("ann", "token", Secret("value"))
    store.set("ann", "token~oauth", Secret("{}"))
    store.remove("ann", "TOKEN")
    for name in ("token", "token~oauth"):
        with pytest.raises(SecretNotFoundError):
            store.get("ann", name)
    with pytest.raises(SecretNotFoundError):
        store.remove("ann", "token")


def test_an_invalid_expiry_is_refused(store: SecretsStore) -> None:
    for wrong in (float("nan"), float("inf"), True):
        with pytest.raises(SecretError):
            store.set("ann", "token", Secret("x"), expires_at=wrong)


def test_a_view_shows_one_user_only(store: SecretsStore) -> None:
    store.set("ann", "token", Secret("hers"))
    store.set("bob", "token", Secret("his"))
    assert UserSecrets(store, "bob").get("token").reveal() == "his"
    assert UserSecrets(store, "bob").exists("token")
    assert UserSecrets(store, "bob").renewed("token") is None


def test_a_reopened_keyring_has_its_secrets_but_not_without_its_key(tmp_path: Path) -> None:
    path = tmp_path / "keyring"
    value = 'grüße "zwei"\nlines %41 ' + "x" * 5000
    KeyringSecrets(file_keyring(path)).set("ann@example.com", "api.token-1", Secret(value))
    again = KeyringSecrets(file_keyring(path))
    assert again.get("ann@example.com", "api.token-1").reveal() == value
    assert [info.name for info in again.list("ann@example.com")] == ["api.token-1"]
    assert "zwei" not in path.read_text()
    with pytest.raises(SecretBackendError, match="does not respond") as caught:
        KeyringSecrets(file_keyring(path, "another key")).get("ann@example.com", "api.token-1")
    assert caught.value.__context__ is None
    again.remove("ann@example.com", "api.token-1")
    assert KeyringSecrets(file_keyring(path)).list("ann@example.com") == ()


def test_a_failing_keyrings_error_does_not_contain_the_value() -> None:
    class Broken(DictKeyring):
        def set_password(self, service: str, username: str, password: str) -> None:
            raise RuntimeError(f"cannot store {password}")

    with pytest.raises(SecretBackendError) as caught:
        KeyringSecrets(Broken()).set("ann", "token", Secret("my-value"))
    error: BaseException | None = caught.value
    assert error is not None and error.__cause__ is None and error.__context__ is None
    assert "my-value" not in str(error)


def test_a_keyring_with_foreign_contents_is_refused() -> None:
    backend = DictKeyring()
    store = KeyringSecrets(backend)
    for text in ("not json", "[]", '{"value": 1, "created_at": 0, "expires_at": null}', '{"value": "x"}'):
        backend.kept["wasmrt/ann", "token"] = text
        with pytest.raises(SecretBackendError):
            store.get("ann", "token")
    backend.kept["wasmrt/ann", ".names"] = "{}"
    with pytest.raises(SecretBackendError):
        store.list("ann")
