"""Where secrets are injected, when they are refused, and that no server can return one to the guest."""

from __future__ import annotations

import base64
import gzip
import json
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

import pytest
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from wasmrt.capabilities import CredentialLocation, CredentialMapping
from wasmrt.core.model import Reason, Step
from wasmrt.egress.gateway import HttpFailure, HttpRequest
from wasmrt.egress.secrets import Secret
from wasmrt.sandbox.component.worlds import FailureKind

from .world import HOST, MakeWorld, World

SECRET = "Zq9/kT+7" + "vX2=mB4_nC6-pD8"
BASIC = base64.b64encode(b"robot:" + SECRET.encode()).decode()
LOCATIONS = {
    "bearer": CredentialLocation.bearer(),
    "basic": CredentialLocation.basic("robot"),
    "header": CredentialLocation.header("X-Api-Key"),
    "prefixed header": CredentialLocation.header("Authorization", prefix="Token "),
    "query": CredentialLocation.query_param("api_key"),
    "path": CredentialLocation.url_path("token"),
}


def mapping(location: CredentialLocation, name: str = "api_token", **more: Any) -> CredentialMapping:
    more.setdefault("host_patterns", (HOST,))
    return CredentialMapping(secret_name=name, location=location, **more)


def ok(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    return http_response(b"ok")


def fail(w: World, call: Any, path: str = "/", **request: Any) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        w.get(path, call, **request)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("bearer", lambda r: r.header("Authorization") == f"Bearer {SECRET}"),
        ("basic", lambda r: r.header("Authorization") == f"Basic {BASIC}"),
        ("header", lambda r: r.header("X-Api-Key") == SECRET),
        ("prefixed header", lambda r: r.header("Authorization") == f"Token {SECRET}"),
        ("query", lambda r: r.target == f"/bot?q=1&api_key={quote(SECRET, safe='')}"),
        ("path", lambda r: unquote(r.target) == f"/bot{SECRET}/send?q=1"),
    ],
)  # fmt: skip
def test_a_secret_is_sent_in_its_place_in_every_request(
    world: MakeWorld, kind: str, sent: Callable[[ReceivedRequest], bool]
) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS[kind]), secrets={"api_token": SECRET})
    path = "/bot{token}/send?q=1" if kind == "path" else "/bot?q=1"
    for _ in range(2):
        w.get(path, call)
    assert [sent(request) for request in w.server.requests] == [True, True]


def test_a_secret_goes_to_its_hosts_and_paths_only(world: MakeWorld) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS["bearer"], path_patterns=("/v1/pay",)), secrets={"api_token": SECRET})
    for path, expected in (("/v1/pay", True), ("/v1/pay/x", True), ("/v1/payments", False), ("/", False)):
        w.get(path, call)
        assert (w.server.requests[-1].header("Authorization") is not None) is expected, path
    w.gateway.fetch(call, HttpRequest("GET", w.url("/v1/pay", host="other.example.com")))
    assert w.server.requests[-1].header("Authorization") is None


def test_the_more_specific_of_two_secrets_for_one_place_is_used(world: MakeWorld) -> None:
    w = world(ok)
    secrets = {"wide": "wide-secret-value", "narrow": "narrow-secret-value"}
    both = [mapping(LOCATIONS["bearer"], "wide"), mapping(LOCATIONS["bearer"], "narrow", path_patterns=("/v1/",))]
    for order in (both, both[::-1]):
        call = w.call(*order, secrets=secrets)
        w.get("/v1/x", call)
        assert w.server.requests[-1].header("Authorization") == "Bearer narrow-secret-value"
        w.get("/v2/x", call)
        assert w.server.requests[-1].header("Authorization") == "Bearer wide-secret-value"


