"""The secrets store of this installation, and messages about secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wasmrt.cli.shared.output import print_message
from wasmrt.core.errors import SecretError
from wasmrt.core.places import find_places
from wasmrt.egress.secrets import EntryStore, FileSecrets, Secret, SecretsStore, check_usable, name_backend, open_store

_MAX_NAMED = 8


def open_secrets() -> SecretsStore:
    """Open the configured secrets store, or the default one.

    Raises:
        ConfigurationError, SecretBackendError: the configuration file or the store cannot be used.
    """
    places = find_places()
    if not places.config.exists():
        return open_store(places.data)
    from wasmrt.agent.config import read_config_file  # loads the network modules

    return read_config_file(places.config).open_secrets()


def describe_backend(store: SecretsStore) -> str:
    """Return the name of the backend, with its file and key if it has them."""
    name = name_backend(store)
    if name == "environment":
        return f"{name}, the variables WASMRT_SECRET_*"
    if not isinstance(store, FileSecrets):
        return name
    key = "a passphrase" if store.key_path is None else str(store.key_path)
    return f"{name}, {store.path}, encrypted with {key}"


def describe_no_secrets(store: SecretsStore, user: str) -> str:
    """Return a sentence for an empty list of secrets, with the step that sets a secret."""
    lists = not isinstance(store, EntryStore) or store.lists_names
    problem = f"{user} has no secrets" if lists else "this backend cannot list secrets"
    return f"{problem}; to set one: {store.hint_to_set(user, 'NAME').removeprefix('run: ')}"


def new_file_warning(store: SecretsStore) -> str | None:
    """Return a warning if storing a secret will create an encrypted file whose key is stored next to it, else None."""
    if not isinstance(store, FileSecrets) or store.key_path is None or not store.is_new:
        return None
    return (
        f"secrets are stored encrypted in {store.path}, with the key in {store.key_path}: a backup of the folder has "
        "both; to use a passphrase instead, delete both, set WASMRT_SECRETS_PASSPHRASE and set the secret again"
    )


def check_all(found: Mapping[str, Secret]) -> list[str]:
    """Return a warning for each value that only some parts of a request can carry.

    Raises:
        SecretError: no part of a request can carry one of the values; none of them may be stored.
    """
    warnings, refused = [], {}
    for name, value in found.items():
        try:
            warnings.append(check_usable(name, value))
        except SecretError as error:
            refused[name] = error
    if not refused:
        return [warning for warning in warnings if warning is not None]
    first, *more = refused
    problem = refused[first]
    if len(found) == 1:
        raise problem
    others = [f"--only {name}" for name in found if name not in refused]
    raise SecretError(
        problem.message + (f"; the same is true of {_list_names(more)}" if more else ""),
        code=problem.code,
        hint=f"nothing was set; import only the secrets: {' '.join(others[:_MAX_NAMED])}" if others else problem.hint,
    )


def _list_names(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings on stderr."""
    for warning in warnings:
        print_message(f"warning: {warning}")
