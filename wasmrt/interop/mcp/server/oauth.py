"""Access tokens (JWT) of an authorization server of OAuth 2.1, and the keys that verify them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jwt

from wasmrt.core.limits import KIB
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.egress.gateway import EgressGateway, HttpFailure
from wasmrt.interop.mcp.server.http import BadToken, TokenFault
from wasmrt.runtime.config_serve import MAX_CLAIM_CHARS, METADATA_PATH, ResourceSettings

FRESH_SECONDS = 3600.0
"""Seconds after which the keys are fetched again."""
KEPT_SECONDS = 24 * 3600.0
"""Seconds for which keys are used if they cannot be fetched again."""
RETRY_SECONDS = 30.0
"""Seconds between two fetches, however many tokens name unknown keys."""
_FETCH_SECONDS = 10.0
_MAX_BYTES = 256 * KIB
_MAX_KEYS = 100
_MAX_DEPTH = 8
_MIN_RSA_BITS = 2048
"""RFC 7518, 3.3."""
_PUBLIC = frozenset({"kty", "crv", "n", "e", "x", "y"})
_TYPES: dict[str, tuple[str, str | None]] = {
    "RS": ("RSA", None), "PS": ("RSA", None), "ES256": ("EC", "P-256"), "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"), "EdDSA": ("OKP", "Ed25519"),
}  # fmt: skip


class NoKeysError(Exception):
    """The authorization server's keys are unavailable, so no token can be verified."""


class _Key(NamedTuple):
    id: str | None
    values: dict[str, Any]

    def fits(self, algorithm: str) -> bool:
        """Return whether the key may be used for an algorithm.

        SECURITY: the key determines its use, not the token: a public key must not serve as a shared secret, and an
        encryption key must not verify signatures (RFC 8725, 3.1 and 3.2).
        """
        kind, curve = _TYPES.get(algorithm) or _TYPES[algorithm[:2]]
        own = self.values
        return (
            own.get("kty") == kind
            and (curve is None or own.get("crv") == curve)
            and own.get("alg", algorithm) == algorithm
            and own.get("use", "sig") == "sig"
            and "verify" in own.get("key_ops", ["verify"])
        )


