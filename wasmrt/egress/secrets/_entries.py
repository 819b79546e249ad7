"""The rules every backend shares: names, expiry, no fallback. A backend only loads and keeps entries."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from wasmrt.core.errors import SecretBackendError, SecretError, SecretExpiredError, SecretNotFoundError
from wasmrt.egress.secrets._types import (
    OAUTH_SUFFIX,
    Secret,
    SecretInfo,
    checked_name,
    checked_user,
    set_command,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored secret with its ages in Unix seconds."""

    secret: Secret
    created_at: float
    expires_at: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the entry for a backend that protects it. Holds the value: never for a log."""
        return {"value": self.secret.reveal(), "created_at": self.created_at, "expires_at": self.expires_at}

    @classmethod
    def from_json(cls, data: object) -> Entry:
        """Read the output of `as_json`.

        Raises:
            SecretBackendError: it is something else.
        """
        if isinstance(data, dict) and data.keys() == {"value", "created_at", "expires_at"}:
            value, created, expires = data["value"], data["created_at"], data["expires_at"]
            if isinstance(value, str) and _is_time(created) and (expires is None or _is_time(expires)):
                return cls(Secret(value), created, expires)
        raise SecretBackendError("a stored secret has a form this version does not know")


class EntryStore(ABC):
    """A `SecretsStore` over four primitives; `now` returns Unix seconds."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def get(self, user: str, name: str) -> Secret:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""
        user, name = checked_user(user), checked_name(name)
        entry = self._read(user, name)
        if entry is None:
            # SECURITY: no other user's secrets are read. A fallback to a default user leaks across tenants.
            raise SecretNotFoundError(f"the secret {name} is not set", hint=f"run: {set_command(user, name)}")
        if self._expired(entry):
            raise SecretExpiredError(f"the secret {name} has expired", hint=f"run: {set_command(user, name)}")
        return entry.secret

    def set(self, user: str, name: str, secret: Secret, *, expires_at: float | None = None) -> None:
        """Keep `secret`, replacing an older one; `expires_at` is in Unix seconds."""
        user, name = checked_user(user), checked_name(name)
        if expires_at is not None and not _is_time(expires_at):
            raise SecretError("expires_at is in Unix seconds", code="secret-expiry")
        self._write(user, name, Entry(secret, self._now(), expires_at))

    def remove(self, user: str, name: str) -> None:
        """Forget the secret and its companion, or raise `SecretNotFoundError`."""
        user, name = checked_user(user), checked_name(name)
        if not self._delete(user, name):
            raise SecretNotFoundError(f"the secret {name} is not set", hint="wasmrt secret list shows which are")
        if not name.endswith(OAUTH_SUFFIX):
            self._delete(user, name + OAUTH_SUFFIX)

    def list(self, user: str) -> tuple[SecretInfo, ...]:
        """Return names and ages, sorted by name, without companions."""
        user = checked_user(user)
        infos = []
        for name in sorted(self._names(user)):
            if not name.endswith(OAUTH_SUFFIX) and (entry := self._read(user, name)) is not None:
                infos.append(SecretInfo(name, entry.created_at, entry.expires_at))
        return tuple(infos)

    def exists(self, user: str, name: str) -> bool:
        """Return whether the secret is there and not expired."""
        entry = self._read(checked_user(user), checked_name(name))
        return entry is not None and not self._expired(entry)

    def _expired(self, entry: Entry) -> bool:
        return entry.expires_at is not None and entry.expires_at <= self._now()

    @abstractmethod
    def _read(self, user: str, name: str) -> Entry | None: ...

    @abstractmethod
    def _write(self, user: str, name: str, entry: Entry) -> None: ...

    @abstractmethod
    def _delete(self, user: str, name: str) -> bool: ...

    @abstractmethod
    def _names(self, user: str) -> Iterable[str]: ...


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
