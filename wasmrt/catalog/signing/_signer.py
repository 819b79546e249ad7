"""The signer of a tool, which the first installation pins."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, NamedTuple


class Signer(NamedTuple):
    """The owner of a key, or an identity that an issuer has confirmed (a keyless signature)."""

    key: str = ""
    """The public key: SubjectPublicKeyInfo in base64. The other fields are empty if it is set."""
    identity: str = ""
    """An email address or the URI of a workflow; `*` replaces the name of a tag, which differs in each release."""
    issuer: str = ""
    """The URL of the OpenID Connect provider."""
    repository: str = ""
    """The URI of the source repository, if the identity is a workflow."""
    workflow: str = ""
    """The URI of the workflow that was started, which can call the one in `identity`."""

    @property
    def key_bytes(self) -> bytes:
        """The public key: SubjectPublicKeyInfo."""
        return base64.b64decode(self.key)

    @property
    def hint(self) -> str:
        """The digest that names the key in bundles: SHA-256 in base64."""
        return base64.b64encode(hashlib.sha256(self.key_bytes).digest()).decode()

    def satisfies(self, required: Signer) -> bool:
        """Return whether this is a required signer, which may omit its repository and workflow."""
        return self[:3] == required[:3] and all(
            wanted in ("", found) for found, wanted in zip(self[3:], required[3:], strict=True)
        )

    def __str__(self) -> str:
        if self.key:
            return f"key sha256:{hashlib.sha256(self.key_bytes).hexdigest()[:16]}"
        parts = [self.identity, f"issuer {self.issuer}"]
        if not self.identity.startswith(f"{self.repository}/"):
            parts += [f"repository {self.repository}"] if self.repository else []
        if self.workflow not in ("", self.identity):
            parts.append(f"workflow {self.workflow}")
        return ", ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that have a value, as JSON data."""
        return {name: value for name, value in self._asdict().items() if value}


def without_tag(uri: str) -> str:
    """Return the URI of a workflow with `*` as the name of a tag. Branches remain part of the identity."""
    head, mark, _ = uri.partition("@refs/tags/")
    return f"{head}{mark}*" if mark else uri