def test_a_missing_secret_fails_the_request_with_the_command_that_sets_it(world: MakeWorld) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS["bearer"]))
    failure = fail(w, call)
    assert (failure.kind, failure.code) == (FailureKind.AUTH_REQUIRED, "credential-missing")
    assert failure.hint == "run: wasmrt secret set api_token --user ann"
    assert call.decisions[-1].reason is Reason.CREDENTIAL_MISSING
    assert w.server.connections == 0


def test_a_runtime_without_secrets_is_distinguished_from_a_missing_secret(world: MakeWorld) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS["bearer"]))
    call.secrets = None
    failure = fail(w, call)
    assert failure.code == "credential-missing" and "WasmRuntimeConfig" in str(failure.hint)
    optional = w.call(mapping(LOCATIONS["bearer"], optional=True))
    optional.secrets = None
    w.get("/", optional)
    assert w.server.requests[0].header("Authorization") is None


def test_another_users_secret_is_never_used_instead(world: MakeWorld) -> None:
    w = world(ok)
    w.store.set("local", "api_token", Secret(SECRET))
    assert fail(w, w.call(mapping(LOCATIONS["bearer"]))).code == "credential-missing"


def test_an_expired_secret_fails_the_request(world: MakeWorld) -> None:
    w = world(ok)
    w.store.set("ann", "api_token", Secret(SECRET), expires_at=1.0)
    failure = fail(w, w.call(mapping(LOCATIONS["bearer"])))
    assert (failure.kind, failure.code) == (FailureKind.AUTH_REQUIRED, "credential-expired")


def test_an_optional_secret_may_be_missing_but_not_expired(world: MakeWorld) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS["bearer"], optional=True))
    w.get("/", call)
    assert w.server.requests[0].header("Authorization") is None
    w.store.set("ann", "api_token", Secret(SECRET), expires_at=1.0)
    assert fail(w, call).code == "credential-expired"


def test_a_secret_is_never_sent_without_tls(world: MakeWorld) -> None:
    w = world(ok, tls=False)
    for location in (LOCATIONS["bearer"], LOCATIONS["query"]):
        call = w.call(mapping(location), secrets={"api_token": SECRET})
        failure = fail(w, call)
        assert failure.code == "credential-insecure"
        assert call.decisions[-1].reason is Reason.CREDENTIAL_INSECURE
    assert w.server.connections == 0


def test_the_hint_suggests_https_and_no_entry_that_would_not_help(world: MakeWorld) -> None:
    w = world(ok, tls=False)
    call = w.call(mapping(LOCATIONS["bearer"]), path_prefix="/v1/")
    assert fail(w, call, "/v2/").code == "path-not-allowed"
    assert isinstance(call.decisions[-1].suggestion, Step)
    assert "over https" in (call.decisions[-1].hint or "")


@pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
def test_a_guest_cannot_set_the_header_of_a_credential(world: MakeWorld, name: str) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS["bearer"]), secrets={"api_token": SECRET})
    failure = fail(w, call, headers=((name, "Basic eDp5"),))
    assert (failure.kind, failure.code) == (FailureKind.NETWORK_DENIED, "header-not-allowed")
    assert w.server.connections == 0


@pytest.mark.parametrize("header", ["x-api-key", "X_API_KEY", "x_Api-key"])
def test_a_header_that_a_lenient_server_reads_as_the_credential_is_refused(world: MakeWorld, header: str) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS["header"]), secrets={"api_token": SECRET})
    assert fail(w, call, headers=((header, "mine"),)).code == "header-not-allowed"


@pytest.mark.parametrize(
    "query",
    [
        "api_key=mine", "a=1&api_key=", "a=1;api_key=x", "%61pi_key=x", "API_KEY=x", "api_key", "api_key[]=x",
        "api_key%5B%5D=x", "api_key[0][a]=x", "api_key%00=x", "%00api_key=x", "api%00_key=x", "api_key%00[a]=x",
        "+api_key=x", "%20api_key=x", "%09api_key=x", "%2Bapi_key=x", "api_key+=x", "api.key=x", "API.Key[]=x",
        "api+key=x", "api[key=x",
    ],
)  # fmt: skip
def test_a_guest_cannot_set_the_query_parameter_of_a_credential(world: MakeWorld, query: str) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS["query"]), secrets={"api_token": SECRET})
    assert fail(w, call, f"/?{query}").code == "header-not-allowed"


