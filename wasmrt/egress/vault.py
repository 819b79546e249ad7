"""Read secrets from HashiCorp Vault or OpenBao: the key-value engine, version 2, over HTTPS."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import NoReturn

from wasmrt.core.errors import ConfigurationError, SecretBackendError
from wasmrt.core.files import read_file
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_OWN_RESPONSE_BYTES, MAX_SECRET_BYTES, VAULT_SECONDS
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.core.url import InvalidUrlError, parse_url
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpResponse, NetworkConfig
from wasmrt.egress.secrets import DEFAULT_USER, OAUTH_SUFFIX, Entry, EntryStore, Secret, read_command_output

TOKEN_VARIABLE = "VAULT_TOKEN"  # noqa: S105 - the name of a variable
_NAME, _USER = "{name}", "{user}"
_MAX_PATH_CHARS = 512
_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
_FIELD = re.compile(r"[ -~]{1,128}")
_KNOWN_USER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.@-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultSettings:
    """The settings `vault_...` of the section [secrets].

    Raises:
        ConfigurationError: a value is not valid.
    """

    address: str = ""
    """The https URL of the server, without a path."""
    mount: str = "secret"
    """The path of the key-value engine, version 2."""
    path: str = "wasmrt/{name}"
    """The path of a secret in the engine. `{name}` stands for the secret's name, and `{user}` for the user."""
    field: str = "value"
    """The field of the secret that contains the value."""
    namespace: str = ""
    token_file: Path | None = None
    """A private file with the token."""
    token_command: tuple[str, ...] = ()
    """A command that prints the token. Without a file or command, the token is in the variable VAULT_TOKEN."""

    def __post_init__(self) -> None:
        if self.address:
            _check_address(self.address)
        path = self.path.replace(_NAME, "x").replace(_USER, "x")
        for key, value in (("mount", self.mount), ("path", path), ("namespace", self.namespace or "x")):
            if len(value) > _MAX_PATH_CHARS or not _PATH.fullmatch(value):
                raise ConfigurationError(
                    f"vault_{key} must be a path of letters, digits and _ . - without a leading slash",
                    hint=f"write it like {_EXAMPLES[key]}",
                )
        if _NAME not in self.path:
            raise ConfigurationError("vault_path must contain {name}", hint=f"write it like {_EXAMPLES['path']}")
        if not _FIELD.fullmatch(self.field):
            raise ConfigurationError("vault_field must be a name of 1 to 128 characters", hint="write it like value")


_EXAMPLES = {"mount": "secret", "path": "wasmrt/{user}/{name}", "namespace": "team/agents"}


def _check_address(address: str) -> None:
    hint = "write it like https://vault.example.com:8200"
    try:
        url = parse_url(address)
    except InvalidUrlError as error:
        raise ConfigurationError(f"vault_address is not a valid URL: {error.message}", hint=hint) from None
    # SECURITY: the token and the secrets are sent over TLS only.
    if url.scheme != "https" or url.target != "/":
        raise ConfigurationError("vault_address must be an https URL without a path", hint=hint)


