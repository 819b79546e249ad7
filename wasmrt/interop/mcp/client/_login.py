"""Logins at a server's authorization server: tokens stored as secrets, and renewed once when refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

from wasmrt.core.errors import NotAuthorizedError, SecretExpiredError, SecretNotFoundError
from wasmrt.core.limits import KIB, OAUTH_TIMEOUT_SECONDS
from wasmrt.core.strict_json import JsonError, read_json, write_json
from wasmrt.egress.gateway import EgressGateway, HttpFailure, HttpResponse, NetworkConfig
from wasmrt.egress.secrets import Secret, SecretsStore
from wasmrt.interop.mcp.client._errors import to_safe_line
from wasmrt.interop.mcp.client._settings import McpServerConfig

_MARGIN_SECONDS = 30.0
_MAX_TOKEN_BYTES = 256 * KIB
_PARTS = ("access_token", "refresh_token", "client_id")
_SECRET_PARTS = ("access_token", "refresh_token", "client_secret")


class KeptLogin:
    """The tokens of one user at one server, in the secrets store.

    The secrets are `mcp_NAME_access_token`, `mcp_NAME_refresh_token` and `mcp_NAME_client_id`; `mcp_NAME_login` holds
    other data for a renewal, such as the token endpoint, and `mcp_NAME_client_secret` the secret of a client that was
    registered by hand.

    SECURITY: a login belongs to the address where the user logged in. After a server of the same name got another
    address, the login counts as not stored, and the next login removes it.
    """

    def __init__(self, store: SecretsStore, user: str, server: McpServerConfig) -> None:
        self._store = store
        self._user = user
        self._url = server.url
        self._prefix = f"mcp_{server.name}_"

    def get(self, part: str) -> str:
        """Return a stored part; an empty string if the part is not stored, or the login belongs to another address."""
        if part in _PARTS and not self.more:
            return ""
        return self._read(part)

    def set(self, part: str, value: str) -> None:
        """Store a part, or remove it if the value is empty."""
        if value and not self.more:
            self.forget()
            self._write("login", write_json({"server": self._url}))
        self._write(part, value)

    @property
    def more(self) -> dict[str, Any]:
        """Other data for a renewal: `token_url`, `client_secret`, `resource`, `scope`, `issuer`, `expires_at`.

        Empty without a login at this address.
        """
        try:
            value = read_json(self._read("login") or "{}", max_bytes=_MAX_TOKEN_BYTES, max_depth=4)
        except JsonError:
            return {}
        return value if isinstance(value, dict) and value.get("server") == self._url else {}

    def set_more(self, **values: Any) -> None:
        """Update some of the data in `more`, and store the server's address with the data."""
        self.set("login", write_json({**self.more, "server": self._url, **values}))

    def forget(self) -> None:
        """Remove all stored parts of the login."""
        for part in (*_PARTS, "login"):
            if self._read(part):
                self._write(part, "")

    def remove(self) -> None:
        """Remove all parts, and the client secret that was stored by hand.

        SECURITY: otherwise a later server of the same name would get the client secret of this one at a login.
        """
        self.forget()
        self._write("client_secret", "")

    def _read(self, part: str) -> str:
        try:
            return self._store.get(self._user, self._prefix + part).reveal()
        except (SecretNotFoundError, SecretExpiredError):
            return ""

    def _write(self, part: str, value: str) -> None:
        if value:
            self._store.set(self._user, self._prefix + part, Secret(value))
            return
        with suppress(SecretNotFoundError):
            self._store.remove(self._user, self._prefix + part)


