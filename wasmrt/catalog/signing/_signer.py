"""The signer of a tool, which the first installation pins."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, NamedTuple


class Signer(NamedTuple):
    """The owner of a key."""

    key: str = ""
    """The public key: SubjectPublicKeyInfo in base64."""

    @property
    def key_bytes(self) -> bytes:
        """The public key: SubjectPublicKeyInfo."""
        return base64.b64decode(self.key)

    @property
    def hint(self) -> str:
        """The digest that names the key in bundles: SHA-256 in base64."""
        return base64.b64encode(hashlib.sha256(self.key_bytes).digest()).decode()

    def __str__(self) -> str:
        return f"key sha256:{hashlib.sha256(self.key_bytes).hexdigest()[:16]}"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that have a value, as JSON data."""
        return {name: value for name, value in self._asdict().items() if value}
