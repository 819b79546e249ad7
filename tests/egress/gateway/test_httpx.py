"""Synchronous httpx and httpx2 clients under a capability, against real servers."""

from __future__ import annotations

import gzip
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from wasmrt.testing import FakeResolver, ReceivedRequest, ServerConnection, http_response

from wasmrt import GuardedTransport
from wasmrt.capabilities import CredentialLocation, CredentialMapping, RateLimitConfig
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway import EgressGateway, NetworkConfig
from wasmrt.egress.gateway._codings import ACCEPT_ENCODING
from wasmrt.egress.rates import RateLimiter

from .clients import OTHER, SECRET, TOKEN, bearer, both_families, capability, guarded
from .test_streaming import EVENTS, HEAD, Turns, chunk
from .world import HOST, MakeWorld, World, watch_end


def echo(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(f"{request.method} {request.target} ".encode() + request.body)


def denial(response: Any) -> dict[str, Any]:
    """Return the error in a denial."""
    assert response.status_code == 403 and response.headers["content-type"] == "application/json"
    error: dict[str, Any] = response.json()["error"]
    assert response.headers["x-wasmrt-denied"] == error["code"]
    return error


@both_families
def test_a_granted_request_returns_the_clients_own_types(world: MakeWorld, family: Any) -> None:
    w = world(lambda r, c: http_response(gzip.compress(r.body), headers=(("Content-Encoding", "gzip"), ("X-A", "1"))))
    with family.Client(transport=guarded(w)) as client:
        response = client.post(w.url("/v1/x?q=a%20b#part"), json={"n": 1}, headers={"X-B": "two"})
        assert isinstance(response, family.Response)
        assert (response.status_code, response.json(), response.headers["x-a"]) == (200, {"n": 1}, "1")
        assert response.http_version == "HTTP/1.1" and "content-encoding" not in response.headers
    request = w.server.requests[0]
    assert (request.method, request.target) == ("POST", "/v1/x?q=a%20b")
    assert request.header("Host") == f"{HOST}:{w.server.port}" and request.sni == HOST
    assert request.header("Accept-Encoding") == ACCEPT_ENCODING and request.header("X-B") == "two"
    assert request.header("Content-Length") == str(len(request.body)) and request.header("Connection") is None


def test_connections_are_reused_between_requests(world: MakeWorld) -> None:
    w = world(echo)
    with httpx.Client(transport=guarded(w)) as client:
        assert [client.get(w.url(f"/{n}")).text for n in range(3)] == ["GET /0 ", "GET /1 ", "GET /2 "]
    assert w.server.connections == 1


@both_families
def test_a_denial_is_a_403_with_the_line_that_would_allow_the_request(world: MakeWorld, family: Any) -> None:
    w = world(echo)
    decisions: list[Decision] = []
    with family.Client(transport=guarded(w, hosts=(HOST,), decisions=decisions)) as client:
        response = client.get(w.url("/x", OTHER))
        error = denial(response)
        assert error["code"] == "host-not-allowed" and error["type"] == "wasmrt_denied" and not error["request_sent"]
        assert error["message"] == f"no entry of http.allowlist covers this host; {error['hint']}"
        assert error["hint"].startswith("add to http.allowlist: ") and OTHER in error["hint"]
        with pytest.raises(family.HTTPStatusError):
            response.raise_for_status()
    assert w.server.connections == 0
    assert [decision.reason for decision in decisions] == [Reason.HOST_NOT_ALLOWED]


def test_a_denial_does_not_repeat_a_token_in_the_path(world: MakeWorld) -> None:
    w = world(echo)
    decisions: list[Decision] = []
    with httpx.Client(transport=guarded(w, hosts=(HOST,), decisions=decisions)) as client:
        for url in (w.url(f"/bot{TOKEN}/send", OTHER), w.url(f"/%zz{TOKEN}\\", HOST)):
            assert TOKEN not in client.get(url).text
    assert len(decisions) == 2 and TOKEN not in repr(decisions)


def test_an_internal_address_is_denied_like_a_guests(world: MakeWorld) -> None:
    w = world(echo, networks=())
    with httpx.Client(transport=guarded(w)) as client:
        assert denial(client.get(w.url()))["code"] == "address-not-allowed"


@pytest.mark.parametrize(
    "url", ["https://user:pw@api.example.com/", "ftp://api.example.com/", "https://api.example.com/a%2e%2e/"]
)
def test_an_invalid_url_is_denied(world: MakeWorld, url: str) -> None:
    w = world(echo)
    with httpx.Client(transport=guarded(w)) as client:
        try:
            response = client.get(url)
        except httpx.UnsupportedProtocol:
            return  # the client has already refused it
        assert denial(response)["code"] in ("invalid-url", "path-not-allowed", "port-not-allowed")
    assert w.server.connections == 0


# -- redirects -----------------------------------------------------------------------------------------------------


@both_families
def test_every_hop_of_a_redirect_is_checked(world: MakeWorld, family: Any) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        to = {"/1": w.url("/2", OTHER), "/2": w.url("/3"), "/3": "https://169.254.169.254/latest/"}[request.target]
        return http_response(status=302, headers=(("Location", to),))

    w = world(script)
    with family.Client(transport=guarded(w), follow_redirects=True) as client:
        response = client.get(w.url("/1"))
        assert denial(response)["code"] == "host-not-allowed"
        assert [hop.status_code for hop in response.history] == [302, 302, 302]
    assert [request.target for request in w.server.requests] == ["/1", "/2", "/3"]


def test_a_credential_stays_with_its_host_across_a_redirect(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        if request.target == "/1":
            return http_response(status=307, headers=(("Location", w.url("/2", OTHER)),))
        return http_response(b"here")

    w = world(script)
    with httpx.Client(transport=guarded(w, bearer()), follow_redirects=True) as client:
        assert client.post(w.url("/1"), content=b"body").text == "here"
    assert [request.header("Authorization") for request in w.server.requests] == [f"Bearer {SECRET}", None]
    assert w.server.requests[1].body == b"body"


# -- logins, cookies, secrets --------------------------------------------------------------------------------------


@both_families
def test_a_client_keeps_cookies_and_sees_challenges(world: MakeWorld, family: Any) -> None:
    headers = (("Set-Cookie", "sid=abc; Path=/"), ("Set-Cookie", "b=2"), ("WWW-Authenticate", 'Bearer realm="x"'))
    w = world(lambda r, c: http_response(status=401, headers=headers))
    with family.Client(transport=guarded(w)) as client:
        first = client.get(w.url())
        assert first.headers["www-authenticate"] == 'Bearer realm="x"'
        assert dict(client.cookies) == {"sid": "abc", "b": "2"}
        client.get(w.url())
    assert w.server.requests[1].header("Cookie") == "sid=abc; b=2"


def test_the_clients_own_login_is_sent_but_a_token_elsewhere_is_not(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(f"access_token={TOKEN}".encode()))
    with httpx.Client(transport=guarded(w)) as client:
        for name in ("Authorization", "X-Api-Key", "Cookie"):
            assert client.get(w.url(), headers={name: f"Bearer {TOKEN}"}).text == f"access_token={TOKEN}"
            assert w.server.requests[-1].header(name) == f"Bearer {TOKEN}"
        sent = len(w.server.requests)
        for request in (
            {"url": w.url(f"/?t={TOKEN}")},
            {"url": w.url(), "headers": {"X-Note": TOKEN}},
            {"url": w.url(), "content": f"it is {TOKEN}"},
        ):
            error = denial(client.post(**request))  # type: ignore[arg-type]
            assert error["code"] == "leak" and TOKEN not in str(error)
    assert len(w.server.requests) == sent


def test_an_injected_secret_replaces_the_clients_login(world: MakeWorld) -> None:
    w = world(echo)
    with httpx.Client(transport=guarded(w, bearer()), auth=("name", "password")) as client:
        client.get(w.url(), headers={"authorization": "Bearer unused"})
    assert w.server.requests[0].header("Authorization") == f"Bearer {SECRET}"


def test_an_injected_secret_cannot_be_sent_elsewhere_even_as_a_login(world: MakeWorld) -> None:
    w = world(echo)
    with httpx.Client(transport=guarded(w, bearer())) as client:
        client.get(w.url())
        error = denial(client.get(w.url(host=OTHER), headers={"Authorization": f"Bearer {SECRET}"}))
        assert error["code"] == "leak" and SECRET not in str(error)
    assert len(w.server.requests) == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_an_echoed_secret_is_redacted_from_headers_and_body(world: MakeWorld, streamed: bool) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        echoed = request.header("Authorization") or ""
        connection.send(HEAD + f"X-Echo: {echoed}\r\nSet-Cookie: sid=1\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for at in range(0, len(echoed), 5):
            connection.send(chunk(echoed[at : at + 5].encode()))
        return chunk(b"\n" + TOKEN.encode() + b"\n") + chunk(b"")

    w = world(script)
    with httpx.Client(transport=guarded(w, bearer())) as client, client.stream("GET", w.url()) as response:
        body = b"".join(response.iter_raw()) if streamed else response.read()
        # A token issued by the server is passed on, but the injected secret is not.
        assert body == f"Bearer [REDACTED:secret:token]\n{TOKEN}\n".encode()
        assert response.headers["x-echo"] == "Bearer [REDACTED:secret:token]"
        assert response.headers["set-cookie"] == "sid=1"


def test_a_client_without_injected_secrets_gets_unmodified_responses(world: MakeWorld) -> None:
    body = f"a token of its own: {TOKEN}\nhalf of a line ".encode() * 20_000
    w = world(lambda r, c: http_response(body))
    with httpx.Client(transport=guarded(w)) as client:
        assert client.get(w.url("/whole")).content == body
        with client.stream("GET", w.url("/streamed")) as response:
            assert b"".join(response.iter_raw()) == body


def test_a_secret_is_redacted_from_later_responses_to_requests_without_it(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(SECRET.encode()))
    with httpx.Client(transport=guarded(w, bearer())) as client:
        assert client.get(w.url(host=OTHER)).text == SECRET  # it was not injected yet
        client.get(w.url())
        assert client.get(w.url(host=OTHER)).text == "[REDACTED:secret:token]"


def test_a_request_with_a_credential_cannot_ask_for_a_partial_response(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"part", status=206))
    with httpx.Client(transport=guarded(w, bearer())) as client:
        assert denial(client.get(w.url(), headers={"Range": "bytes=0-3"}))["code"] == "header-not-allowed"
        error = denial(client.get(w.url()))
        assert (error["code"], error["request_sent"]) == ("response-partial", True)


def test_a_client_cannot_set_the_query_parameter_of_a_credential(world: MakeWorld) -> None:
    w = world(echo)
    place = CredentialMapping(
        secret_name="token", location=CredentialLocation.query_param("key"), host_patterns=(HOST,)
    )
    with httpx.Client(transport=guarded(w, place)) as client:
        assert denial(client.get(w.url("/?key=mine")))["code"] == "header-not-allowed"
        assert client.get(w.url("/?q=1")).text == "GET /?q=1&key=[REDACTED:secret:token] "


@pytest.mark.parametrize("secrets", [None, "empty"])
def test_a_missing_credential_is_a_denial_and_not_an_anonymous_request(world: MakeWorld, secrets: str | None) -> None:
    w = world(echo)
    transport = GuardedTransport(capability(w, bearer()), gateway=w.gateway, secrets=w_secrets(w) if secrets else None)
    with httpx.Client(transport=transport) as client:
        error = denial(client.get(w.url()))
        assert error["code"] == "credential-missing" and error["hint"]
    assert w.server.connections == 0


def w_secrets(w: World) -> Any:
    from wasmrt.egress.secrets import UserSecrets

    return UserSecrets(w.store, "nobody")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"X-Forwarded-Host": "evil.example"},
        {"Connection": "upgrade"},
        {"Upgrade": "websocket"},
        {"X-HTTP-Method-Override": "DELETE"},
    ],
)
def test_a_header_for_framing_or_routing_is_refused(world: MakeWorld, headers: dict[str, str]) -> None:
    w = world(echo)
    with httpx.Client(transport=guarded(w)) as client:
        assert denial(client.get(w.url(), headers=headers))["code"] == "header-not-allowed"
    assert w.server.connections == 0


