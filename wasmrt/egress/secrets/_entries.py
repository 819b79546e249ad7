"""Rules shared by all backends: names, expiry, no fallback user. A backend only loads and stores entries."""

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
    check_user,
    checked_name,
    set_command,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored secret, with its times in Unix seconds."""

    secret: Secret
    created_at: float
    expires_at: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the entry for a backend that protects it. It contains the value, so never log it."""
        return {"value": self.secret.reveal(), "created_at": self.created_at, "expires_at": self.expires_at}

    @classmethod
    def from_json(cls, data: object) -> Entry:
        """Read the output of `as_json`.

        Raises:
            SecretBackendError: the data has a different form.
        """
        if isinstance(data, dict) and data.keys() == {"value", "created_at", "expires_at"}:
            value, created, expires = data["value"], data["created_at"], data["expires_at"]
            if isinstance(value, str) and _is_time(created) and (expires is None or _is_time(expires)):
                return cls(Secret(value), created, expires)
        raise SecretBackendError("a stored secret has a form that this version does not know")


class EntryStore(ABC):
    """A `SecretsStore` built on four primitives; `now` returns Unix seconds."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def get(self, user: str, name: str) -> Secret:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""
        user, name = check_user(user), checked_name(name)
        entry = self._read(user, name)
        if entry is None:
            # SECURITY: another user's secrets are never read. A fallback to a default user would leak across tenants.
            raise SecretNotFoundError(f"the secret {name} is not set", hint=f"run: {set_command(user, name)}")
        if self._is_expired(entry):
            raise SecretExpiredError(f"the secret {name} has expired", hint=f"run: {set_command(user, name)}")
        return entry.secret

    def set(self, user: str, name: str, secret: Secret, *, expires_at: float | None = None) -> None:
        """Store `secret` and replace an older value; `expires_at` is in Unix seconds."""
        user, name = check_user(user), checked_name(name)
        if expires_at is not None and not _is_time(expires_at):
            raise SecretError("expires_at must be in Unix seconds", code="secret-expiry")
        self._write(user, name, Entry(secret, self._now(), expires_at))

    def remove(self, user: str, name: str) -> None:
        """Delete the secret and its companion, or raise `SecretNotFoundError`."""
        user, name = check_user(user), checked_name(name)
        if not self._delete(user, name):
            raise SecretNotFoundError(f"the secret {name} is not set", hint="run wasmrt secret list to see the names")
        if not name.endswith(OAUTH_SUFFIX):
            self._delete(user, name + OAUTH_SUFFIX)

    def list(self, user: str) -> tuple[SecretInfo, ...]:
        """Return names and times, sorted by name, without companions."""
        user = check_user(user)
        infos = []
        for name in sorted(self._names(user)):
            if not name.endswith(OAUTH_SUFFIX) and (entry := self._read(user, name)) is not None:
                infos.append(SecretInfo(name, entry.created_at, entry.expires_at))
        return tuple(infos)

    def exists(self, user: str, name: str) -> bool:
        """Return whether the secret is set and has not expired."""
        entry = self._read(check_user(user), checked_name(name))
        return entry is not None and not self._is_expired(entry)

    def _is_expired(self, entry: Entry) -> bool:
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
