"""Authentication of HTTP requests: tokens, users, origins and rate limits."""

from __future__ import annotations

import json
import threading
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import UnfitFileError, read_file, replace_file
from wasmrt.core.limits import KIB
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.interop.mcp.server.protocol import Refusal
from wasmrt.interop.web import Request as WebRequest
from wasmrt.interop.web import Response as WebResponse
from wasmrt.interop.web import TokenDigest, bearer_token, new_token, plain
from wasmrt.runtime.config_serve import METADATA_PATH

MAX_USERS = 1000
_MAX_BYTES = 512 * KIB
PREFIX = "wasmrt-"
"""Prefix of every token that is created here."""


class UserTokens:
    """The file of token digests, by user. It is read again after every change, so revoking a token needs no restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._known: dict[str, TokenDigest] = {}

    def user_of(self, token: str | None) -> str | None:
        """Return the user of a token, or None for an unknown token.

        SECURITY: every digest is compared, so that timing reveals nothing.

        Raises:
            ConfigurationError: the file is invalid.
        """
        users = self._users()
        if token is None:
            return None
        given = TokenDigest.of(token)
        found = [user for user, digest in users.items() if digest.equals(given)]
        return found[0] if found else None

    def has(self, user: str) -> bool:
        """Return whether a user has a token.

        Raises:
            ConfigurationError: the file is invalid.
        """
        return user in self._users()

    def renew(self, user: str) -> str:
        """Replace a user's token; return the new token, which is not stored.

        Raises:
            ConfigurationError: the file is invalid, or there are too many users.
        """
        token = new_token(PREFIX)
        users = {**self._users(), user: TokenDigest.of(token)}
        if len(users) > MAX_USERS:
            raise ConfigurationError(f"there are already {MAX_USERS:,} users", hint=f"remove some from {self._path}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            data = json.dumps({name: digest.hex for name, digest in users.items()}, indent=1)
            replace_file(self._path, data.encode())
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written ({error.strerror})") from error
        return token

    def _users(self) -> dict[str, TokenDigest]:
        try:
            status = self._path.stat()
        except OSError:
            return {}
        seen = (status.st_ino, status.st_size, status.st_mtime_ns)
        with self._lock:
            if seen != self._seen:
                self._known, self._seen = self._read(), seen
            return self._known

    def _read(self) -> dict[str, TokenDigest]:
        hint = "remove it, and create new tokens with wasmrt serve --new-token USER"
        try:
            data = read_file(self._path, max_bytes=_MAX_BYTES, follow_link=False, private=True)
            found = read_json(data, max_bytes=_MAX_BYTES, max_depth=2, exact=True)
            return {user: TokenDigest(digest) for user, digest in found.items()}
        except (UnfitFileError, OSError, JsonError, ValueError, TypeError, AttributeError) as error:
            raise ConfigurationError(f"{self._path} is not a tokens file ({error})"[:300], hint=hint) from None


class TokenFault(StrEnum):
    """The fault of an access token, as reported in the challenge, without any part of the token."""

    MALFORMED = "the token is malformed"
    ALGORITHM = "the token is signed with an algorithm that is not accepted"
    SIGNATURE = "the token is not signed by a known key"
    EXPIRED = "the token has expired"
    EARLY = "the token is not valid yet"
    AUDIENCE = "the token is for another resource"
    ISSUER = "the token is from another issuer"
    SCOPE = "the token lacks a scope"
    USER = "the token's subject is not a user of this server"
    NO_KEYS = "the issuer's keys are currently unavailable"


class BadToken(Exception):  # noqa: N818 - becomes a response, and is caught in this package and that of OAuth
    """An invalid access token."""

    def __init__(self, fault: TokenFault) -> None:
        super().__init__(fault)
        self.fault = fault


class Access(Protocol):
    """Access tokens accepted in addition to the server's own: `wasmrt.interop.mcp.server.oauth.AccessTokens`."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of this resource (RFC 9728)."""

    @property
    def metadata_url(self) -> str:
        """The address of the metadata."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The required scopes."""

    async def user_of(self, token: str) -> str:
        """Return the user of a token.

        Raises:
            BadToken: the token is invalid.
        """


