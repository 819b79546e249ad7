"""A login from its section of the capability file: the client, the name it is kept under, and the whole way."""

from __future__ import annotations

import threading
import urllib.request

import pytest

from tests.egress.world import MakeWorld, World
from wasmrt.capabilities.file import OAuthConfig
from wasmrt.errors import ConfigurationError
from wasmrt.oauth import OAuthError, Tokens, check_replaceable, log_in, login_state, store_tokens
from wasmrt.secrets import Secret
from wasmrt.testing import MemorySecrets

from .oauth_server import OAuthServer

ID = "https://id.example.com"


def config(**more: object) -> OAuthConfig:
    values = {"authorization_url": f"{ID}/authorize", "token_url": f"{ID}/token", "client_id": "a-client"}
    return OAuthConfig(**values | more)  # type: ignore[arg-type]


def test_the_client_is_the_files_or_a_variables_that_says_it_is_for_this() -> None:
    environ = {"MY_CLIENT_ID": "from-env", "MY_CLIENT_SECRET": "a-secret", "AWS_SECRET_ACCESS_KEY": "never"}
    assert login_state(config(), environ).client_id == "a-client"
    asked = config(client_id=None, client_id_env="MY_CLIENT_ID", client_secret_env="MY_CLIENT_SECRET")
    state = login_state(asked, environ)
    assert (state.client_id, state.client_secret, state.token_url) == ("from-env", "a-secret", f"{ID}/token")
    with pytest.raises(ConfigurationError, match="does not end in CLIENT_SECRET") as caught:
        login_state(config(client_secret_env="AWS_SECRET_ACCESS_KEY"), environ)
    assert "never" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"), [("MY_CLIENT_ID", "set the variable MY_CLIENT_ID"), (None, "the capability file has none")]
)
def test_a_login_without_a_client_says_where_one_could_stand(name: str | None, hint: str) -> None:
    with pytest.raises(ConfigurationError, match="needs a client id") as caught:
        login_state(config(client_id=None, client_id_env=name), {"MY_CLIENT_ID": ""})
    assert caught.value.hint == hint


def test_a_login_takes_the_name_of_no_secret_that_came_from_elsewhere() -> None:
    store, state = MemorySecrets(), login_state(config(), {})
    check_replaceable(store, "ann", "api_token", state)
    store.set("ann", "api_token", Secret("of another tool"))
    with pytest.raises(ConfigurationError, match=r"did not come from id\.example\.com"):
        check_replaceable(store, "ann", "api_token", state)
    check_replaceable(store, "bob", "api_token", state)
    store_tokens(store, "ann", "api_token", state, Tokens("at-1", "rt-1", None))
    check_replaceable(store, "ann", "api_token", state)
    with pytest.raises(ConfigurationError):
        elsewhere = login_state(config(token_url="https://evil.example/token"), {})
        check_replaceable(store, "ann", "api_token", elsewhere)


def test_a_login_over_plain_http_is_not_begun(world: MakeWorld) -> None:
    w = world(OAuthServer().script)
    oauth = config(authorization_url="http://id.example.com/authorize")
    with pytest.raises(ConfigurationError, match="https://"):
        log_in(w.gateway, oauth, login_state(oauth, {}), present=lambda url: pytest.fail(url))


def browse(w: World, url: str) -> None:
    """Be the browser: log in, and go where the authorization server sends it."""
    target = url.partition(str(w.server.port))[2]
    answer = w.gateway.send_own("GET", w.url(target), (), None, timeout_seconds=10)
    location = next(value for name, value in answer.headers if name == "Location")
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(location, timeout=10).close()


def test_a_person_logs_in_and_the_tokens_come_back(world: MakeWorld) -> None:
    server = OAuthServer()
    w = world(server.script)
    oauth = config(authorization_url=w.url("/authorize"), token_url=w.url("/token"), scopes=("read",))
    threads: list[threading.Thread] = []

    def present(url: str) -> None:
        threads.append(threading.Thread(target=browse, args=(w, url)))
        threads[0].start()

    tokens = log_in(w.gateway, oauth, login_state(oauth, {}), present=present)
    threads[0].join(10)
    assert tokens.access_token in server.good and server.issued[0]["scope"] == "read"


def test_nobody_logging_in_ends_the_login(world: MakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.oauth._login.OAUTH_LOGIN_SECONDS", 0.01)
    w = world(OAuthServer().script)
    oauth = config()
    with pytest.raises(OAuthError, match="in time"):
        log_in(w.gateway, oauth, login_state(oauth, {}), present=lambda url: None)
