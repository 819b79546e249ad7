"""Bearer tokens (RFC 6750): made at random, kept as a digest, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from wasmrt.interop.web._message import Request

_MAX_TOKEN_CHARS = 4096
_DIGEST = re.compile("[0-9a-f]{64}")
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)


def new_token(prefix: str = "") -> str:
    """Return a new token of 256 random bits, in characters that a URL and a header may hold."""
    return prefix + secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class TokenDigest:
    """SHA-256 of a token. Enough for a token of `new_token`, which nobody guesses; not for a password.

    Raises:
        ValueError: `hex` is no such digest.
    """

    hex: str

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.hex):
            raise ValueError("a token's digest is 64 hexadecimal digits")

    @classmethod
    def of(cls, token: str) -> TokenDigest:
        """Return the digest of a token."""
        return cls(hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest())

    def matches(self, token: str | None) -> bool:
        """Return whether this is the token's digest. The time it takes says nothing about either."""
        if token is None or len(token) > _MAX_TOKEN_CHARS:
            return False
        return self.equals(TokenDigest.of(token))

    def equals(self, other: TokenDigest) -> bool:
        """Return whether both are of one token. The time it takes says nothing about either."""
        return hmac.compare_digest(other.hex, self.hex)


def bearer_token(request: Request) -> str | None:
    """Return the token of a request's `Authorization: Bearer` header, or None. A token in a URL is none."""
    found = _BEARER.fullmatch(request.header("authorization") or "")
    return None if found is None else found[1]