class TurnedAway(Exception):  # noqa: N818 - carries a response, and is caught in this package
    """A request without valid authentication."""

    def __init__(self, refusal: Refusal, response: WebResponse) -> None:
        super().__init__(refusal)
        self.refusal, self.response = refusal, response


_REFUSALS = {
    TokenFault.EXPIRED: Refusal.EXPIRED_TOKEN,
    TokenFault.SCOPE: Refusal.MISSING_SCOPE,
    TokenFault.USER: Refusal.UNKNOWN_USER,
    TokenFault.NO_KEYS: Refusal.NO_KEYS,
}


class Entrance:
    """Authenticates requests.

    Args:
        users: The tokens of the server's users.
        access: Accepts access tokens of an authorization server; None to accept only the server's own tokens.
    """

    def __init__(self, users: UserTokens, access: Access | None = None) -> None:
        self._users, self._access = users, access

    def document(self, web: WebRequest, path: str) -> WebResponse | None:
        """Return the metadata of this resource, which requires no token; None for other requests."""
        if self._access is None or web.path not in (METADATA_PATH, METADATA_PATH + path):
            return None
        if web.method not in ("GET", "HEAD"):
            return plain(405, headers=(("allow", "GET, HEAD"),))
        return WebResponse(
            headers=(("content-type", "application/json"),), body=json.dumps(self._access.metadata).encode()
        )

    async def user_of(self, web: WebRequest) -> str:
        """Return the user of a request's token.

        Raises:
            TurnedAway: the request has no valid token.
            ConfigurationError: the tokens file is invalid.
        """
        token = bearer_token(web)
        if not web.has("authorization"):
            raise TurnedAway(Refusal.NO_TOKEN, self._make_challenge(401, "A bearer token is required."))
        # SECURITY: URLs end up in logs and histories, so a token in the URL is refused even if the header has a
        # different one (RFC 6750, 2 and 5.3).
        if any(field.partition("=")[0] == "access_token" for field in web.query.split("&")):
            said = self._make_challenge(
                400, "Send the token in a header.", "invalid_request", "the token is in the URL"
            )
            raise TurnedAway(Refusal.TOKEN_IN_URL, said)
        if self._access is None or token is None or token.startswith(PREFIX):
            user = self._users.user_of(token)
            if user is None:
                raise TurnedAway(
                    Refusal.INVALID_TOKEN, self._make_challenge(401, "The token is invalid.", "invalid_token")
                )
            return user
        try:
            return await self._access.user_of(token)
        except BadToken as bad:
            raise self._refuse_token(bad.fault) from None

    def _refuse_token(self, fault: TokenFault) -> TurnedAway:
        refusal, text = _REFUSALS.get(fault, Refusal.INVALID_TOKEN), f"{str(fault).capitalize()}."
        if fault is TokenFault.NO_KEYS:
            return TurnedAway(refusal, plain(503, text, headers=(("retry-after", "30"),)))
        if fault is TokenFault.USER:  # another token of the same user would not help, so send no challenge
            return TurnedAway(refusal, plain(403, text))
        status, error = (403, "insufficient_scope") if fault is TokenFault.SCOPE else (401, "invalid_token")
        return TurnedAway(refusal, self._make_challenge(status, text, error, str(fault)))

    def _make_challenge(self, status: int, text: str, error: str = "", why: str = "") -> WebResponse:
        """Return a refusal with a challenge that names the requirement (RFC 6750, 3; RFC 9728, 5.1)."""
        told = {"realm": "wasmrt", "error": error, "error_description": why}
        if self._access is not None:
            told |= {"resource_metadata": self._access.metadata_url, "scope": " ".join(self._access.scopes)}
        said = ", ".join(f'{name}="{value}"' for name, value in told.items() if value)
        return plain(status, text, headers=(("www-authenticate", f"Bearer {said}"),))