def test_a_server_cannot_imitate_a_denial(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(status=403, headers=(("X-Wasmrt-Denied", "leak"),)))
    with httpx.Client(transport=guarded(w)) as client:
        assert "x-wasmrt-denied" not in client.get(w.url()).headers


def test_header_values_arrive_in_the_clients_encoding(world: MakeWorld) -> None:
    w = world(echo)
    with httpx.Client(transport=guarded(w)) as client:
        client.get(w.url(), headers=[(b"X-Text", "grüße".encode())])
        client.get(w.url(), headers=[(b"X-Text", b"gr\xfc\xdfe")])
    sent = [(request.header("X-Text") or "").encode("latin-1").decode() for request in w.server.requests]
    assert sent == ["grüße", "grüße"]


# -- bodies, both ways ---------------------------------------------------------------------------------------------


def test_a_streamed_body_is_sent_completely(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(str(len(r.body)).encode()))
    with httpx.Client(transport=guarded(w)) as client:
        assert client.post(w.url(), content=(b"x" * 10_000 for _ in range(30))).text == "300000"
    request = w.server.requests[0]
    assert request.header("Content-Length") == "300000" and request.header("Transfer-Encoding") is None


def test_a_body_over_the_limit_is_not_read_further_and_not_sent(world: MakeWorld) -> None:
    w = world(echo)
    drawn = []

    def pieces() -> Iterator[bytes]:
        for number in range(1000):
            drawn.append(number)
            yield b"x" * 1000

    with httpx.Client(transport=guarded(w, max_request_bytes=5000)) as client:
        error = denial(client.post(w.url(), content=pieces()))
        assert error["code"] == "request-too-large" and "http.max_request_bytes" in error["hint"]
    assert len(drawn) < 10 and w.server.connections == 0


