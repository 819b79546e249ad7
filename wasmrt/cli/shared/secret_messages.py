"""The secrets store of commands, and messages about it: its backend, warnings for the person who sets a secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import SecretError
from wasmrt.egress.secrets import FileSecrets, Secret, SecretsStore, backend_of, check_usable

_MAX_NAMED = 8


def store() -> SecretsStore:
    """Return the secrets store of this installation."""
    return open_secrets()


def describe_backend(kept: SecretsStore) -> str:
    """Return the backend in words."""
    name = backend_of(kept)
    if name == "environment":
        return f"{name}, the variables WASMRT_SECRET_*"
    if not isinstance(kept, FileSecrets):
        return name
    key = "a passphrase" if kept.key_path is None else str(kept.key_path)
    return f"{name}, {kept.path}, encrypted with {key}"


def new_file_warning(kept: SecretsStore) -> str | None:
    """Return a warning where the next secret makes the encrypted file, with its key beside it; None elsewhere."""
    if not isinstance(kept, FileSecrets) or kept.key_path is None or not kept.is_new:
        return None
    return (
        f"secrets are kept encrypted in {kept.path}, with the key in {kept.key_path}: a backup of the folder has both; "
        "for a passphrase instead, delete both, set WASMRT_SECRETS_PASSPHRASE and set the secret again"
    )


def check_all(found: Mapping[str, Secret]) -> list[str]:
    """Return a sentence for each value that only some places of a request can hold.

    Raises:
        SecretError: no place could hold one of them; nothing is to be set then.
    """
    sentences, refused = [], {}
    for name, value in found.items():
        try:
            sentences.append(check_usable(name, value))
        except SecretError as error:
            refused[name] = error
    if len(refused) == 1 and len(found) == 1:
        raise next(iter(refused.values()))
    if refused:
        first = next(iter(refused.values()))
        others = [f"--only {name}" for name in found if name not in refused]
        raise SecretError(
            first.message + (f"; the same is true of {_listed([*refused][1:])}" if len(refused) > 1 else ""),
            code=first.code,
            hint=f"nothing was set; take what is a secret: {' '.join(others[:_MAX_NAMED])}" if others else first.hint,
        )
    return [sentence for sentence in sentences if sentence is not None]


def _listed(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def print_warnings(sentences: Iterable[str]) -> None:
    """Print each as a warning, on stderr."""
    for sentence in sentences:
        print_message(f"warning: {sentence}")