class KeySet:
    """The keys of one authorization server, for one event loop.

    Args:
        gateway: Fetches the keys, with the operator's networks and certificate authorities.
        url: The address of the keys; https, redirects are not followed.
        now: Monotonic seconds.
    """

    def __init__(self, gateway: EgressGateway, url: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._gateway, self._url, self._now = gateway, url, now
        self._keys: tuple[_Key, ...] = ()
        self._fetched: float | None = None
        self._tried: float | None = None
        self._fetching = asyncio.Lock()
        self._made: dict[tuple[int, str], Any] = {}

    async def key(self, key_id: str | None, algorithm: str) -> Any | None:
        """Return the key named by a token, or, if it names none, the only suitable key; None if there is no such key.

        An unknown ID causes a new fetch, at most once in 30 seconds.

        Raises:
            NoKeysError: there are no keys.
        """
        if self._age() > FRESH_SECONDS:
            await self._fetch()
        if self._age() > KEPT_SECONDS:
            raise NoKeysError
        found = self._find(key_id, algorithm)
        if found is None and not any(each.id == key_id for each in self._keys):
            await self._fetch()
            found = self._find(key_id, algorithm)
        return found

    def _age(self) -> float:
        return float("inf") if self._fetched is None else self._now() - self._fetched

    def _find(self, key_id: str | None, algorithm: str) -> Any | None:
        fitting = [each for each in self._keys if each.fits(algorithm) and key_id in (None, each.id)]
        # SECURITY: with several suitable keys, the token must name its key.
        return self._read_public_key(fitting[0], algorithm) if len(fitting) == 1 else None

    def _read_public_key(self, key: _Key, algorithm: str) -> Any | None:
        """Return a key in the library's form, or None if it is malformed or too short."""
        name = (id(key), algorithm)
        if name not in self._made:
            # SECURITY: only the public numbers of a key are used, never its certificates or their addresses.
            values = {part: value for part, value in key.values.items() if part in _PUBLIC}
            try:
                made = jwt.PyJWK(values, algorithm=algorithm).key
            except Exception:
                made = None
            short = algorithm[:2] in ("RS", "PS") and getattr(made, "key_size", 0) < _MIN_RSA_BITS
            self._made[name] = None if short else made
        return self._made[name]

    async def _fetch(self) -> None:
        """Fetch the keys, unless this was tried recently; on failure, keep the old ones."""
        async with self._fetching:
            now = self._now()
            if self._tried is not None and now - self._tried < RETRY_SECONDS:
                return
            self._tried = now
            keys = await asyncio.to_thread(self._read)
            if keys is not None:
                self._keys, self._fetched, self._made = keys, now, {}

    def _read(self) -> tuple[_Key, ...] | None:
        headers = (("Accept", "application/jwk-set+json, application/json"),)
        try:
            response = self._gateway.send_own("GET", self._url, headers, None, timeout_seconds=_FETCH_SECONDS)
            if response.status != 200:
                return None
            found = read_json(response.body, max_bytes=_MAX_BYTES, max_depth=_MAX_DEPTH, distinct=True)
        except (HttpFailure, JsonError):
            return None
        keys = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(keys, list) or len(keys) > _MAX_KEYS:
            return None
        return tuple(_Key(_text(each.get("kid")), each) for each in keys if isinstance(each, dict) and _is_sound(each))


def _is_sound(values: dict[str, Any]) -> bool:
    operations = values.get("key_ops", [])
    return isinstance(operations, list) and values.get("kty") in ("RSA", "EC", "OKP")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


MAX_TOKEN_BYTES = 16 * KIB
_MAX_HEADER_BYTES = 4 * KIB
_MAX_SCOPES = 256
_TOKEN = re.compile(r"([A-Za-z0-9_-]{2,})\.([A-Za-z0-9_-]{2,})\.([A-Za-z0-9_-]{2,})")
_TOKEN_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_NEEDED = ["exp", "iss", "aud"]


class AccessTokens:
    """Verifies access tokens.

    Args:
        settings: The [serve] section.
        keys: The keys of its authorization server.
    """

    def __init__(self, settings: ResourceSettings, keys: KeySet) -> None:
        self._settings, self._keys = settings, keys

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of this resource (RFC 9728, 2)."""
        found = {
            "resource": self._settings.resource,
            "resource_name": "wasmrt",
            "authorization_servers": [self._settings.issuer],
            "bearer_methods_supported": ["header"],
        }
        return found | ({"scopes_supported": list(self._settings.scopes)} if self._settings.scopes else {})

    @property
    def metadata_url(self) -> str:
        """The address of the metadata (RFC 9728, 3.1)."""
        origin = self._settings.origin
        return f"{origin}{METADATA_PATH}{self._settings.resource.removeprefix(origin)}"

    @property
    def scopes(self) -> tuple[str, ...]:
        """The required scopes."""
        return self._settings.scopes

    async def user_of(self, token: str) -> str:
        """Return the user of a token.

        Raises:
            BadToken: the token is invalid, or the keys are unavailable.
        """
        key_id, algorithm = self._header(token)
        try:
            key = await self._keys.key(key_id, algorithm)
        except NoKeysError:
            raise BadToken(TokenFault.NO_KEYS) from None
        if key is None:
            raise BadToken(TokenFault.SIGNATURE)
        claims = self._read_claims(token, key, algorithm)
        held = _get_scopes(claims)
        if not set(self._settings.scopes) <= held:
            raise BadToken(TokenFault.SCOPE)
        value = claims.get(self._settings.user_claim)
        user = self._settings.users.get(value) if isinstance(value, str) and len(value) <= MAX_CLAIM_CHARS else None
        if user is None:
            raise BadToken(TokenFault.USER)
        return user

    def _header(self, token: str) -> tuple[str | None, str]:
        """Return the key ID and the algorithm that a token names.

        SECURITY: all other header fields are ignored, including keys and their addresses (`jwk`, `jku`, `x5c`, `x5u`).
        The library refuses unknown critical fields (RFC 7515, 4.1.11).
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
        if not isinstance(kind, str) or kind.lower() not in _TOKEN_TYPES:
            raise BadToken(TokenFault.MALFORMED)
        if key_id is not None and (not isinstance(key_id, str) or len(key_id) > MAX_CLAIM_CHARS):
            raise BadToken(TokenFault.MALFORMED)
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            raise BadToken(TokenFault.ALGORITHM)
        return key_id, algorithm

    def _read_claims(self, token: str, key: Any, algorithm: str) -> dict[str, Any]:
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
        except Exception:  # SECURITY: any other failure of the library means an invalid token
            raise BadToken(TokenFault.MALFORMED) from None
        if "cnf" in claims:  # it requires proof of possession (RFC 7800), which is not supported
            raise BadToken(TokenFault.MALFORMED)
        return claims


def _get_scopes(claims: dict[str, Any]) -> set[str]:
    """Return a token's scopes: `scope` (RFC 9068), or `scp`, which some servers send as a list."""
    said = claims.get("scope", claims.get("scp", ""))
    listed = said.split(" ") if isinstance(said, str) else said if isinstance(said, list) else []
    return {each for each in listed[:_MAX_SCOPES] if isinstance(each, str) and each}
