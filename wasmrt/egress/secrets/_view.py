"""One user's secrets, as a call sees them."""

from __future__ import annotations

from dataclasses import dataclass

from wasmrt.egress.secrets._types import Secret, SecretsStore


@dataclass(frozen=True, slots=True)
class UserSecrets:
    """A store seen by one user: a call is given this and can ask for nobody else's."""

    store: SecretsStore
    user: str

    def get(self, name: str) -> Secret:
        """Return the secret, or raise `SecretNotFoundError` or `SecretExpiredError`."""
        return self.store.get(self.user, name)

    def exists(self, name: str) -> bool:
        """Tell whether the secret is there and not expired."""
        return self.store.exists(self.user, name)

    def renewed(self, name: str) -> Secret | None:
        """Return a newer value after the server refused this one. A plain secret has none."""
        return None
