"""Before a login: the choice of the client, the allowed variables, and the secrets that it may replace."""

from __future__ import annotations

import threading
import urllib.request
from typing import Any

import pytest
from wasmrt.testing import MemorySecrets

from tests.egress.gateway.world import MakeWorld, World
from wasmrt.capabilities.file import OAuthConfig
from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.gateway import EgressGateway, NetworkConfig
from wasmrt.egress.oauth import OAuthError, Tokens, check_replaceable, log_in, login_state, store_tokens
from wasmrt.egress.secrets import Secret

from .oauth_server import OAuthServer


def config(**more: Any) -> OAuthConfig:
    urls = {"authorization_url": "https://auth.example.com/authorize", "token_url": "https://auth.example.com/token"}
    return OAuthConfig(**(urls | more))


ENVIRON = {
    "MY_CLIENT_ID": "from-env",
    "MY_CLIENT_SECRET": "secret-from-env",
    "AWS_SECRET_ACCESS_KEY": "never",
    "EMPTY_CLIENT_ID": "",
}


def test_the_client_id_of_the_file_takes_precedence_over_the_environment() -> None:
    state = login_state(
        config(client_id="in-file", client_id_env="MY_CLIENT_ID", client_secret="secret-in-file"), ENVIRON
    )
    assert (state.client_id, state.client_secret) == ("in-file", "secret-in-file")
    state = login_state(config(client_id_env="MY_CLIENT_ID", client_secret_env="MY_CLIENT_SECRET"), ENVIRON)
    assert (state.client_id, state.client_secret) == ("from-env", "secret-from-env")
    assert (state.refresh_token, state.expires_at) == (None, None)
    assert login_state(config(client_id="in-file"), ENVIRON).client_secret is None


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ({}, "ask the tool's author to set client_id or client_id_env in the capability file"),
        ({"client_id_env": "UNSET_CLIENT_ID"}, "set the variable UNSET_CLIENT_ID"),
        ({"client_id_env": "EMPTY_CLIENT_ID"}, "set the variable EMPTY_CLIENT_ID"),
    ],
)
def test_a_login_needs_a_client_id(more: dict[str, str], hint: str) -> None:
    with pytest.raises(ConfigurationError, match="client id") as caught:
        login_state(config(**more), ENVIRON)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("more", "ending"),
    [
        ({"client_id_env": "AWS_SECRET_ACCESS_KEY"}, "CLIENT_ID"),
        ({"client_id": "x", "client_secret_env": "AWS_SECRET_ACCESS_KEY"}, "CLIENT_SECRET"),
        ({"client_id": "x", "client_secret_env": "CLIENT_SECRET_KEY"}, "CLIENT_SECRET"),
    ],
)
def test_a_file_may_only_name_variables_meant_for_a_login(more: dict[str, str], ending: str) -> None:
    with pytest.raises(ConfigurationError, match=f"does not end in {ending}") as caught:
        login_state(config(**more), ENVIRON)
    assert "never" not in str(caught.value)


def test_a_variable_meant_for_a_login_may_be_in_lower_case() -> None:
    assert login_state(config(client_id_env="my_client_id"), {"my_client_id": "x"}).client_id == "x"


def test_a_login_only_replaces_an_earlier_login_at_the_same_endpoint() -> None:
    store = MemorySecrets()
    here = login_state(config(client_id="x"), {})
    elsewhere = login_state(config(client_id="x", token_url="https://other.example.com/token"), {})
    check_replaceable(store, "ann", "token", here)
    store.set("ann", "token", Secret("set by hand, and long enough"))
    with pytest.raises(ConfigurationError, match=r"was not issued by auth\.example\.com") as caught:
        check_replaceable(store, "ann", "token", here)
    assert "--replace" in (caught.value.hint or "")
    check_replaceable(store, "bob", "token", here)
    store_tokens(store, "ann", "token", here, Tokens("an-access-token", None, None))
    check_replaceable(store, "ann", "token", here)
    with pytest.raises(ConfigurationError):
        check_replaceable(store, "ann", "token", elsewhere)


@pytest.mark.parametrize(
    "url", ["http://auth.example.com/", "javascript:alert(1)", "file:///etc/passwd", "auth.example.com"]
)
def test_an_authorization_url_must_be_https(url: str) -> None:
    with EgressGateway(NetworkConfig()) as gateway, pytest.raises(ConfigurationError, match="https://"):
        oauth = config(client_id="x", authorization_url=url)
        log_in(gateway, oauth, login_state(oauth, {}), present=lambda shown: pytest.fail(shown))


def browse(w: World, url: str) -> None:
    """Act as the browser: log in, and follow the redirect of the authorization server."""
    target = url.partition(str(w.server.port))[2]
    answer = w.gateway.send_own("GET", w.url(target), (), None, timeout_seconds=10)
    location = next(value for name, value in answer.headers if name == "Location")
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(location, timeout=10).close()


def test_a_user_logs_in_and_the_tokens_are_returned(world: MakeWorld) -> None:
    server = OAuthServer()
    w = world(server.script)
    urls = {"authorization_url": w.url("/authorize"), "token_url": w.url("/token")}
    oauth = config(client_id="a-client", scopes=("read",), **urls)
    threads: list[threading.Thread] = []

    def present(url: str) -> None:
        threads.append(threading.Thread(target=browse, args=(w, url)))
        threads[0].start()

    tokens = log_in(w.gateway, oauth, login_state(oauth, {}), present=present)
    threads[0].join(10)
    assert tokens.access_token in server.good and server.issued[0]["scope"] == "read"


def test_a_login_that_is_never_completed_times_out(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.oauth._login.OAUTH_LOGIN_SECONDS", 0.01)
    w = world(OAuthServer().script)
    oauth = config(client_id="a-client")
    with pytest.raises(OAuthError, match="in time"):
        log_in(w.gateway, oauth, login_state(oauth, {}), present=lambda url: None)
