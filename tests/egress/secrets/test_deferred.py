"""A store that is selected on first use: the same store as otherwise, and selected once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from wasmrt.core.errors import ConfigurationError, SecretNotFoundError
from wasmrt.egress.secrets import DeferredSecrets, EnvironmentSecrets, FileSecrets, Secret, SecretsStore, open_store
from wasmrt.egress.secrets import _choose as choose


def later(home: Path) -> SecretsStore:
    return choose.open_store_later(home)


def test_the_deferred_store_is_the_one_that_open_store_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WASMRT_SECRETS_BACKEND", raising=False)
    monkeypatch.setattr(choose, "usable_keyring", lambda: None)
    store = later(tmp_path)
    assert isinstance(store, DeferredSecrets) and not list(tmp_path.iterdir())
    store.set("ann", "token", Secret("abc"))
    assert store.get("ann", "TOKEN").reveal() == "abc" and store.exists("ann", "token")
    assert [info.name for info in store.list("ann")] == ["token"]
    assert open_store(tmp_path).exists("ann", "token")
    store.remove("ann", "token")
    with pytest.raises(SecretNotFoundError):
        store.get("ann", "token")


def test_a_store_that_needs_no_keyring_is_opened_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "environment")
    assert isinstance(later(tmp_path), EnvironmentSecrets)
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "nothing")
    with pytest.raises(ConfigurationError):
        later(tmp_path)
    monkeypatch.delenv("WASMRT_SECRETS_BACKEND")
    (tmp_path / "secrets").touch()
    assert isinstance(later(tmp_path), FileSecrets)


def test_many_threads_select_the_store_once() -> None:
    chosen: list[SecretsStore] = []

    def one() -> SecretsStore:
        chosen.append(EnvironmentSecrets({}))
        return chosen[-1]

    store = DeferredSecrets(one)
    threads = [threading.Thread(target=store.exists, args=("ann", "token")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(chosen) == 1 and store.chosen is chosen[0]