@both_families
@pytest.mark.parametrize("credential", [False, True])
def test_an_event_is_read_before_the_server_sends_the_next(world: MakeWorld, family: Any, credential: bool) -> None:
    script = Turns(*EVENTS)
    w = world(script)
    transport = guarded(w, *([bearer()] if credential else []))
    with family.Client(transport=transport) as client, client.stream("GET", w.url()) as response:
        pieces = response.iter_raw()
        for event in EVENTS:
            assert next(pieces) == event
            script.was_read.release()
        assert list(pieces) == []


def test_a_partly_read_response_releases_its_connection(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(b"one line\n" * 50_000))
    with httpx.Client(transport=guarded(w)) as client:
        for _ in range(2):
            with client.stream("GET", w.url()) as response:
                assert next(response.iter_raw()).startswith(b"one line\n")
    assert w.server.connections == 2


def test_a_response_over_the_limit_fails_by_its_length_or_within_its_body(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        if request.target == "/told":
            return http_response(b"x" * 20_000)
        connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        return chunk(b"one line\n" * 9000) + chunk(b"")

    w = world(script)
    with httpx.Client(transport=guarded(w, max_response_bytes=10_000)) as client:
        error = denial(client.get(w.url("/told")))
        assert error["code"] == "response-too-large" and "http.max_response_bytes" in error["hint"]
        with pytest.raises(httpx.ReadError, match=r"more than 10000 bytes; raise http\.max_response_bytes"):
            client.get(w.url("/not-told"))


# -- time, failures, many at once ----------------------------------------------------------------------------------


def silent(request: ReceivedRequest, connection: ServerConnection) -> None:
    connection.closing.wait(30)


@both_families
def test_a_read_timeout_is_the_clients_own_exception(world: MakeWorld, family: Any) -> None:
    w = world(silent)
    with family.Client(transport=guarded(w), timeout=family.Timeout(None, read=0.1)) as client:
        with pytest.raises(family.ReadTimeout, match=r"a read timeout of 0\.1 s") as caught:
            client.get(w.url())
        assert caught.value.request.url == w.url()
    assert len(w.server.requests) == 1


def test_a_read_timeout_applies_to_each_wait_and_not_to_the_whole_response(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(16):
            connection.closing.wait(0.1)
            connection.send(chunk(b"tick\n"))
        return chunk(b"")

    w = world(script)
    with httpx.Client(transport=guarded(w), timeout=httpx.Timeout(None, read=1.5)) as client:
        assert client.get(w.url()).text == "tick\n" * 16


def test_the_capabilitys_timeout_limits_the_whole_exchange(world: MakeWorld) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while not connection.closing.wait(0.02) and connection.send(chunk(b"tick\n")):
            pass
        return b""

    w = world(script)
    with (
        httpx.Client(transport=guarded(w, timeout_seconds=0.3), timeout=None) as client,
        pytest.raises(httpx.ReadTimeout, match=r"raise http\.timeout_seconds, now 0\.3"),
    ):
        client.get(w.url())


def test_a_missing_handshake_is_a_connect_timeout(world: MakeWorld) -> None:
    w = world(silent)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        transport = GuardedTransport(capability(w, port=port), gateway=w.gateway)
        with (
            httpx.Client(transport=transport, timeout=httpx.Timeout(None, connect=0.1)) as client,
            pytest.raises(httpx.ConnectTimeout),
        ):
            client.get(f"https://{HOST}:{port}/")


def test_an_unresponsive_address_is_a_connect_timeout(world: MakeWorld) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = []
        for _ in range(4):  # nothing accepts: after a few connections the system no longer responds
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
            waiting.append(sock)
        w = world(silent)
        transport = GuardedTransport(capability(w, port=port), gateway=w.gateway)
        with (
            httpx.Client(transport=transport, timeout=httpx.Timeout(None, connect=0.2)) as client,
            pytest.raises(httpx.ConnectTimeout),
        ):
            client.get(f"https://{HOST}:{port}/")
        for sock in waiting:
            sock.close()


def test_an_unresponsive_name_server_is_a_connect_timeout(world: MakeWorld) -> None:
    class Slow:
        def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
            from wasmrt.egress.gateway import ResolveError

            assert timeout_seconds <= 0.1
            threading.Event().wait(timeout_seconds)
            raise ResolveError("the name server did not respond in time")

    w = world(silent)
    transport = GuardedTransport(capability(w), gateway=EgressGateway(NetworkConfig(resolver=Slow())))
    with (
        httpx.Client(transport=transport, timeout=httpx.Timeout(None, connect=0.1)) as client,
        pytest.raises(httpx.ConnectTimeout),
    ):
        client.get(w.url())


def test_a_server_that_does_not_read_is_a_write_timeout(world: MakeWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        w = world(silent, tls=False)
        http = capability(w, port=port, max_request_bytes=64 * 1024 * 1024)
        transport = GuardedTransport(http, gateway=w.gateway)
        with (
            httpx.Client(transport=transport, timeout=httpx.Timeout(None, write=0.2)) as client,
            pytest.raises(httpx.WriteTimeout),
        ):
            client.post(f"http://{HOST}:{port}/", content=bytes(32 * 1024 * 1024))


def test_a_full_pool_is_a_pool_timeout(world: MakeWorld) -> None:
    script = Turns(*EVENTS)
    w = world(script, max_connections=1)
    with (
        httpx.Client(transport=guarded(w), timeout=httpx.Timeout(None, pool=0.1)) as client,
        client.stream("GET", w.url()),
        pytest.raises(httpx.PoolTimeout),
    ):
        client.get(w.url())


@both_families
def test_network_failures_are_the_clients_own_exceptions(world: MakeWorld, family: Any) -> None:
    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.keep_alive = False
        return {
            "/broken": http_response(b"half", length=100),
            "/not-http": b"SSH-2.0-x\r\n\r\n",
            "/not-gzip": http_response(b"x", headers=(("Content-Encoding", "gzip"),)),
        }[request.target]

    w = world(script, answers={HOST: ["127.0.0.1"], OTHER: ["127.0.0.2"]})
    with family.Client(transport=guarded(w, hosts=(HOST, OTHER, "absent.example.com"))) as client:
        for path, expected in (
            ("/broken", family.ReadError),
            ("/not-http", family.RemoteProtocolError),
            ("/not-gzip", family.DecodingError),
        ):
            with pytest.raises(expected) as caught:
                client.get(w.url(path))
            assert caught.value.request.url == w.url(path)
        for host in (OTHER, "absent.example.com"):
            with pytest.raises(family.ConnectError):
                client.get(w.url(host=host))


def test_an_untrusted_certificate_is_a_connect_error_with_a_hint(world: MakeWorld) -> None:
    w = world(echo)
    network = NetworkConfig(
        unsafe_allowed_networks=("127.0.0.0/8",), resolver=FakeResolver({HOST: ["127.0.0.1"]})
    )  # without the test's authority
    with (
        httpx.Client(transport=GuardedTransport(capability(w), network=network)) as client,
        pytest.raises(httpx.ConnectError, match="ca_file"),
    ):
        client.get(w.url())


def test_a_rate_limit_is_a_denial_that_says_when_to_retry(world: MakeWorld) -> None:
    w = world(echo, rates=RateLimiter(now=lambda: 100.0))
    with httpx.Client(transport=guarded(w, rate_limit=RateLimitConfig(1, 10))) as client:
        assert client.get(w.url()).status_code == 200
        response = client.get(w.url())
        assert (denial(response)["code"], denial(response)["retry_after_seconds"]) == ("rate-limited", 60.0)
        assert response.headers["retry-after"] == "60"


def test_many_threads_can_share_one_client(world: MakeWorld) -> None:
    w = world(lambda r, c: http_response(r.target.encode()))
    answers: dict[int, str] = {}
    with httpx.Client(transport=guarded(w, rate_limit=RateLimitConfig(1000, 1000))) as client:

        def ask(number: int) -> None:
            answers[number] = client.get(w.url(f"/{number}")).text

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {number: f"/{number}" for number in range(20)}


# -- created and closed --------------------------------------------------------------------------------------------


def test_closing_a_client_closes_the_connections_of_an_unshared_gateway(world: MakeWorld, ca_file: Any) -> None:
    gone = threading.Event()

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        watch_end(connection, gone)
        return http_response(b"x")

    w = world(script)
    network = NetworkConfig(
        unsafe_allowed_networks=("127.0.0.0/8",), resolver=FakeResolver({HOST: ["127.0.0.1"]}), ca_file=ca_file
    )
    with httpx.Client(transport=GuardedTransport(capability(w), network=network)) as client:
        assert client.get(w.url()).text == "x"
    assert gone.wait(10)


def test_closing_a_client_leaves_the_connections_of_a_shared_gateway(world: MakeWorld) -> None:
    w = world(echo)
    with httpx.Client(transport=guarded(w)) as client:
        assert client.get(w.url()).text == "GET / "
    assert w.get().body == b"GET / "
    assert w.server.connections == 1


def test_a_gateway_and_a_network_together_raise_configuration_error(world: MakeWorld) -> None:
    w = world(echo)
    with pytest.raises(ConfigurationError, match="network"):
        GuardedTransport(capability(w), gateway=w.gateway, network=NetworkConfig())


def test_subclasses_of_a_request_are_accepted_and_other_types_are_not(world: MakeWorld) -> None:
    class Request(httpx.Request):
        pass

    w = world(echo)
    transport = guarded(w)
    response = transport.handle_request(Request("GET", w.url("/x")))
    assert response.read() == b"GET /x "
    with pytest.raises(TypeError, match="not a request of httpx or httpx2"):
        transport.handle_request(object())


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import wasmrt

    for name in ("wasmrt.egress.gateway.transports", "httpx", "httpx2"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.delitem(vars(wasmrt), "GuardedTransport", raising=False)
    with pytest.raises(ConfigurationError) as caught:
        _ = wasmrt.GuardedTransport
    assert "pip install 'wasmrt[httpx]'" in str(caught.value.hint)
