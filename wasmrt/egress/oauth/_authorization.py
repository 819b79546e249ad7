"""The authorization request: what a person opens in a browser. RFC 6749 4.1.1 with PKCE (RFC 7636)."""

from __future__ import annotations

import base64
import hashlib
import secrets as randomness
from dataclasses import dataclass
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True, repr=False)
class AuthorizationRequest:
    """One attempt to log in. Has no repr.

    `state` tells the answer to this attempt from a forged one, `verifier` its code from a stolen one.
    """

    state: str
    verifier: str

    @classmethod
    def new(cls) -> AuthorizationRequest:
        """Return an attempt with random values: 32 and 64 bytes of entropy."""
        return cls(randomness.token_urlsafe(32), randomness.token_urlsafe(64))

    def url(
        self,
        authorization_url: str,
        *,
        client_id: str,
        redirect_uri: str,
        scopes: tuple[str, ...] = (),
        extra_params: tuple[tuple[str, str], ...] = (),
    ) -> str:
        """Return the address to open in a browser; `extra_params` replace none of the protocol's own.

        PKCE with S256 is always part of it, also where a capability file says `use_pkce: false`: OAuth 2.1 requires
        it, and servers that do not know it ignore it (RFC 6749 3.1).
        """
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=")
        params = dict(extra_params) | {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "state": self.state,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        if scopes:
            params["scope"] = " ".join(scopes)
        return f"{authorization_url}{'&' if '?' in authorization_url else '?'}{urlencode(params)}"
