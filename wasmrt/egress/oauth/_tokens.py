"""Build authorization requests, and request tokens from the token endpoint."""

from __future__ import annotations

import base64
import hashlib
import secrets as randomness
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from wasmrt.core.errors import SecretError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_OWN_RESPONSE_BYTES, OAUTH_TIMEOUT_SECONDS
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpResponse


@dataclass(frozen=True, slots=True, repr=False)
class AuthorizationRequest:
    """The random values of one login attempt. Their repr does not show them.

    `state` protects against a forged redirect, and `verifier` (PKCE) against the use of a stolen code.
    """

    state: str
    verifier: str

    @classmethod
    def new(cls) -> AuthorizationRequest:
        """Return an attempt with random values of 32 and 64 bytes of entropy."""
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
        """Return the address to open in a browser; `extra_params` cannot replace parameters of the protocol.

        PKCE with S256 is always used, even if a capability file has `use_pkce: false`: OAuth 2.1 requires it, and
        servers that do not support it ignore it (RFC 6749 3.1).
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


# RFC 6749 5.2, and RFC 8628 3.5. Other error texts of a server are untrusted, and are not repeated.
_KNOWN_ERRORS = frozenset((
    "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
    "invalid_scope", "authorization_pending", "slow_down", "access_denied", "expired_token",
))  # fmt: skip


class OAuthError(SecretError):
    """A login or token renewal failed. `code` is the server's error code, if the code is known."""

    code = "oauth"


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """Tokens from an endpoint. Their repr does not show them."""

    access_token: str
    refresh_token: str | None
    expires_at: float | None
    """Expiry of the access token, in Unix seconds."""


class TokenEndpoint:
    """The endpoint that issues tokens. The gateway sends the requests, only over https and to checked addresses."""

    def __init__(
        self,
        gateway: EgressGateway,
        token_url: str,
        *,
        client_id: str,
        client_secret: str | None = None,
        access_token_field: str = "access_token",  # noqa: S107 - a field's name
        now: Callable[[], float] = time.time,
    ) -> None:
        self._gateway = gateway
        self._token_url = token_url
        self._client = {"client_id": client_id} | ({"client_secret": client_secret} if client_secret else {})
        self._field = access_token_field
        self._now = now

    def exchange(self, code: str, *, verifier: str, redirect_uri: str) -> Tokens:
        """Exchange an authorization code for tokens (RFC 6749 4.1.3, RFC 7636 4.5).

        Raises:
            OAuthError: the server refuses, or its response is not a token.
        """
        fields = {"code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
        return self._request({"grant_type": "authorization_code", **fields})

    def refresh(self, refresh_token: str) -> Tokens:
        """Request a new access token (RFC 6749 6).

        Raises:
            OAuthError: the server refuses, or its response is not a token.
        """
        return self._request({"grant_type": "refresh_token", "refresh_token": refresh_token})

    def exchange_device_code(self, device_code: str) -> Tokens:
        """Request tokens once with a device code (RFC 8628 3.4).

        Raises:
            OAuthError: the user has not entered the code yet (`authorization_pending`, `slow_down`), or the server
                refuses.
        """
        kind = "urn:ietf:params:oauth:grant-type:device_code"
        return self._request({"grant_type": kind, "device_code": device_code})

    def _request(self, fields: dict[str, str]) -> Tokens:
        body = urlencode(fields | self._client).encode()
        headers = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))
        try:
            response = self._gateway.send_own(
                "POST", self._token_url, headers, body, timeout_seconds=OAUTH_TIMEOUT_SECONDS
            )
        except HttpFailure as failure:
            raise OAuthError(
                f"the token endpoint cannot be used: {failure.message}", code=failure.code, hint=failure.hint
            ) from None
        return self._parse_tokens(response)

    def _parse_tokens(self, response: HttpResponse) -> Tokens:
        data = json_object(response.body)
        error = data.get("error")
        known = error if isinstance(error, str) and error in _KNOWN_ERRORS else None
        if response.status != 200 or known is not None:  # some servers send an error with status 200
            raise OAuthError(
                f"the token endpoint returned status {response.status}" + (f": {known}" if known else ""),
                code=known or "oauth",
                hint="log in again: wasmrt auth TOOL",
            )
        token, refresh, lifetime = data.get(self._field), data.get("refresh_token"), data.get("expires_in")
        kind = data.get("token_type", "bearer")
        if not isinstance(token, str) or not token or not isinstance(kind, str) or kind.lower() != "bearer":
            raise OAuthError("the token endpoint's response contains no bearer token")
        return Tokens(token, refresh if isinstance(refresh, str) and refresh else None, self._expiry(lifetime))

    def _expiry(self, lifetime: object) -> float | None:
        if isinstance(lifetime, str) and lifetime.isascii() and lifetime.isdigit():  # some servers send a string
            lifetime = int(lifetime[:20])
        if isinstance(lifetime, bool) or not isinstance(lifetime, (int, float)) or not 0 < lifetime < 2**40:
            return None
        return self._now() + lifetime


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a response body, or an empty dict if the body is not a JSON object."""
    try:
        data = read_json(body, max_bytes=MAX_OWN_RESPONSE_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
    except JsonError:
        data = None
    return data if isinstance(data, dict) else {}