def test_other_query_parameters_are_sent(world: MakeWorld) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS["query"]), secrets={"api_token": SECRET})
    query = "api=1&key=2&api_keys=3&a[api_key]=4&api-key=5&q=api_key"
    w.get(f"/?{query}", call)
    assert w.server.requests[0].target == f"/?{query}&api_key={quote(SECRET, safe='')}"


@pytest.mark.parametrize("value", ["line\r\nX-Injected: 1", "tab\tinside\x00nul", "\x7fdelete-me", "héllo-wörld"])
@pytest.mark.parametrize("kind", ["bearer", "header"])
def test_a_value_that_would_break_a_header_is_refused(world: MakeWorld, kind: str, value: str) -> None:
    w = world(ok)
    failure = fail(w, w.call(mapping(LOCATIONS[kind]), secrets={"api_token": value}))
    assert failure.code == "credential-unusable"
    assert value not in failure.message
    assert w.server.connections == 0


def test_a_signing_key_that_is_too_short_is_reported_with_the_name_of_its_secret(world: MakeWorld) -> None:
    w = world(ok)
    signing = mapping(CredentialLocation.aws_sigv4("eu-central-1", "s3"))
    failure = fail(w, w.call(signing, secrets={"api_token": "an-access-key-id:abc"}))
    assert failure.message == "the secret api_token is too short to be recognised in a response"
    assert failure.hint == "set a longer one; run: wasmrt secret set api_token --user ann"
    assert w.server.connections == 0


def test_a_value_cannot_leave_its_place_in_the_url(world: MakeWorld) -> None:
    w = world(ok)
    evil = "../../admin?x=1#&y"
    w.get("/", w.call(mapping(LOCATIONS["query"]), secrets={"api_token": evil}))
    assert w.server.requests[0].target == "/?api_key=" + quote(evil, safe="")
    assert (
        fail(w, w.call(mapping(LOCATIONS["path"]), secrets={"api_token": evil}), "/x/{token}").code
        == "credential-unusable"
    )
    call = w.call(mapping(LOCATIONS["path"]), secrets={"api_token": "some/thing?x"})
    w.get("/x/{token}/y", call)
    assert w.server.requests[-1].target == "/x/some%2Fthing%3Fx/y"


@pytest.mark.parametrize("value", ["ab1", "4711"])
def test_a_value_too_short_to_be_recognised_is_not_sent(world: MakeWorld, value: str) -> None:
    w = world(ok)
    failure = fail(w, w.call(mapping(LOCATIONS["bearer"]), secrets={"api_token": value}))
    assert failure.code == "credential-unusable"
    assert w.server.connections == 0


def test_a_secret_known_to_the_guest_cannot_be_sent_elsewhere(world: MakeWorld) -> None:
    w = world(ok)
    call = w.call(mapping(LOCATIONS["bearer"]), secrets={"api_token": SECRET})
    w.get("/", call)
    elsewhere = w.url(host="other.example.com")
    attempts = [
        HttpRequest("GET", f"{elsewhere}?x={quote(SECRET, safe='')}"),
        HttpRequest("GET", elsewhere, (("X-Note", base64.b64encode(SECRET.encode()).decode()),)),
        HttpRequest("POST", elsewhere, body=SECRET.encode().hex().encode()),
        HttpRequest("POST", elsewhere, body=json.dumps({"note": SECRET[::-1]}).encode()),
    ]
    for request in attempts:
        with pytest.raises(HttpFailure) as caught:
            w.gateway.fetch(call, request)
        assert (caught.value.kind, caught.value.code) == (FailureKind.NETWORK_DENIED, "leak")
    assert len(w.server.requests) == 1
    assert_clean(SECRET, call.decisions, caught.value)