class VaultSecrets(EntryStore):
    """A read-only store: every use of a secret reads it from the server.

    If the path does not contain `{user}`, only the user `local` has secrets.

    SECURITY: the operator chooses the address, and TLS authenticates the server, so it may be in an internal network;
    tools do not get access to that network. Responses and the token are neither logged nor part of a message.
    """

    backend = "vault"
    read_only = "Vault"
    lists_names = False

    def __init__(
        self,
        settings: VaultSettings,
        network: NetworkConfig,
        *,
        environ: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(now=now)
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._gateway = EgressGateway(replace(network, unsafe_allowed_networks=("0.0.0.0/0", "::/0")))

    def close(self) -> None:
        """Close the connections to the server."""
        self._gateway.close()

    def _read(self, user: str, name: str) -> Entry | None:
        if name.endswith(OAUTH_SUFFIX) or not self._has_secrets(user):
            return None
        path = f"{self._settings.mount}/data/{self._path(user.replace('@', '%40'), name)}"
        response = self._request(f"/v1/{path}")
        if response.status == 404:
            return None
        if response.status != 200:
            raise _status_error(response.status, path)
        return Entry(self._value(response, name), self._now())

    def _path(self, user: str, name: str) -> str:
        return self._settings.path.replace(_USER, user).replace(_NAME, name)

    def _has_secrets(self, user: str) -> bool:
        # SECURITY: without {user}, all users would have the same secrets. A user with a slash or a leading dot could
        # name the path of another user.
        if _USER not in self._settings.path:
            return user == DEFAULT_USER
        return _KNOWN_USER.fullmatch(user) is not None

    def _request(self, path: str) -> HttpResponse:
        settings = self._settings
        namespace = (("X-Vault-Namespace", settings.namespace),) if settings.namespace else ()
        headers = (("X-Vault-Token", self._token()), ("X-Vault-Request", "true"), *namespace)
        address = settings.address.removesuffix("/")
        try:
            return self._gateway.send_own("GET", f"{address}{path}", headers, None, timeout_seconds=VAULT_SECONDS)
        except HttpFailure as failure:
            hint = failure.hint or "check secrets.vault_address, and that the server runs"
            raise SecretBackendError(f"Vault cannot be reached: {failure.message}", hint=hint) from None

    def _token(self) -> str:
        settings = self._settings
        if settings.token_file is not None:
            try:
                data = read_file(settings.token_file, max_bytes=MAX_SECRET_BYTES, follow_link=True, private=True)
            except OSError as error:
                hint = "the file in secrets.vault_token_file must exist, belong to you and have the mode 0600"
                raise SecretBackendError(f"the token for Vault cannot be read ({error.strerror})", hint=hint) from None
            token = data.decode("ascii", "replace")
        elif settings.token_command:
            hint = "check the program: wasmrt config get secrets.vault_token_command"
            token = read_command_output(settings.token_command, hint=hint, timeout_seconds=VAULT_SECONDS)
        else:
            token = self._environ.get(TOKEN_VARIABLE, "")
        token = token.strip()
        if not token or not all("!" <= char <= "~" for char in token):
            raise SecretBackendError(
                "there is no valid token for Vault",
                hint=f"set {TOKEN_VARIABLE}, secrets.vault_token_file or secrets.vault_token_command",
            )
        return token

    def _value(self, response: HttpResponse, name: str) -> Secret:
        try:
            found = read_json(
                response.body, max_bytes=MAX_OWN_RESPONSE_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS
            )
            fields = found["data"]["data"]
        except (JsonError, KeyError, TypeError):
            fields = None
        if not isinstance(fields, dict):
            hint = "secrets.vault_mount must be a key-value engine, version 2"
            raise SecretBackendError("Vault's response is not a secret of the key-value engine", hint=hint)
        value = fields.get(self._settings.field)
        if not isinstance(value, str):
            hint = "store the value in this field, or set secrets.vault_field"
            raise SecretBackendError(
                f"the secret {name} in Vault has no field {self._settings.field!r} that contains text", hint=hint
            )
        return Secret(value)

    def _names(self, user: str) -> Iterable[str]:
        return ()  # the token may not be allowed to list

    def hint_to_set(self, user: str, name: str) -> str:
        """Return the command of Vault that sets a secret."""
        path, field = quote(self._path(user, name)), quote(f"{self._settings.field}=-")
        return f"run: vault kv put -mount={self._settings.mount} {path} {field}"

    def _delete(self, user: str, name: str) -> NoReturn:
        raise SecretBackendError("secrets from Vault are read-only", hint="delete it with Vault's own client")


def _status_error(status: int, path: str) -> SecretBackendError:
    if status == 403:
        hint = f"the token must be valid, and its policy must allow read on {path}"
        return SecretBackendError("Vault denied access to the secret", hint=hint)
    if status == 503:
        return SecretBackendError("Vault is sealed or in maintenance", hint="unseal it, then try again")
    hint = "check secrets.vault_address and secrets.vault_mount; redirects are not followed"
    return SecretBackendError(f"Vault returned status {status}", hint=hint)
