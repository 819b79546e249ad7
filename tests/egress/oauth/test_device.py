"""Logins without a browser: a code on another device, and a forwarded port."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from tests.egress.gateway.world import MakeWorld, World
from wasmrt.capabilities.file import OAuthConfig
from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.oauth import DeviceCode, LoopbackCallback, OAuthError, Tokens, log_in_by_device, login_state

CODE = {
    "device_code": "device-code-1",
    "user_code": "WDJB-MJHT",
    "verification_uri": "https://login.example.com/device",
    "interval": 2,
    "expires_in": 900,
}
PENDING, SLOW = {"error": "authorization_pending"}, {"error": "slow_down"}
TOKEN = {"access_token": "access-token-1", "token_type": "Bearer", "refresh_token": "refresh-token-1"}


class Device:
    """A server that issues device codes, and responds to each token request with the next of `answers`."""

    def __init__(self, world: MakeWorld, code: dict[str, Any], *answers: tuple[int, dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.code = code
        self.asked: list[dict[str, list[str]]] = []
        self.waits: list[float] = []
        self.shown: list[DeviceCode] = []
        self.now = 0.0
        self.world: World = world(self._script)

    def _script(self, request: ReceivedRequest, connection: ServerConnection) -> bytes:
        self.asked.append(parse_qs(request.body.decode()))
        status, data = (200, self.code) if request.target == "/device" else self.answers.pop(0)
        return http_response(json.dumps(data).encode(), status=status)

    def log_in(self) -> Tokens:
        oauth = OAuthConfig(
            authorization_url=self.world.url("/authorize"),
            token_url=self.world.url("/token"),
            device_authorization_url=self.world.url("/device"),
            client_id="a-client",
            scopes=("read", "write"),
        )
        gateway, state = self.world.gateway, login_state(oauth, {})
        return log_in_by_device(gateway, oauth, state, present=self.shown.append, wait=self._wait, now=lambda: self.now)

    def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def test_a_user_enters_a_code_on_another_device_and_the_tokens_are_returned(world: MakeWorld) -> None:
    device = Device(world, CODE, (400, PENDING), (200, PENDING), (200, TOKEN))

    tokens = device.log_in()
    assert (tokens.access_token, tokens.refresh_token) == ("access-token-1", "refresh-token-1")
    assert device.shown == [("https://login.example.com/device", "WDJB-MJHT")]
    assert device.asked[0] == {"client_id": ["a-client"], "scope": ["read write"]}
    assert device.asked[1]["grant_type"] == ["urn:ietf:params:oauth:grant-type:device_code"]
    assert device.waits == [2, 2, 2]


def test_a_slow_down_response_increases_the_interval(world: MakeWorld) -> None:
    device = Device(world, CODE, (400, SLOW), (400, SLOW), (200, TOKEN))

    device.log_in()
    assert device.waits == [2, 7, 12]


@pytest.mark.parametrize("interval", [True, -1, 0, "2", None, 2**31])
def test_an_invalid_interval_is_replaced_by_the_default_of_the_rfc(world: MakeWorld, interval: object) -> None:
    device = Device(world, CODE | {"interval": interval, "expires_in": interval}, (400, PENDING), (200, TOKEN))

    assert device.log_in().access_token == "access-token-1"
    assert device.waits == [5, 5]


def test_an_unreachable_device_endpoint_is_an_error_with_its_reason(world: MakeWorld) -> None:
    device = Device(lambda script: world(script, networks=()), CODE)
    with pytest.raises(OAuthError, match="no device code was issued") as caught:
        device.log_in()
    assert caught.value.code == "address-not-allowed" and caught.value.hint
    assert device.shown == [] and device.asked == []


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([(400, {"error": "access_denied"})], "login-refused"),
        ([(400, {"error": "expired_token"})], "expired_token"),
        ([(500, {})], "oauth"),
        ([(400, PENDING)] * 500, "login-timeout"),
    ],
)
def test_an_incomplete_login_ends_with_an_error(world: MakeWorld, answers: list[Any], code: str) -> None:
    with pytest.raises(OAuthError) as caught:
        Device(world, CODE, *answers).log_in()
    assert caught.value.code == code


@pytest.mark.parametrize(
    "code",
    [
        {},
        CODE | {"verification_uri": "http://login.example.com/"},
        CODE | {"verification_uri": "javascript:alert(1)"},
        CODE | {"user_code": "x\x1b[2J"},
        CODE | {"user_code": "x" * 1000},
        CODE | {"user_code": 7},
    ],
)
def test_an_invalid_device_response_is_an_error_without_its_text(world: MakeWorld, code: dict[str, Any]) -> None:
    device = Device(world, code)
    with pytest.raises(OAuthError) as caught:
        device.log_in()
    assert device.shown == [] and "\x1b" not in str(caught.value) and "javascript" not in str(caught.value)


def test_a_login_without_a_device_endpoint_suggests_a_forwarded_port(world: MakeWorld) -> None:
    oauth = OAuthConfig(authorization_url="https://a.org/", token_url="https://a.org/t", client_id="x")
    present: Callable[[DeviceCode], None] = lambda shown: pytest.fail(str(shown))  # noqa: E731
    w = world(lambda request, connection: http_response(b""))
    with pytest.raises(ConfigurationError) as caught:
        log_in_by_device(w.gateway, oauth, login_state(oauth, {}), present=present)
    assert "--port" in str(caught.value.hint)


def test_the_browser_is_redirected_to_the_requested_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.listen()
        with pytest.raises(OAuthError) as caught:
            LoopbackCallback("state", port)
        assert caught.value.code == "login-port" and str(port) in str(caught.value)
    with LoopbackCallback("state", port) as callback:
        assert callback.redirect_uri == f"http://127.0.0.1:{port}/callback"


def test_an_error_about_a_port_that_the_system_picks_does_not_name_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socket", fail)
    with pytest.raises(OAuthError, match=r"^a free port of 127\.0\.0\.1 cannot be used \(Too many open files\)"):
        LoopbackCallback("state")