# -- servers that echo ---------------------------------------------------------------------------------------------


def test_a_secret_truncated_in_a_receipt_is_not_recorded(world: MakeWorld) -> None:
    secret = "Zq9kT7ab" + "vX2mB4nC6pD8eFyK"
    w = world(ok)
    for path_prefix in (None, "/elsewhere/"):
        for padding in range(120, 200):
            call = w.call(path_prefix=path_prefix)
            call.watch("api_token", secret)
            with pytest.raises(HttpFailure) as caught:
                w.get("/" + "p-" * (padding // 2) + "p" * (padding % 2) + secret, call)
            told = f"{call.decisions} {caught.value} {caught.value.decision}"
            assert not any(secret[:length] in told for length in range(8, len(secret) + 1)), padding
    assert w.server.requests == []


def forms(secret: str) -> list[bytes]:
    """Return the secret in the encodings that an echo could use, without the ends that depend on adjacent text."""
    raw = secret.encode()
    found = [raw, raw[::-1], raw.hex().encode(), raw.hex().upper().encode(), quote(secret, safe="").encode()]
    found.append(json.dumps(secret)[1:-1].replace("/", "\\/").encode())
    found.append("".join(f"\\u{ord(c):04x}" for c in secret).encode())
    for offset in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(b"?" * offset + raw)
            found.append(encoded[4 if offset else 0 : len(encoded) - 4])
    return found


def assert_clean(secret: str, *things: object) -> None:
    text = "\n".join(repr(t) if not isinstance(t, bytes) else t.decode("latin-1") for t in things).encode()
    for form in forms(secret):
        assert form not in text, form


def seen(request: ReceivedRequest) -> str:
    """Return everything in a request that a server can echo."""
    return unquote(request.target) + "\n" + "\n".join(f"{n}: {v}" for n, v in request.headers)


def credential_of(request: ReceivedRequest) -> str:
    """Return the secret as the server received it."""
    value = request.header("Authorization") or request.header("X-Api-Key")
    if value is None:
        return SECRET if SECRET in unquote(request.target) else "nothing"
    scheme, _, rest = value.rpartition(" ")
    return base64.b64decode(rest).decode() if scheme == "Basic" else rest


def whole(text: str) -> bytes:
    return http_response(text.encode())


def headers(**named: str) -> bytes:
    return http_response(headers=tuple((name.replace("_", "-"), value) for name, value in named.items()))


def in_small_chunks(request: ReceivedRequest) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"1\r\n" + bytes([b]) + b"\r\n" for b in seen(request).encode()) + b"0\r\n\r\n"


def in_reason_and_trailer(request: ReceivedRequest) -> bytes:
    value = credential_of(request)
    head = f"HTTP/1.1 200 {value}\r\nTransfer-Encoding: chunked\r\n\r\n"
    return f"{head}0\r\nX-T: {value}\r\n\r\n".encode()


def in_a_redirect(request: ReceivedRequest) -> bytes:
    location = f"https://{HOST}/?t={quote(credential_of(request), safe='')}"
    return http_response(status=302, headers=(("Location", location),))


def as_bytes(request: ReceivedRequest) -> bytes:
    return credential_of(request).encode()


ECHOES: dict[str, Callable[[ReceivedRequest], bytes]] = {
    "body": lambda r: whole(seen(r)),
    "raw head": lambda r: http_response(r.head),
    "every header": lambda r: http_response(headers=tuple((f"X-Echo-{n}", v) for n, v in r.headers)),
    "harmless headers": lambda r: headers(X_Note=credential_of(r), X_Full=seen(r).replace("\n", "|")),
    "a header's name": lambda r: http_response(headers=(("X-" + as_bytes(r).hex(), "1"),)),
    "a cookie": lambda r: headers(Set_Cookie=f"s={credential_of(r)}"),
    "a redirect": in_a_redirect,
    "an error page": lambda r: http_response(seen(r).encode(), status=500),
    "json": lambda r: whole(json.dumps({"you": seen(r)})),
    "unicode escapes": lambda r: whole("".join(f"\\u{ord(c):04x}" for c in credential_of(r))),
    "base64": lambda r: http_response(base64.b64encode(seen(r).encode())),
    "base64 url": lambda r: http_response(base64.urlsafe_b64encode(as_bytes(r))),
    "base64, shifted": lambda r: http_response(base64.b64encode(b"?" + as_bytes(r))),
    "hex": lambda r: whole(as_bytes(r).hex()),
    "upper hex": lambda r: whole(as_bytes(r).hex().upper()),
    "percent": lambda r: whole(quote(credential_of(r), safe="")),
    "every byte percent": lambda r: whole("".join(f"%{b:02x}" for b in as_bytes(r))),
    "reversed": lambda r: whole(credential_of(r)[::-1]),
    "white space": lambda r: whole(" ".join(credential_of(r))),
    "zero width": lambda r: whole("\u200b".join(credential_of(r))),
    "gzip": lambda r: http_response(gzip.compress(seen(r).encode()), headers=(("Content-Encoding", "gzip"),)),
    "binary": lambda r: http_response(b"\xff\xfe\x00" + as_bytes(r) + b"\x00\xff"),
    "small chunks": in_small_chunks,
    "reason and trailer": in_reason_and_trailer,
    "broken off": lambda r: http_response(seen(r).encode(), length=100_000),
    "not http": lambda r: as_bytes(r) + b"\r\n\r\n",
}


@pytest.mark.table
@pytest.mark.parametrize("kind", LOCATIONS)
@pytest.mark.parametrize("echo", ECHOES)
def test_no_echo_brings_a_secret_back(world: MakeWorld, echo: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        connection.keep_alive = echo not in ("broken off", "not http")
        return ECHOES[echo](request)

    w = world(script)
    call = w.call(mapping(LOCATIONS[kind]), secrets={"api_token": SECRET})
    result: object
    try:
        result = w.get("/bot{token}/x" if kind == "path" else "/bot", call)
    except HttpFailure as failure:
        result = (failure, failure.args, failure.hint, failure.__cause__, failure.__context__)
        assert echo in ("broken off", "not http")
    assert SECRET in credential_of(w.server.requests[0])  # the server received the secret, so it was in the echo
    assert_clean(SECRET, result, call.decisions, call, caplog.text, w.gateway, [r.getMessage() for r in caplog.records])
    assert BASIC not in repr(result)


def test_text_around_a_redacted_secret_is_kept(world: MakeWorld) -> None:
    body = b"\x89PNG\r\n\x00\xff before " + SECRET.encode() + b" after \xfe\x00"
    w = world(lambda r, c: http_response(body))
    call = w.call(mapping(LOCATIONS["bearer"]), secrets={"api_token": SECRET})
    answer = w.get("/", call).body
    assert answer.startswith(b"\x89PNG\r\n\x00\xff before [REDACTED") and answer.endswith(b"] after \xfe\x00")


@pytest.mark.parametrize(
    "name",
    [
        *("Set-Cookie", "WWW-Authenticate", "Authorization", "X-Auth", "X-Foo-Auth", "X_Auth_Key", "X-Auth-Token-Type"),
        *("X-Amz-Security-Token", "X_Session_Id", "Api-Key"),
    ],
)
def test_response_headers_with_credentials_are_dropped(world: MakeWorld, name: str) -> None:
    kept = (("X-Author", "kept"), ("X-Auth-Method", "token"), ("ETag", '"1"'))
    w = world(lambda r, c: http_response(headers=((name, "value"), *kept)))
    assert w.get().headers == kept
