"""Read secrets from environment variables and .env files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from io import StringIO
from typing import NoReturn

from wasmrt.core.errors import SecretBackendError, SecretError
from wasmrt.core.limits import MAX_ENV_FILE_BYTES
from wasmrt.egress.secrets._types import DEFAULT_USER, OAUTH_SUFFIX, Entry, EntryStore, Secret, normalize_secret_name

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def parse_env_file(text: str) -> tuple[tuple[str, Secret], ...]:
    """Return the assignments of a .env file as pairs of a lower-case name and a secret. Omit empty values.

    The syntax is python-dotenv's: comments, `export`, quotes, escapes, and multi-line values in quotes. Variables are
    not expanded.

    Raises:
        SecretError: a line is invalid, a name is set twice, or the file is too long. The message contains the number of
            the line, but never its text.
    """
    from dotenv.parser import parse_stream  # imported here because only one command needs it

    if len(text.encode(errors="replace")) > MAX_ENV_FILE_BYTES:
        raise SecretError(f"a .env file must have at most {MAX_ENV_FILE_BYTES} bytes", code="env-file")
    found: dict[str, Secret] = {}
    for binding in parse_stream(StringIO(text.removeprefix("\ufeff"))):
        if binding.key is None and not binding.error:
            continue  # a comment or an empty line
        source = binding.original.string
        number = binding.original.line + source[: len(source) - len(source.lstrip())].count("\n")
        if binding.error or binding.value is None or not _NAME.fullmatch(binding.key or ""):
            raise SecretError(
                f"line {number} of the .env file is not of the form NAME=value",
                code="env-file",
                hint="write one variable per line",
            )
        name = normalize_secret_name(binding.key or "")
        if name in found:
            raise SecretError(f"line {number} of the .env file sets the secret {name} a second time", code="env-file")
        if binding.value:
            found[name] = Secret(binding.value)
    return tuple(found.items())


PREFIX = "WASMRT_SECRET_"


class EnvironmentSecrets(EntryStore):
    """A read-only store of environment variables: the secret `example_token` is in `WASMRT_SECRET_EXAMPLE_TOKEN`.

    Only `user` has secrets.

    SECURITY: because of the prefix, no other variable of the host can be requested as a secret.
    """

    backend = "environment"
    read_only = "the environment"

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        user: str = DEFAULT_USER,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(now=now)
        self._environ = os.environ if environ is None else environ
        self._user = user
        self._since = now()

    def _read(self, user: str, name: str) -> Entry | None:
        if user != self._user or name.endswith(OAUTH_SUFFIX):
            return None
        value = self._environ.get(_get_variable(name))
        return Entry(Secret(value), self._since) if value else None

    def _names(self, user: str) -> Iterable[str]:
        if user != self._user:
            return ()
        return [key[len(PREFIX) :].lower() for key in self._environ if key.startswith(PREFIX)]

    def hint_to_set(self, user: str, name: str) -> str:
        """Return the variable that sets a secret."""
        return f"set the variable {_get_variable(name)} before wasmrt starts"

    def _delete(self, user: str, name: str) -> NoReturn:
        raise SecretBackendError(
            "secrets from the environment are read-only", hint=f"unset the variable {_get_variable(name)}"
        )


def _get_variable(name: str) -> str:
    return PREFIX + name.upper().replace("-", "_").replace(".", "_")
