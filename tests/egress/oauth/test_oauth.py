"""Logins with PKCE at a real authorization server, and renewal of its tokens."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest
from wasmrt.testing import FakeCall, http_response

from tests.egress.gateway.world import HOST, MakeWorld, World
from wasmrt.capabilities import CredentialLocation, CredentialMapping
from wasmrt.core.errors import SecretExpiredError
from wasmrt.egress.gateway import HttpRequest
from wasmrt.egress.oauth import (
    AuthorizationRequest,
    LoopbackCallback,
    OAuthError,
    OAuthState,
    Renewals,
    RenewingSecrets,
    TokenEndpoint,
    Tokens,
    load_state,
    store_tokens,
    token_renewer,
)
from wasmrt.egress.secrets import Secret

from .oauth_server import OAuthServer


def endpoint(w: World, **more: Any) -> TokenEndpoint:
    return TokenEndpoint(w.gateway, w.url("/token"), client_id="a-client", **more)


def authorize(w: World, login: AuthorizationRequest, redirect_uri: str) -> str:
    """Act as the browser: request authorization, and return the address of the redirect."""
    url = login.url(w.url("/authorize"), client_id="a-client", redirect_uri=redirect_uri, scopes=("read", "write"))
    target = url.partition(str(w.server.port))[2]
    answer = w.gateway.send_own("GET", w.url(target), (), None, timeout_seconds=10)
    assert answer.status == 302, answer.body
    return next(value for name, value in answer.headers if name == "Location")


def come_back(location: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(location, timeout=10) as page:
            return int(page.status)
    except HTTPError as error:
        with error:
            return error.code


def log_in(w: World) -> Tokens:
    login = AuthorizationRequest.new()
    with LoopbackCallback(login.state) as callback:
        assert come_back(authorize(w, login, callback.redirect_uri)) == 200
        code = callback.wait(10)
        return endpoint(w).exchange(code, verifier=login.verifier, redirect_uri=callback.redirect_uri)


@pytest.fixture
def oauth() -> OAuthServer:
    return OAuthServer()


@pytest.fixture
def w(world: MakeWorld, oauth: OAuthServer) -> World:
    return world(oauth.script)


def test_a_login_returns_tokens(w: World, oauth: OAuthServer) -> None:
    tokens = log_in(w)
    assert tokens.access_token in oauth.good
    assert tokens.refresh_token in oauth.refresh_tokens
    assert oauth.issued[0]["scope"] == "read write"
    assert tokens.expires_at is not None
    assert tokens.access_token not in repr(tokens)


def test_a_stolen_code_is_useless_without_the_verifier(w: World) -> None:
    login = AuthorizationRequest.new()
    with LoopbackCallback(login.state) as callback:
        come_back(authorize(w, login, callback.redirect_uri))
        code = callback.wait(10)
        with pytest.raises(OAuthError) as caught:
            endpoint(w).exchange(code, verifier=AuthorizationRequest.new().verifier, redirect_uri=callback.redirect_uri)
        assert caught.value.code == "invalid_grant"
        assert code not in str(caught.value)


def test_a_code_with_another_state_is_refused_and_does_not_end_the_login(w: World) -> None:
    login = AuthorizationRequest.new()
    with LoopbackCallback(login.state) as callback:
        base = callback.redirect_uri
        for query in ("code=evil&state=wrong", "code=evil", f"code=evil&state={login.state}&state=x", ""):
            assert come_back(f"{base}?{query}") == 400
        assert come_back(base.replace("/callback", "/") + f"?code=evil&state={login.state}") == 400
        assert come_back(authorize(w, login, base)) == 200
        assert come_back(f"{base}?code=late&state={login.state}") == 400
        assert callback.wait(10) not in ("evil", "late")


def test_a_user_who_refuses_ends_the_login(w: World) -> None:
    login = AuthorizationRequest.new()
    with LoopbackCallback(login.state) as callback:
        assert come_back(f"{callback.redirect_uri}?error=access_denied&state={login.state}") == 200
        with pytest.raises(OAuthError, match="refused"):
            callback.wait(10)


def test_a_missing_redirect_times_out(w: World) -> None:
    with LoopbackCallback("state") as callback, pytest.raises(OAuthError, match="in time"):
        callback.wait(0.01)


def test_pkce_and_state_are_always_part_of_the_address() -> None:
    login = AuthorizationRequest.new()
    url = login.url(
        "https://id.example.com/auth?tenant=1",
        client_id="c d",
        redirect_uri="http://127.0.0.1:1/callback",
        extra_params=(("prompt", "consent"), ("state", "fixed"), ("code_challenge_method", "plain")),
    )
    query = parse_qs(urlsplit(url).query)
    assert query["state"] == [login.state] and query["code_challenge_method"] == ["S256"]
    assert query["tenant"] == ["1"] and query["prompt"] == ["consent"] and query["client_id"] == ["c d"]
    assert 43 <= len(login.verifier) <= 128  # RFC 7636 4.1
    assert login.verifier not in url and login.state not in repr(login)
    assert AuthorizationRequest.new().state != login.state


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, b'{"error": "invalid_grant", "error_description": "the token rt-secret is old"}', "invalid_grant"),
        (400, b'{"error": "rt-secret"}', "oauth"),
        (500, b"rt-secret", "oauth"),
        (200, b"rt-secret", "oauth"),
        (200, b'{"access_token": 5}', "oauth"),
        (200, b'{"access_token": "x", "token_type": "mac"}', "oauth"),
        (200, b"[" * 5000, "oauth"),
        (302, b"", "oauth"),
    ],
)
def test_an_invalid_token_response_is_an_error_without_its_text(
    world: MakeWorld, status: int, body: bytes, code: str
) -> None:
    w = world(lambda r, c: http_response(body, status=status))
    with pytest.raises(OAuthError) as caught:
        endpoint(w).refresh("rt-secret")
    assert caught.value.code == code
    assert "rt-secret" not in repr(caught.value) + str(caught.value.hint)


@pytest.mark.parametrize(
    ("lifetime", "known"),
    [
        (b"3600", True),
        (b'"3600"', True),
        (b"true", False),
        (b"-1", False),
        (b"1e300", False),
        (b'"' + b"9" * 5000 + b'"', False),
        ('"\u00b2"'.encode(), False),
        (b"null", False),
    ],
)
def test_an_invalid_token_lifetime_is_ignored(world: MakeWorld, lifetime: bytes, known: bool) -> None:
    w = world(lambda r, c: http_response(b'{"access_token": "at-1", "expires_in": ' + lifetime + b"}"))
    tokens = endpoint(w, now=lambda: 1000.0).refresh("rt-secret")
    assert (tokens.access_token, tokens.expires_at) == ("at-1", 4600.0 if known else None)


def test_an_endpoint_over_plain_http_or_on_an_internal_address_is_not_used(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"{}"), tls=False)
    with pytest.raises(OAuthError):
        endpoint(w).refresh("rt-secret")
    for url in ("https://10.0.0.1/token", "https://169.254.169.254/token", "https://user@api.example.com/"):
        with pytest.raises(OAuthError):
            TokenEndpoint(w.gateway, url, client_id="c").refresh("rt-secret")
    assert w.server.connections == 0


# -- renewing ------------------------------------------------------------------------------------------------------


def logged_in(w: World, user: str = "ann", **endpoint_options: Any) -> tuple[RenewingSecrets, Callable[[], int]]:
    state = OAuthState(
        token_url=w.url("/token"),
        client_id="a-client",
        client_secret=None,
        refresh_token=None,
        access_token_field="access_token",
        expires_at=None,
    )
    store_tokens(w.store, user, "api_token", state, log_in(w))
    count = 0

    def renew(kept: OAuthState) -> Tokens:
        nonlocal count
        count += 1
        return token_renewer(lambda: w.gateway)(kept)

    return RenewingSecrets(w.store, user, renew), lambda: count


def test_a_token_is_renewed_before_it_expires(w: World, oauth: OAuthServer) -> None:
    oauth.lifetime = 30  # less than the margin, so a renewal is due at once
    view, renewals = logged_in(w)
    first = oauth.issued[-1]["access_token"]
    oauth.lifetime = 3600
    assert view.get("api_token").reveal() == oauth.issued[-1]["access_token"] != first
    assert renewals() == 1
    view.get("api_token")
    assert renewals() == 1


def test_many_concurrent_calls_renew_a_token_once(w: World, oauth: OAuthServer) -> None:
    oauth.lifetime = 30
    view, renewals = logged_in(w)
    oauth.lifetime = 3600
    start = threading.Barrier(8)
    values: list[str] = []

    def one() -> None:
        start.wait()
        values.append(view.get("api_token").reveal())

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert renewals() == 1
    assert set(values) == {oauth.issued[-1]["access_token"]}


def call_with(w: World, view: RenewingSecrets) -> FakeCall:
    mapping = CredentialMapping(secret_name="api_token", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    call = w.call(mapping)
    call.secrets = view
    return call


def test_a_refused_token_is_renewed_and_the_request_repeated_once(w: World, oauth: OAuthServer) -> None:
    view, renewals = logged_in(w)
    call = call_with(w, view)
    assert w.get("/api", call).body == b"welcome"
    oauth.good.clear()  # the server revokes it early
    assert w.get("/api", call).body == b"welcome"
    assert renewals() == 1
    assert call.requests_left == 50 - 3


def test_a_token_that_cannot_be_renewed_is_an_ordinary_401(w: World, oauth: OAuthServer) -> None:
    view, renewals = logged_in(w)
    oauth.good.clear()
    oauth.refresh_tokens.clear()
    asked = len(w.server.requests)
    assert w.get("/api", call_with(w, view)).status == 401
    assert renewals() == 1
    assert [r.target for r in w.server.requests[asked:]] == ["/api", "/token"]


def test_calls_of_one_user_share_a_view_and_calls_of_two_users_do_not(w: World) -> None:
    renewals = Renewals(w.store, token_renewer(lambda: w.gateway))
    assert renewals.of("ann") is renewals.of("ann")
    assert renewals.of("ann") is not renewals.of("bob")


def test_a_plain_secret_is_not_renewed(w: World) -> None:
    w.store.set("ann", "api_token", Secret("plain-secret-value"))
    view = RenewingSecrets(w.store, "ann", lambda state: pytest.fail("asked"))
    assert w.get("/api", call_with(w, view)).status == 401
    assert len(w.server.requests) == 1


def test_an_expired_token_that_cannot_be_renewed_fails_closed(w: World, oauth: OAuthServer) -> None:
    oauth.lifetime = 1
    view, _ = logged_in(w)
    oauth.refresh_tokens.clear()
    later = RenewingSecrets(w.store, "ann", view._renew, now=lambda: 2**33)
    w.store._now = lambda: 2**33  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(SecretExpiredError):
        later.get("api_token")
    assert not w.store.exists("ann", "api_token")
    assert later.exists("api_token")  # as far as is known here, it can be renewed


def test_neither_the_old_nor_the_new_token_is_returned_by_an_echo(world: MakeWorld, oauth: OAuthServer) -> None:
    def script(request: Any, connection: Any) -> bytes:
        answer = oauth.script(request, connection)
        if request.target != "/api":
            return answer
        seen.append(request.header("Authorization").removeprefix("Bearer "))
        return http_response(" ".join(seen).encode(), status=200 if seen[-1] in oauth.good else 401)

    seen: list[str] = []
    w = world(script)
    view, _ = logged_in(w)
    oauth.good.clear()
    body = w.get("/api", call_with(w, view)).body
    assert len(seen) == 2 and seen[0] != seen[1]
    assert all(token.encode() not in body for token in seen)


def test_a_grant_cannot_access_the_refresh_token(w: World) -> None:
    logged_in(w)
    state = load_state(w.store, "ann", "api_token")
    assert state is not None and state.refresh_token not in repr(state)
    from wasmrt.core.errors import ConfigurationError

    with pytest.raises(ConfigurationError):
        CredentialMapping(secret_name="api_token~oauth", location=CredentialLocation.bearer(), host_patterns=(HOST,))


def test_a_login_does_not_use_the_guests_grant(w: World) -> None:
    """Token requests are sent by the host: a guest's request to the token endpoint still needs a grant."""
    call = w.call(path_prefix="/api")
    from wasmrt.egress.gateway import HttpFailure

    with pytest.raises(HttpFailure, match="other paths"):
        w.gateway.fetch(call, HttpRequest("POST", w.url("/token")))
