"""The `Secret` type and the stores of secrets. Access decisions are made elsewhere.

Only this package imports keyring and cryptography, and only if a backend needs them.
"""

from wasmrt.egress.secrets._choose import BACKENDS, DeferredSecrets, name_backend, open_store, open_store_later
from wasmrt.egress.secrets._command import CommandSecrets, read_command_output
from wasmrt.egress.secrets._docker import find_registry_login
from wasmrt.egress.secrets._environment import EnvironmentSecrets, parse_env_file
from wasmrt.egress.secrets._file import FileKey, FileSecrets
from wasmrt.egress.secrets._keyring import KeyringSecrets
from wasmrt.egress.secrets._types import (
    DEFAULT_USER,
    OAUTH_SUFFIX,
    Entry,
    EntryStore,
    Secret,
    SecretInfo,
    SecretsStore,
    UserSecrets,
    check_usable,
    check_user,
    normalize_secret_name,
    replace_secret,
    set_command,
)

__all__ = [
    "BACKENDS",
    "DEFAULT_USER",
    "OAUTH_SUFFIX",
    "CommandSecrets",
    "DeferredSecrets",
    "Entry",
    "EntryStore",
    "EnvironmentSecrets",
    "FileKey",
    "FileSecrets",
    "KeyringSecrets",
    "Secret",
    "SecretInfo",
    "SecretsStore",
    "UserSecrets",
    "check_usable",
    "check_user",
    "find_registry_login",
    "name_backend",
    "normalize_secret_name",
    "open_store",
    "open_store_later",
    "parse_env_file",
    "read_command_output",
    "replace_secret",
    "set_command",
]  # fmt: skip
