"""Secrets from environment variables: for CI and containers. Read-only, and for one user."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from wasmrt.core.errors import SecretBackendError
from wasmrt.egress.secrets._entries import Entry, EntryStore
from wasmrt.egress.secrets._types import DEFAULT_USER, OAUTH_SUFFIX, Secret

PREFIX = "WASMRT_SECRET_"


class EnvironmentSecrets(EntryStore):
    """Reads `example_token` from `WASMRT_SECRET_EXAMPLE_TOKEN`, for `user` and for nobody else.

    The prefix is the point: without one, any variable of the host could be asked for by name.
    """

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
        value = self._environ.get(_variable(name))
        return Entry(Secret(value), self._since) if value else None

    def _names(self, user: str) -> Iterable[str]:
        if user != self._user:
            return ()
        return [key[len(PREFIX) :].lower() for key in self._environ if key.startswith(PREFIX)]

    def _write(self, user: str, name: str, entry: Entry) -> NoReturn:
        raise SecretBackendError(
            "secrets from the environment are read-only",
            hint=f"set the variable {_variable(name)} before wasmrt starts",
        )

    def _delete(self, user: str, name: str) -> bool:
        if self._read(user, name) is None:
            return False
        raise SecretBackendError("secrets from the environment are read-only", hint="unset the variable")


def _variable(name: str) -> str:
    return PREFIX + name.upper().replace("-", "_").replace(".", "_")
