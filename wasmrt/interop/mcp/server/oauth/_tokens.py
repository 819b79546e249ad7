"""Access tokens: signed JWTs of one authorization server, for this resource (RFC 9068, RFC 8725), and their users."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import jwt

from wasmrt.core.limits import KIB
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.interop.mcp.server.http import BadToken, TokenFault
from wasmrt.interop.mcp.server.oauth._keys import KeySet, NoKeysError
from wasmrt.runtime.config_serve import MAX_CLAIM_CHARS, METADATA_PATH, ResourceSettings

MAX_TOKEN_BYTES = 16 * KIB
_MAX_HEADER_BYTES = 4 * KIB
_MAX_SCOPES = 256
_TOKEN = re.compile(r"([A-Za-z0-9_-]{2,})\.([A-Za-z0-9_-]{2,})\.([A-Za-z0-9_-]{2,})")
_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_NEEDED = ["exp", "iss", "aud"]


class AccessTokens:
    """Tells the user of an access token.

    Args:
        settings: The section [serve].
        keys: The keys of its authorization server.
    """

    def __init__(self, settings: ResourceSettings, keys: KeySet) -> None:
        self._settings, self._keys = settings, keys

    @property
    def metadata(self) -> dict[str, Any]:
        """The document of this resource (RFC 9728, 2)."""
        found = {
            "resource": self._settings.resource,
            "resource_name": "wasmrt",
            "authorization_servers": [self._settings.issuer],
            "bearer_methods_supported": ["header"],
        }
        return found | ({"scopes_supported": list(self._settings.scopes)} if self._settings.scopes else {})

    @property
    def metadata_url(self) -> str:
        """The address of that document (RFC 9728, 3.1)."""
        origin = self._settings.origin
        return f"{origin}{METADATA_PATH}{self._settings.resource.removeprefix(origin)}"

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that a token needs."""
        return self._settings.scopes

    async def user_of(self, token: str) -> str:
        """Return the user that a token stands for.

        Raises:
            BadToken: it does not hold, or its keys cannot be had.
        """
        key_id, algorithm = self._header(token)
        try:
            key = await self._keys.key(key_id, algorithm)
        except NoKeysError:
            raise BadToken(TokenFault.NO_KEYS) from None
        if key is None:
            raise BadToken(TokenFault.SIGNATURE)
        claims = self._claims(token, key, algorithm)
        held = _scopes_of(claims)
        if not set(self._settings.scopes) <= held:
            raise BadToken(TokenFault.SCOPE)
        value = claims.get(self._settings.user_claim)
        user = self._settings.users.get(value) if isinstance(value, str) and len(value) <= MAX_CLAIM_CHARS else None
        if user is None:
            raise BadToken(TokenFault.USER)
        return user

    def _header(self, token: str) -> tuple[str | None, str]:
        """Return the id of the key and the algorithm that a token names.

        SECURITY: nothing else of the header counts. Keys and addresses of keys in it (`jwk`, `jku`, `x5c`, `x5u`) are
        never looked at; what it calls critical the library refuses (RFC 7515, 4.1.11).
        """
        found = _TOKEN.fullmatch(token) if len(token) <= MAX_TOKEN_BYTES else None
        try:
            data = b"" if found is None else base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4))
            header = read_json(data, max_bytes=_MAX_HEADER_BYTES, max_depth=8, distinct=True)
        except (binascii.Error, JsonError):
            header = None
        if not isinstance(header, dict):
            raise BadToken(TokenFault.MALFORMED)
        kind, key_id, algorithm = header.get("typ", "jwt"), header.get("kid"), header.get("alg")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise BadToken(TokenFault.MALFORMED)
        if key_id is not None and (not isinstance(key_id, str) or len(key_id) > MAX_CLAIM_CHARS):
            raise BadToken(TokenFault.MALFORMED)
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            raise BadToken(TokenFault.ALGORITHM)
        return key_id, algorithm

    def _claims(self, token: str, key: Any, algorithm: str) -> dict[str, Any]:
        settings = self._settings
        try:
            claims: dict[str, Any] = jwt.decode(
                token, key, algorithms=[algorithm], audience=settings.resource, issuer=settings.issuer,
                leeway=settings.clock_skew_seconds, options={"require": _NEEDED},
            )  # fmt: skip
        except jwt.ExpiredSignatureError:
            raise BadToken(TokenFault.EXPIRED) from None
        except jwt.ImmatureSignatureError:
            raise BadToken(TokenFault.EARLY) from None
        except jwt.InvalidAudienceError:
            raise BadToken(TokenFault.AUDIENCE) from None
        except jwt.InvalidIssuerError:
            raise BadToken(TokenFault.ISSUER) from None
        except (jwt.InvalidSignatureError, jwt.InvalidKeyError):
            raise BadToken(TokenFault.SIGNATURE) from None
        except Exception:  # SECURITY: whatever else a library trips over is no token that holds
            raise BadToken(TokenFault.MALFORMED) from None
        if "cnf" in claims:  # bound to a proof that is not asked for here (RFC 7800): what cannot be checked is refused
            raise BadToken(TokenFault.MALFORMED)
        return claims


def _scopes_of(claims: dict[str, Any]) -> set[str]:
    """Return the scopes of a token: `scope` as RFC 9068 has it, or the `scp` of those who write a list."""
    said = claims.get("scope", claims.get("scp", ""))
    listed = said.split(" ") if isinstance(said, str) else said if isinstance(said, list) else []
    return {each for each in listed[:_MAX_SCOPES] if isinstance(each, str) and each}
