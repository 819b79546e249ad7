"""Choose the secrets store from the settings, and open it now or on first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean
from wasmrt.core.setting_commands import set_command
from wasmrt.egress.secrets._command import CommandSecrets
from wasmrt.egress.secrets._environment import EnvironmentSecrets
from wasmrt.egress.secrets._file import FileKey, FileSecrets
from wasmrt.egress.secrets._keyring import KeyringSecrets, usable_keyring
from wasmrt.egress.secrets._types import EntryStore, Secret, SecretInfo, SecretsStore


class DeferredSecrets:
    """A store that `choose` opens on first use, once for all threads.

    Every method may raise the errors of `choose` and of the store.
    """

    def __init__(self, choose: Callable[[], SecretsStore]) -> None:
        self._choose = choose
        self._lock = threading.Lock()
        self._chosen: SecretsStore | None = None

    @property
    def chosen(self) -> SecretsStore:
        """The opened store. The first access opens it."""
        with self._lock:
            if self._chosen is None:
                self._chosen = self._choose()
            return self._chosen

    def get(self, user: str, name: str) -> Secret:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""
        return self.chosen.get(user, name)

    def set(self, user: str, name: str, secret: Secret, *, expires_at: float | None = None) -> None:
        """Store `secret` and replace an older value; `expires_at` is in Unix seconds."""
        self.chosen.set(user, name, secret, expires_at=expires_at)

    def remove(self, user: str, name: str) -> None:
        """Delete the secret, or raise `SecretNotFoundError`."""
        self.chosen.remove(user, name)

    def list(self, user: str) -> tuple[SecretInfo, ...]:
        """Return the names and times of the user's secrets, sorted by name."""
        return self.chosen.list(user)

    def exists(self, user: str, name: str) -> bool:
        """Return whether the secret is set and has not expired."""
        return self.chosen.exists(user, name)

    def hint_to_set(self, user: str, name: str) -> str:
        """Return an instruction for setting a secret in this store, such as a command."""
        return self.chosen.hint_to_set(user, name)

    def check_writable(self, user: str, name: str) -> None:
        """Raise `SecretBackendError` if the store is read-only."""
        self.chosen.check_writable(user, name)


BACKENDS = ("auto", "keyring", "file", "environment", "command", "vault")


def open_store(
    home: Path,
    *,
    backend: str | None = None,
    command: Sequence[str] = (),
    vault: Callable[[], SecretsStore] | None = None,
    environ: Mapping[str, str] | None = None,
) -> SecretsStore:
    """Open the secrets store of this installation, whose data directory is `home`.

    The backend is `backend` if given, else the value of the variable WASMRT_SECRETS_BACKEND, else `auto`. `auto`
    selects the desktop's keyring, or an encrypted file if there is no keyring or the file already exists. The file is
    encrypted with the passphrase in WASMRT_SECRETS_PASSPHRASE, or else with a key file in the same directory. The
    backend `command` runs `command`, in which `{name}` stands for the name of the secret. The backend `vault` is opened
    by the function `vault`.

    Raises:
        ConfigurationError: no backend has this name, or the backend `command` or `vault` lacks its settings.
        SecretBackendError: the selected backend cannot be used.

    Examples:
        >>> from pathlib import Path
        >>> from wasmrt import open_store
        >>> store = open_store(Path("data"), backend="file")
        >>> store.list("ann")
        ()
    """
    environ = os.environ if environ is None else environ
    chosen = backend or environ.get("WASMRT_SECRETS_BACKEND") or "auto"
    if chosen not in BACKENDS:
        raise ConfigurationError(f"there is no secrets backend {chosen[:64]!r}", hint=_backend_hint(chosen))
    if chosen == "environment":
        return EnvironmentSecrets(environ)
    if chosen == "command":
        return CommandSecrets(command)
    if chosen == "vault":
        if vault is None:
            hint = f"run: {set_command('secrets.vault_address', 'https://vault.example.com:8200')}"
            raise ConfigurationError("the secrets backend 'vault' needs the address of the server", hint=hint)
        return vault()
    if chosen == "keyring":
        return KeyringSecrets()
    # An existing file stays in use: secrets must not vanish when a desktop session starts.
    path = home / "secrets"
    if chosen == "auto" and not path.exists() and (keyring := usable_keyring()) is not None:
        return KeyringSecrets(keyring)
    passphrase = environ.get("WASMRT_SECRETS_PASSPHRASE")
    key = FileKey(passphrase=passphrase) if passphrase else FileKey(path=home / "secrets.key")
    return FileSecrets(path, key)


def open_store_later(
    home: Path,
    *,
    backend: str | None = None,
    command: Sequence[str] = (),
    vault: Callable[[], SecretsStore] | None = None,
) -> SecretsStore:
    """Return the same store as `open_store`. If a keyring must be searched for, do this when the store is first used.

    Raises:
        ConfigurationError, SecretBackendError: see `open_store`.
    """
    automatic = (backend or os.environ.get("WASMRT_SECRETS_BACKEND") or "auto") == "auto"
    if automatic and not (home / "secrets").exists():
        return DeferredSecrets(lambda: open_store(home, backend=backend))
    return open_store(home, backend=backend, command=command, vault=vault)


def _backend_hint(chosen: str) -> str:
    near = did_you_mean(chosen, BACKENDS)
    choices = f"choose one of {', '.join(BACKENDS)}"
    return f"did you mean {near}? {choices}" if near else choices


def name_backend(store: SecretsStore) -> str:
    """Return the name in `BACKENDS` of the backend of `store`. For a custom store, return the name of its type."""
    own = store.backend if isinstance(store, EntryStore) else ""
    return own or type(store).__name__