class LoginAuth(httpx2.Auth):
    """Sends the token to the server, and renews it once if it is expired or refused (RFC 6750; RFC 6749, 6)."""

    requires_response_body = False

    def __init__(
        self, server: McpServerConfig, login: KeptLogin, network: NetworkConfig, given: Callable[[str, str], None]
    ) -> None:
        self._server = server
        self._network = network
        self._login = login
        self._given = given
        self._sent_token = ""
        self._hint = f"log in: wasmrt mcp auth {server.name}"

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token.

        Raises:
            NotAuthorizedError: the server requires a login, a different login, or more scopes.
        """
        login = self._login
        expires = login.more.get("expires_at")
        if isinstance(expires, int | float) and time.time() > expires - _MARGIN_SECONDS:
            await self._renew()
        self._sign(request)
        response = yield request
        if response.status_code == 401 and login.get("access_token") and await self._renew():
            self._sign(request)
            response = yield request
        if response.status_code == 401:
            raise self._make_denial_error("wants a login" if not login.get("access_token") else "refuses the login")
        insufficient = extract_field_from_www_auth(response, "error") == "insufficient_scope"
        if response.status_code == 403 and insufficient:
            scope = to_safe_line(extract_scope_from_www_auth(response) or "")
            # Keep the granted scopes: a token with only the new ones would lose them.
            both = dict.fromkeys([*str(login.more.get("scope") or "").split(), *scope.split()])
            self._hint += f" --scope {' '.join(both)!r}" if scope else ""
            raise self._make_denial_error(f"requires more scopes: {scope or 'it does not report which'}")

    def _make_denial_error(self, problem: str) -> NotAuthorizedError:
        return NotAuthorizedError(f"the MCP server {self._server.name} {problem}", code="mcp-login", hint=self._hint)

    def _sign(self, request: httpx2.Request) -> None:
        if token := self._login.get("access_token"):
            if token != self._sent_token:  # renewed here or by another process
                self._tell_secrets()
                self._sent_token = token
                self._given(f"mcp_{self._server.name}_access_token", token)
            request.headers["Authorization"] = f"Bearer {token}"

    def _tell_secrets(self) -> None:
        """Report every secret of the login for redaction: the server may know it, and send it back."""
        kept = {part: self._login.get(part) for part in _SECRET_PARTS}
        for part, value in (*kept.items(), ("client_secret", self._login.more.get("client_secret"))):
            if isinstance(value, str) and value:
                self._given(f"mcp_{self._server.name}_{part}", value)

    async def _renew(self) -> bool:
        """Request and store a new token (RFC 6749, 6); return False if none was issued."""
        self._tell_secrets()
        login, more = self._login, self._login.more
        token, url = login.get("refresh_token"), more.get("token_url")
        if not token or not isinstance(url, str):
            return False
        fields = {"grant_type": "refresh_token", "refresh_token": token, "client_id": login.get("client_id")}
        more = {"client_secret": login.get("client_secret"), **more}
        for name in ("client_secret", "resource"):
            if isinstance(value := more.get(name), str) and value:
                fields[name] = value
        try:
            response = await asyncio.to_thread(self._send_token_request, url, urlencode(fields).encode())
            answer = read_json(response.body, max_bytes=_MAX_TOKEN_BYTES, max_depth=8)
        except (HttpFailure, JsonError):
            return False
        issued = answer.get("access_token") if response.status == 200 and isinstance(answer, dict) else None
        if not isinstance(issued, str) or not issued or str(answer.get("token_type", "bearer")).lower() != "bearer":
            return False
        keep_token(login, issued, answer.get("refresh_token"), answer.get("expires_in"))
        return True

    def _send_token_request(self, url: str, body: bytes) -> HttpResponse:
        """Send a refresh token to the server that issued it: https only, and not scanned for secrets."""
        headers = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))
        with EgressGateway(self._network) as gateway:
            return gateway.send_own("POST", url, headers, body, timeout_seconds=OAUTH_TIMEOUT_SECONDS)


def keep_token(login: KeptLogin, token: str, refresh: Any, expires_in: Any) -> None:
    """Store an issued token; without a new refresh token, the old one is kept (RFC 6749, 6)."""
    login.set("access_token", token)
    if isinstance(refresh, str) and refresh:
        login.set("refresh_token", refresh)
    known = isinstance(expires_in, int | float) and not isinstance(expires_in, bool) and 0 < expires_in < 2**32
    login.set_more(expires_at=time.time() + expires_in if known else None)


def make_login(
    server: McpServerConfig,
    secrets: SecretsStore | None,
    user: str,
    network: NetworkConfig,
    given: Callable[[str, str], None],
) -> LoginAuth | None:
    """Return the authentication that sends a user's login token, or None for a server with a different token.

    `given` receives the name and the value of every secret of the login before the token is sent to the server.
    """
    if server.bearer or secrets is None:
        return None
    return LoginAuth(server, KeptLogin(secrets, user, server), network, given)
