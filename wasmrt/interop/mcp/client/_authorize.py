"""User login: discovery, checks that the SDK lacks, and the SDK's flow limited to the approved origins."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    handle_auth_metadata_response,
    handle_protected_resource_response,
    issuers_match,
)
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from wasmrt.capabilities.file import OAuthConfig as LoginSection
from wasmrt.core.errors import ConfigurationError, NotAuthorizedError
from wasmrt.core.limits import OAUTH_LOGIN_SECONDS, OAUTH_TIMEOUT_SECONDS
from wasmrt.egress.gateway import EgressGateway, NetworkConfig
from wasmrt.egress.oauth import LoopbackCallback, log_in, login_state
from wasmrt.interop.mcp.client._errors import as_wasmrt_error, to_safe_line
from wasmrt.interop.mcp.client._login import KeptLogin, keep_token
from wasmrt.interop.mcp.client._settings import LOOPBACK, McpServerConfig
from wasmrt.interop.mcp.client._transport import open_client

_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint")


class Issuer(NamedTuple):
    """The authorization server of an MCP server, and the origins that a login there may reach."""

    issuer: str
    origins: tuple[str, ...]
    token_url: str
    resource: str
    scope: str


async def discover(server: McpServerConfig, network: NetworkConfig, agree: Callable[[str], None]) -> Issuer:
    """Find a server's authorization server (RFC 9728, RFC 8414); `agree` approves it before it is contacted.

    Raises:
        NotAuthorizedError: the server names no permitted authorization server; `agree` may raise as well.
    """
    async with asyncio.timeout(OAUTH_TIMEOUT_SECONDS):
        resource, issuer, scope = await _find_protected_resource(server, network)
    agree(_get_origin(issuer))
    async with asyncio.timeout(OAUTH_TIMEOUT_SECONDS):
        client = open_client(server, network, auth_origins=[_get_origin(issuer)])
        try:
            metadata = await _fetch_metadata(client, issuer, server)
        finally:
            await client.aclose()
    urls = [str(url) for name in _ENDPOINTS if (url := getattr(metadata, name, None)) is not None]
    for url in urls:
        _check_secure(url, server)
    # SECURITY: without PKCE, the server may accept a stolen code (OAuth 2.1, 7.5.2).
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise _make_unusable_error(
            f"the metadata of {to_safe_line(issuer)} lacks S256 in code_challenge_methods_supported (PKCE)"
        )
    origins = dict.fromkeys([_get_origin(issuer), *map(_get_origin, urls)])
    return Issuer(issuer, tuple(origins), str(metadata.token_endpoint), resource, scope)


async def authorize(
    server: McpServerConfig,
    network: NetworkConfig,
    login: KeptLogin,
    issuer: Issuer,
    *,
    scope: str = "",
    present: Callable[[str], None],
) -> None:
    """Run a user login and store the tokens; `present` receives the address to open in a browser.

    Raises:
        NotAuthorizedError: the login was not completed, or the authorization server refused it.
    """
    wanted = scope or " ".join(server.oauth.scopes if server.oauth else ())
    with LoopbackCallback(secrets.token_urlsafe(32)) as callback:
        storage = _Storage(login, server, issuer, callback.redirect_uri)
        provider = OAuthClientProvider(
            server.url,
            OAuthClientMetadata(
                client_name="wasmrt",
                redirect_uris=[AnyUrl(callback.redirect_uri)],
                grant_types=["authorization_code", "refresh_token"],
                response_types=["code"],
                token_endpoint_auth_method="none",  # noqa: S106 - a method's name
                scope=wanted or issuer.scope or None,
            ),
            storage,
            redirect_handler=_redirect_handler(callback, present, server, wanted),
            callback_handler=_make_callback_handler(callback),
            client_metadata_url=_find_metadata_document(server),
        )
        client = open_client(server, network, auth=provider, auth_origins=issuer.origins)
        try:
            async with asyncio.timeout(OAUTH_LOGIN_SECONDS + OAUTH_TIMEOUT_SECONDS):
                await client.post(server.url, json=_PROBE, headers=_ACCEPT)
        except TimeoutError:
            raise _make_unusable_error("no login was completed in time") from None
        except Exception as error:
            raise _make_unusable_error(f"the login failed: {_explain_failure(error, server.name)}") from error
        finally:
            await client.aclose()
    if not login.get("access_token"):
        raise _make_unusable_error("the server asked for no login")
    if server.oauth is not None and server.oauth.client_id:
        login.set("client_id", server.oauth.client_id)
    login.set_more(token_url=issuer.token_url, issuer=issuer.issuer, resource=issuer.resource)


_PROBE = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_ACCEPT = {"Accept": "application/json, text/event-stream"}


async def _find_protected_resource(server: McpServerConfig, network: NetworkConfig) -> tuple[str, str, str]:
    """Return the resource, its first authorization server, and its scopes."""
    client = open_client(server, network)
    try:
        refused = await client.post(server.url, json=_PROBE, headers=_ACCEPT)
        named = extract_resource_metadata_from_www_auth(refused) if refused.status_code == 401 else None
        scope = extract_scope_from_www_auth(refused) or ""
        for url in build_protected_resource_metadata_discovery_urls(named, server.url):
            # SECURITY: the server chose this address; the allowlist contains only its own origin.
            found = await handle_protected_resource_response(await client.get(url))
            if found is not None and found.authorization_servers:
                if not _covers(str(found.resource), server.url):
                    raise _make_unusable_error("the metadata names a different resource")
                return str(found.resource), str(found.authorization_servers[0]), scope
    except httpx2.HTTPError as error:
        raise as_wasmrt_error(error, server.name) from error
    finally:
        await client.aclose()
    return server.url, _get_origin(server.url), scope  # for servers without RFC 9728


async def _fetch_metadata(client: httpx2.AsyncClient, issuer: str, server: McpServerConfig) -> Any:
    _check_secure(issuer, server)
    try:
        for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, server.url):
            usable, metadata = await handle_auth_metadata_response(await client.get(url))
            if metadata is not None:
                if not issuers_match(str(metadata.issuer), issuer):
                    raise _make_unusable_error(f"the metadata of {to_safe_line(issuer)} names a different issuer")
                return metadata
            if not usable:
                break
    except httpx2.HTTPError as error:
        raise as_wasmrt_error(error, server.name) from error
    raise _make_unusable_error(f"{to_safe_line(issuer)} has no authorization server metadata")


def log_in_known(
    server: McpServerConfig, gateway: EgressGateway, login: KeptLogin, *, scope: str, present: Callable[[str], None]
) -> tuple[str, ...]:
    """Run a user login at the configured addresses; return the origins that renew the token.

    Raises:
        OAuthError: the login was not completed, or the authorization server refused it.
        ConfigurationError: the file names no client.
    """
    oauth = server.oauth
    assert oauth is not None
    if not oauth.client_id:
        raise ConfigurationError("a login with authorization_url and token_url also needs client_id")
    known = LoginSection(
        authorization_url=oauth.authorization_url,
        token_url=oauth.token_url,
        client_id=oauth.client_id,
        scopes=tuple(scope.split()) or oauth.scopes,
        extra_params=tuple(oauth.extra_params.items()),
    )
    tokens = log_in(gateway, known, login_state(known, {}), present=present)
    left = None if tokens.expires_at is None else tokens.expires_at - time.time()
    keep_token(login, tokens.access_token, tokens.refresh_token, left)
    login.set("client_id", oauth.client_id)
    login.set_more(token_url=oauth.token_url, resource="")
    return (_get_origin(oauth.token_url),)


class _Storage:
    """A `TokenStorage` of the SDK that writes to the secrets store."""

    def __init__(self, login: KeptLogin, server: McpServerConfig, issuer: Issuer, redirect_uri: str) -> None:
        self._login = login
        self._server = server
        self._issuer = issuer
        self._redirect_uri = redirect_uri

    async def get_tokens(self) -> OAuthToken | None:
        """Return no tokens, so that the user logs in again."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens."""
        keep_token(self._login, tokens.access_token, tokens.refresh_token, tokens.expires_in)
        self._login.set_more(scope=tokens.scope or "")

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the configured client; otherwise the client registered for this redirect address, if any."""
        known = self._server.oauth.client_id if self._server.oauth else ""
        if not known or _find_metadata_document(self._server):
            return None
        secret = self._login.get("client_secret")
        return OAuthClientInformationFull(
            client_id=known,
            client_secret=secret or None,
            redirect_uris=[AnyUrl(self._redirect_uri)],
            # The method that every server with client secrets supports (RFC 6749, 2.3.1).
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the client."""
        self._login.set("client_id", client_info.client_id or "")
        self._login.set_more(client_secret=client_info.client_secret or "")


