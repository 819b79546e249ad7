"""The keys of an authorization server (JWK Set, RFC 7517): fetched through the gateway, kept for a while, bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jwt

from wasmrt.core.limits import KIB
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.egress.gateway import EgressGateway, HttpFailure

FRESH_SECONDS = 3600.0
"""After these the keys are fetched again."""
KEPT_SECONDS = 24 * 3600.0
"""While they cannot be fetched; then none of them holds any more."""
RETRY_SECONDS = 30.0
"""Between two fetches, whatever tokens ask for."""
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
    """The keys of the authorization server cannot be had, so that no token can be checked."""


class _Key(NamedTuple):
    id: str | None
    values: dict[str, Any]

    def fits(self, algorithm: str) -> bool:
        """Tell whether the key may be used for an algorithm.

        SECURITY: the key says what it is for, never the token alone: a public key is no shared secret, and a key for
        encryption verifies nothing (RFC 8725, 3.1 and 3.2).
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
    """The keys of one authorization server. For one event loop.

    Args:
        gateway: The way out, with the operator's networks and authorities.
        url: The address of the keys; https, and not redirected.
        now: Seconds that do not go back.
    """

    def __init__(self, gateway: EgressGateway, url: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._gateway, self._url, self._now = gateway, url, now
        self._keys: tuple[_Key, ...] = ()
        self._fetched: float | None = None
        self._tried: float | None = None
        self._fetching = asyncio.Lock()
        self._made: dict[tuple[int, str], Any] = {}

    async def key(self, key_id: str | None, algorithm: str) -> Any | None:
        """Return the one key that a token names, or the only one that fits where it names none; else None.

        An id that is not known has the keys fetched again, once in 30 seconds whoever asks.

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
        # SECURITY: of two keys neither is tried: which one signed is not for a token to leave open.
        return self._public(fitting[0], algorithm) if len(fitting) == 1 else None

    def _public(self, key: _Key, algorithm: str) -> Any | None:
        """Return a key for the library; None for one that is broken, or too short."""
        name = (id(key), algorithm)
        if name not in self._made:
            # SECURITY: of what a key says only the public numbers are read: no certificate, no address of one.
            values = {part: value for part, value in key.values.items() if part in _PUBLIC}
            try:
                made = jwt.PyJWK(values, algorithm=algorithm).key
            except Exception:
                made = None
            short = algorithm[:2] in ("RS", "PS") and getattr(made, "key_size", 0) < _MIN_RSA_BITS
            self._made[name] = None if short else made
        return self._made[name]

    async def _fetch(self) -> None:
        """Fetch the keys, unless that was tried a short while ago; those that there were stay where it fails."""
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
