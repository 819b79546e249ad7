"""A store that is chosen when it is first used: looking for a keyring loads more than most programs that use none."""

from __future__ import annotations

import threading
from collections.abc import Callable

from wasmrt.egress.secrets._types import Secret, SecretInfo, SecretsStore


class DeferredSecrets:
    """Stands for the store that `choose` returns, and calls it once, from whichever thread comes first.

    Every method raises what `choose` raises, and then what the store does.
    """

    def __init__(self, choose: Callable[[], SecretsStore]) -> None:
        self._choose = choose
        self._lock = threading.Lock()
        self._chosen: SecretsStore | None = None

    @property
    def chosen(self) -> SecretsStore:
        """The store itself."""
        with self._lock:
            if self._chosen is None:
                self._chosen = self._choose()
            return self._chosen

    def get(self, user: str, name: str) -> Secret:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""
        return self.chosen.get(user, name)

    def set(self, user: str, name: str, secret: Secret, *, expires_at: float | None = None) -> None:
        """Keep `secret`, replacing an older one; `expires_at` is in Unix seconds."""
        self.chosen.set(user, name, secret, expires_at=expires_at)

    def remove(self, user: str, name: str) -> None:
        """Forget the secret, or raise `SecretNotFoundError`."""
        self.chosen.remove(user, name)

    def list(self, user: str) -> tuple[SecretInfo, ...]:
        """Return names and ages, sorted by name."""
        return self.chosen.list(user)

    def exists(self, user: str, name: str) -> bool:
        """Tell whether the secret is there and not expired."""
        return self.chosen.exists(user, name)