def _redirect_handler(
    callback: LoopbackCallback, present: Callable[[str], None], server: McpServerConfig, wanted: str
) -> Any:
    async def handler(url: str) -> None:
        _check_secure(url, server)
        base, _, query = url.partition("?")
        fields = dict(parse_qsl(query))
        callback.expect(fields.get("state", ""))
        # The SDK requests only the scopes of the server's last challenge.
        scopes = dict.fromkeys([*wanted.split(), *fields.get("scope", "").split()])
        if scopes:
            fields["scope"] = " ".join(scopes)
        present(f"{base}?{urlencode({**(server.oauth.extra_params if server.oauth else {}), **fields})}")

    return handler


def _make_callback_handler(callback: LoopbackCallback) -> Any:
    async def handler() -> AuthorizationCodeResult:
        code = await asyncio.to_thread(callback.wait, OAUTH_LOGIN_SECONDS)
        return AuthorizationCodeResult(code=code, state=callback.state, iss=callback.issuer)

    return handler


def _explain_failure(error: Exception, name: str) -> str:
    """Return why a login failed, without the refusing server's text."""
    if isinstance(error, OAuthRegistrationError):
        return "the authorization server does not register clients; register one by hand, and set its client_id"
    if isinstance(error, OAuthTokenError):
        return "the authorization server refused to issue a token"
    if isinstance(error, OAuthFlowError):
        return "the responses of the two servers contradict each other"
    return as_wasmrt_error(error, name).message


def _find_metadata_document(server: McpServerConfig) -> str | None:
    """Return `client_id` if it is the URL of a client metadata document, else None."""
    known = server.oauth.client_id if server.oauth else ""
    return known if known.startswith("https://") else None


def _check_secure(url: str, server: McpServerConfig) -> None:
    """Refuse an address without TLS (OAuth 2.1, 1.5), except loopback addresses for a loopback server."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and server.is_loopback and parts.hostname in LOOPBACK):
        return
    raise _make_unusable_error(f"{to_safe_line(url)} is not an https:// address")


def _covers(resource: str, url: str) -> bool:
    mine, theirs = urlsplit(url), urlsplit(resource)
    return _get_origin(resource) == _get_origin(url) and (mine.path + "/").startswith(theirs.path.rstrip("/") + "/")


def _get_origin(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigurationError(f"{to_safe_line(url)} cannot be used for a login")
    return f"{parts.scheme}://{parts.netloc}"


def _make_unusable_error(problem: str) -> NotAuthorizedError:
    return NotAuthorizedError(problem, code="mcp-login", hint="report it to the server's operator")
