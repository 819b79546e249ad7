"""OAuth 2.1 for a person at their own machine: authorization code with PKCE, and refresh.

RFC 6749 (the framework), RFC 7636 (PKCE), RFC 8252 (native applications), RFC 9207 (issuer mix-up).
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets as randomness
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

from wasmrt.egress import EgressGateway, HttpFailure, HttpResponse
from wasmrt.errors import SecretError
from wasmrt.limits import OAUTH_TIMEOUT_SECONDS

# RFC 6749 5.2. Anything else that a server says is not repeated: it is foreign text.
_KNOWN_ERRORS = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    }
)


class OAuthError(SecretError):
    """The login or the renewal of a token failed; `code` is the server's word where it is a known one."""

    code = "oauth"


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """What a token endpoint issued. Has no repr."""

    access_token: str
    refresh_token: str | None
    expires_at: float | None
    """In Unix seconds."""


@dataclass(frozen=True, slots=True, repr=False)
class Login:
    """One attempt to log in: its state tells our answer from a forged one, its verifier our code from a stolen one."""

    state: str
    verifier: str

    @classmethod
    def new(cls) -> Login:
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
        """Return the address to open in a browser.

        PKCE with S256 is always part of it, also where a sidecar says `use_pkce: false`: OAuth 2.1 requires it, and
        servers that do not know it ignore it (RFC 6749 3.1).
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


class TokenEndpoint:
    """Where tokens are issued; reached through the gateway, with its addresses checked like any other."""

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
        """Change an authorization code into tokens. RFC 6749 4.1.3, RFC 7636 4.5.

        Raises:
            OAuthError: the server refuses, or its answer is no token.
        """
        return self._ask(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": redirect_uri,
                "code_verifier": verifier,
            }
        )

    def refresh(self, refresh_token: str) -> Tokens:
        """Ask for a new access token. RFC 6749 6.

        Raises:
            OAuthError: the server refuses, or its answer is no token.
        """
        return self._ask({"grant_type": "refresh_token", "refresh_token": refresh_token})

    def _ask(self, fields: dict[str, str]) -> Tokens:
        body = urlencode(fields | self._client).encode()
        headers = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))
        try:
            answer = self._gateway.send_own(
                "POST", self._token_url, headers, body, timeout_seconds=OAUTH_TIMEOUT_SECONDS
            )
        except HttpFailure as failure:
            raise OAuthError(
                f"the token endpoint cannot be used: {failure.message}", code=failure.code, hint=failure.hint
            ) from None
        return self._read(answer)

    def _read(self, answer: HttpResponse) -> Tokens:
        data = _json_object(answer.body)
        if answer.status != 200:
            word = data.get("error")
            known = word if word in _KNOWN_ERRORS else None
            raise OAuthError(
                f"the token endpoint answered {answer.status}" + (f": {known}" if known else ""),
                code=known or "oauth",
                hint="log in again: wasmrt auth TOOL",
            )
        token, refresh, lifetime = data.get(self._field), data.get("refresh_token"), data.get("expires_in")
        kind = data.get("token_type", "bearer")
        if not isinstance(token, str) or not token or not isinstance(kind, str) or kind.lower() != "bearer":
            raise OAuthError("the token endpoint's answer holds no bearer token")
        return Tokens(token, refresh if isinstance(refresh, str) and refresh else None, self._ends(lifetime))

    def _ends(self, lifetime: object) -> float | None:
        if isinstance(lifetime, str) and lifetime.isdigit():  # some servers quote it
            lifetime = int(lifetime)
        if isinstance(lifetime, bool) or not isinstance(lifetime, (int, float)) or not 0 < lifetime < 2**40:
            return None
        return self._now() + lifetime


class RefreshableToken(Protocol):
    """What `wasmrt.secrets` keeps beside an access token; this room and that one do not import each other."""

    @property
    def token_url(self) -> str: ...

    @property
    def client_id(self) -> str: ...

    @property
    def client_secret(self) -> str | None: ...

    @property
    def refresh_token(self) -> str | None: ...

    @property
    def access_token_field(self) -> str: ...


def token_renewer(gateway: Callable[[], EgressGateway]) -> Callable[[RefreshableToken], Tokens]:
    """Return the function that gets the next access token; `gateway` is asked for at the first use."""

    def renew(kept: RefreshableToken) -> Tokens:
        if kept.refresh_token is None:
            raise OAuthError("there is no refresh token", hint="log in again: wasmrt auth TOOL")
        endpoint = TokenEndpoint(
            gateway(),
            kept.token_url,
            client_id=kept.client_id,
            client_secret=kept.client_secret,
            access_token_field=kept.access_token_field,
        )
        return endpoint.refresh(kept.refresh_token)

    return renew


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    return data if isinstance(data, dict) else {}
