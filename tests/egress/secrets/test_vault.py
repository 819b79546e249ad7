"""Secrets in Vault, read from a fake with its HTTP API over TLS."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from wasmrt.testing import FakeVault, ScriptedServer, http_response

from wasmrt.core.errors import ConfigurationError, SecretBackendError, SecretNotFoundError
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.secrets import Secret, name_backend
from wasmrt.egress.vault import VaultSecrets, VaultSettings
from wasmrt.runtime.config_file import read_file_settings

TOKEN, VALUE = "not-a-real-vault-token", "a value" + " of the vault"
SECRETS = {
    "wasmrt/token": {"value": VALUE, "number": 7},
    "ann/token": {"value": "value of ann"},
    "ann%40example.com/token": {"value": "value of ann by mail"},
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A server's certificate, and the file of the authority that issued it."""
    issuer, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert("localhost").configure_cert(tls)
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    issuer.cert_pem.write_to_path(str(file))
    return tls, file


class World:
    """A server, and the stores that read from it."""

    def __init__(self, server: FakeVault, ca_file: Path) -> None:
        self.server, self.ca_file = server, ca_file
        self._opened: list[VaultSecrets] = []

    def store(self, *, token: str | None = TOKEN, ca_file: Path | None = None, **settings: object) -> VaultSecrets:
        found = VaultSettings(**{"address": self.server.address} | settings)  # type: ignore[arg-type]
        environ = {} if token is None else {"VAULT_TOKEN": token}
        self._opened.append(VaultSecrets(found, NetworkConfig(ca_file=ca_file or self.ca_file), environ=environ))
        return self._opened[-1]

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture
def world(authority: tuple[ssl.SSLContext, Path]) -> Iterator[World]:
    with FakeVault(SECRETS, token=TOKEN, tls=authority[0]) as server:
        world = World(server, authority[1])
        yield world
        world.close()


def refusal(store: VaultSecrets, name: str = "token") -> tuple[str, str]:
    with pytest.raises(SecretBackendError) as caught:
        store.get("local", name)
    assert TOKEN not in str(caught.value) and VALUE not in str(caught.value)
    return caught.value.message, caught.value.hint or ""


def test_a_secret_is_read_with_the_token_at_every_use(world: World) -> None:
    store = world.store(namespace="team")
    assert [store.get("local", "TOKEN").reveal(), store.get("local", "token").reveal()] == [VALUE, VALUE]
    assert [request.target for request in world.server.requests] == ["/v1/secret/data/wasmrt/token"] * 2
    assert world.server.requests[0].header("X-Vault-Namespace") == "team"
    assert not store.exists("local", "other") and not store.exists("local", "token~oauth")
    with pytest.raises(SecretNotFoundError) as caught:
        store.get("local", "other")
    assert caught.value.hint == "run: vault kv put -mount=secret wasmrt/other value=-"


def test_users_read_only_their_own_paths(world: World) -> None:
    shared = world.store()
    assert shared.exists("local", "token") and not shared.exists("ann", "token")
    store = world.store(path="{user}/{name}")
    assert store.get("ann", "token").reveal() == "value of ann"
    assert store.get("ann@example.com", "token").reveal() == "value of ann by mail"
    before = len(world.server.requests)
    for user in ("../ann", "ann/../ann", ".", "..", "a%2F..%2Fann", "ann?x", "ann#x", "{name}"):
        assert not store.exists(user, "token"), user
    assert len(world.server.requests) == before


def test_the_token_comes_from_a_private_file_a_command_or_the_environment(world: World, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    assert world.store(token=None, token_file=file).exists("local", "token")
    command = (sys.executable, "-S", "-c", f"print({TOKEN!r})")
    assert world.store(token=None, token_command=command).exists("local", "token")
    file.chmod(0o644)
    assert "can be read or written by other users" in refusal(world.store(token_file=file))[0]
    assert "set VAULT_TOKEN" in refusal(world.store(token=None))[1]
    assert "no valid token" in refusal(world.store(token="two\nlines"))[0]
    assert "failed with exit status 3" in refusal(world.store(token_command=(sys.executable, "-c", "exit(3)")))[0]


def test_refusals_name_the_cause_and_the_next_step(world: World) -> None:
    assert refusal(world.store(token="another")) == (
        "Vault denied access to the secret",
        "the token must be valid, and its policy must allow read on secret/data/wasmrt/token",
    )
    assert "set secrets.vault_field" in refusal(world.store(field="password"))[1]
    assert "no field 'number' that contains text" in refusal(world.store(field="number"))[0]
    world.server.sealed = True
    assert refusal(world.store()) == ("Vault is sealed or in maintenance", "unseal it, then try again")


def test_a_server_with_an_unknown_certificate_gets_no_token(world: World, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    assert "Vault cannot be reached: the certificate of" in refusal(world.store(ca_file=tmp_path / "other.pem"))[0]
    assert not world.server.requests


def test_a_redirect_is_not_followed(world: World, authority: tuple[ssl.SSLContext, Path]) -> None:
    there = (("Location", f"{world.server.address}/v1/secret/data/wasmrt/token"),)
    with ScriptedServer(lambda *_: http_response(status=307, headers=there), tls=authority[0]) as server:
        store = world.store(address=f"https://localhost:{server.port}")
        assert "redirects are not followed" in refusal(store)[1]
    assert not world.server.requests


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("address", "http://vault.example.com"), ("address", "https://vault.example.com/v1"), ("address", "vault"),
        ("path", "wasmrt/token"), ("path", "../{name}"), ("path", "/{name}"), ("path", "a b/{name}"),
        ("mount", ""), ("mount", "a//b"), ("mount", "../sys"), ("namespace", "a\nb"), ("field", ""),
        ("path", "{name}?x"),
    ],
)  # fmt: skip
def test_unusable_settings_are_refused(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"vault_{key}"):
        VaultSettings(**{key: value})  # type: ignore[arg-type]
    file = tmp_path / "config.toml"
    file.write_text(f'[secrets]\nvault_{key} = """{value}"""\n')
    with pytest.raises(ConfigurationError, match=f"vault_{key}"):
        read_file_settings(file)


def test_the_operators_file_opens_the_store(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    address = f'vault_address = "{world.server.address}"\n'
    network = f'[network]\nca_file = "{world.ca_file}"\n[secrets]\n'
    file.write_text(f'{network}backend = "vault"\n{address}')
    monkeypatch.setenv("VAULT_TOKEN", TOKEN)
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    store = read_file_settings(file).open_secrets()
    assert isinstance(store, VaultSecrets) and name_backend(store) == "vault"
    assert store.get("local", "token").reveal() == VALUE
    store.close()
    with pytest.raises(SecretBackendError, match="read-only"):
        store.set("local", "token", Secret(VALUE))
    file.write_text(network + address)
    with pytest.raises(ConfigurationError, match="only used by the backend 'vault'"):
        read_file_settings(file).open_secrets()
    with monkeypatch.context() as environment:
        environment.setenv("WASMRT_SECRETS_BACKEND", "vault")
        assert name_backend(read_file_settings(file).open_secrets()) == "vault"
    file.write_text('[secrets]\nbackend = "vault"\n')
    with pytest.raises(ConfigurationError) as caught:
        read_file_settings(file).open_secrets()
    assert "wasmrt config set secrets.vault_address" in (caught.value.hint or "")
