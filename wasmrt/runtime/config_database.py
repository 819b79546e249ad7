"""The section [database] of the operator's configuration file: a database that several hosts share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from blake3 import blake3

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import is_secret_name
from wasmrt.core.strict_toml import ValueReader, make_keyed_reader
from wasmrt.runtime.config_values import boolean_reader

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

ReadSecret = Callable[[str], str]
_MIN_KEY_CHARS = 32
_KEY_CONTEXT = "wasmrt 2026-11 key of confirmation tokens"
_CATALOG_CONTEXT = "wasmrt 2026-11 key of the shared catalog"
_STATE_CONTEXT = "wasmrt 2026-11 key of MCP request states"


class DatabaseSettings(NamedTuple):
    """The section [database]. Without a URL, each store is a SQLite file of this installation."""

    url: str | None = None
    """A postgresql:// URL, which may contain a password."""
    password_secret: str | None = None
    """Name of the secret with the password."""
    key_secret: str | None = None
    """Name of the secret from which keys that hosts share are derived; None for keys of this host."""
    unsafe_without_tls: bool = False
    catalog: bool = False
    """Share the catalog of tools and grants, too, authenticated with a key derived from `key_secret`."""

    def place(self, file: Path, read_secret: ReadSecret) -> Path | Postgres:
        """Return where a store is: in the database, or else in `file`.

        Raises:
            ConfigurationError: the URL is invalid, or the extra `postgres` is missing.
        """
        if self.url is None:
            return file
        try:
            from wasmrt.core.postgres import Postgres
        except ImportError:
            hint = "pip install 'wasmrt[postgres]'"
            raise ConfigurationError("the database needs the package psycopg", hint=hint) from None
        name = self.password_secret
        password = None if name is None else lambda: read_secret(name)
        return Postgres(self.url, password, unsafe_without_tls=self.unsafe_without_tls)

    def key(self, file: Path, read_secret: ReadSecret) -> Path | Callable[[], bytes]:
        """Return the key of confirmation tokens, which hosts share if it is a secret: the file, or a function."""
        name = self.key_secret
        return file if name is None else lambda: _derive_key(name, read_secret(name), _KEY_CONTEXT)

    def state_key(self, read_secret: ReadSecret) -> bytes | None:
        """Return the key of MCP request states, which hosts share if it is a secret; None for a key of each process."""
        name = self.key_secret
        return None if name is None else _derive_key(name, read_secret(name), _STATE_CONTEXT)

    def shared_catalog(self, read_secret: ReadSecret) -> tuple[Postgres, Callable[[], bytes]] | None:
        """Return the place and the key of the catalog that hosts share, or None if each host has its own.

        Raises:
            ConfigurationError: there is no URL or no key, or see `place`.
        """
        if not self.catalog:
            return None
        place, name = self.place(Path(), read_secret), self.key_secret
        # SECURITY: without a key, everyone who can write the database could grant access to a tool on every host.
        if name is None or isinstance(place, Path):
            missing = "url" if isinstance(place, Path) else "key_secret"
            hint = f"set database.{missing}, or unset database.catalog"
            raise ConfigurationError(f"database.catalog requires database.{missing}", hint=hint)
        return place, lambda: _derive_key(name, read_secret(name), _CATALOG_CONTEXT)


def _derive_key(name: str, secret: str, context: str) -> bytes:
    if len(secret) < _MIN_KEY_CHARS:
        hint = f"openssl rand -hex 32 | wasmrt secret set {name}"
        raise ConfigurationError(f"the secret {name} must have at least {_MIN_KEY_CHARS} characters", hint=hint)
    return blake3(secret.encode(), derive_key_context=context).digest()


def _read_url(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith(("postgresql://", "postgres://")):
        # The value may contain a password, so it is not part of the message.
        hint = 'write it like url = "postgresql://wasmrt@db.example.com/wasmrt"'
        raise ConfigurationError("must be a PostgreSQL URL", hint=hint)
    return value


def _read_name(value: Any) -> str:
    if not isinstance(value, str) or not is_secret_name(value):
        raise ConfigurationError("must be the name of a secret", hint='write it like "database_password"')
    return value


DATABASE_SECTION: dict[str, dict[str, ValueReader]] = {
    "database": {
        "url": make_keyed_reader("url", _read_url),
        "password_secret": make_keyed_reader("password_secret", _read_name),
        "key_secret": make_keyed_reader("key_secret", _read_name),
        "unsafe_without_tls": boolean_reader("unsafe_without_tls"),
        "catalog": boolean_reader("catalog"),
    }
}
