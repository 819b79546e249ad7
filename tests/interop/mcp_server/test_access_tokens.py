"""Access tokens of an authorization server over HTTP: accepted and refused tokens, and the responses."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from tests.interop.mcp_server.authority import HOST, RESOURCE, Authority, ec_key, ed_key, encoded, public, rsa_key
from tests.interop.mcp_server.site import Site, events
from tests.interop.mcp_server.world import FORMS, META, World
from wasmrt.interop.mcp.server import oauth as keys
from wasmrt.interop.mcp.server.http import BadToken, TokenFault, UserTokens
from wasmrt.interop.mcp.server.oauth import AccessTokens, KeySet
from wasmrt.runtime.config_serve import ResourceSettings

NAME = {"name": "a"}


@pytest.fixture(scope="module")
def certificates() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def authority(certificates: trustme.CA, tmp_path: Path) -> Iterator[Authority]:
    found = Authority(certificates, tmp_path)
    yield found
    found.close()


class Deployment(Site):
    """A server as reached through a TLS proxy: by its public name, with tokens of the authority."""

    def __init__(self, world: World, url: str, users: UserTokens, authority: Authority) -> None:
        super().__init__(world, url, users)
        self.authority = authority

    def send(self, token: str | None, method: str = "tools/list", path: str = "/mcp", **params: Any) -> httpx.Response:
        named = {"mcp-name": str(params["name"])} if "name" in params else {}
        headers = {"host": HOST, "mcp-protocol-version": "2026-07-28", "mcp-method": method, **named}
        headers |= {} if token is None else {"authorization": f"Bearer {token}"}
        message = self.message(method, {"_meta": META} | params)
        return self.client.post(self.url.removesuffix("/mcp") + path, json=message, headers=headers)

    @property
    def outcomes(self) -> list[str]:
        return [receipt.outcome for receipt in self.world.receipts if receipt.kind == "mcp-message"]


def deployed(world: World, authority: Authority, tmp_path: Path, **settings: Any) -> Any:
    resource = authority.settings(**settings)

    def access() -> AccessTokens:
        return AccessTokens(resource, KeySet(authority.gateway, resource.jwks_url))

    return world.serve_http(UserTokens(tmp_path / "tokens.json"), access, resource.origin)


@pytest.fixture
def place(world: World, authority: Authority, tmp_path: Path) -> Iterator[Deployment]:
    with deployed(world, authority, tmp_path) as url:
        found = Deployment(world, url, UserTokens(tmp_path / "tokens.json"), authority)
        yield found
        found.client.close()


# -- metadata and challenges -------------------------------------------------------------------------------------------


def test_the_metadata_of_the_resource_is_found_without_a_token(place: Deployment) -> None:
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        found = place.client.get(place.url.removesuffix("/mcp") + path, headers={"host": HOST})
        assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
        assert found.json() == {
            "resource": RESOURCE, "resource_name": "wasmrt", "authorization_servers": [place.authority.issuer],
            "bearer_methods_supported": ["header"],
        }  # fmt: skip
        assert place.client.post(str(found.url), headers={"host": HOST}).status_code == 405
    assert place.outcomes == []


def test_a_challenge_names_the_metadata_and_the_scopes(world: World, authority: Authority, tmp_path: Path) -> None:
    with deployed(world, authority, tmp_path, scopes=("tools:list", "tools:call")) as url:
        site = Deployment(world, url, UserTokens(tmp_path / "tokens.json"), authority)
        found = site.send(None)
        assert found.status_code == 401
        assert found.headers["www-authenticate"] == (
            'Bearer realm="wasmrt", resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"'
            ', scope="tools:list tools:call"'
        )
        lacking = site.send(authority.token(scope="tools:list other"))
        assert lacking.status_code == 403
        assert 'error="insufficient_scope"' in lacking.headers["www-authenticate"]
        assert 'scope="tools:list tools:call"' in lacking.headers["www-authenticate"]
        for claim in ({"scope": "tools:call x tools:list"}, {"scp": ["tools:call", "tools:list"]}):
            assert site.send(authority.token(**claim)).status_code == 200
        assert site.outcomes == ["no-token", "missing-scope"]
        site.client.close()


def test_without_the_section_there_is_no_metadata(site: Site) -> None:
    found = site.client.get(site.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource/mcp")
    assert found.status_code == 404
    assert "resource_metadata" not in site.client.post(site.url).headers["www-authenticate"]


# -- accepted tokens ---------------------------------------------------------------------------------------------------


def test_a_valid_access_token_authenticates_its_user(place: Deployment) -> None:
    found = place.send(place.authority.token(), "tools/call", name="add", arguments={"a": 1, "b": 2})
    assert found.json()["result"]["structuredContent"] == 3
    assert place.world.receipts[-1].user == "alice"
    assert place.authority.fetched == 1


class _InAnHour(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return datetime.now(tz) + timedelta(hours=1)


def test_a_subscription_ends_when_its_token_has_expired(place: Deployment) -> None:
    message = place.message("subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": True}})
    headers = {
        "host": HOST, "mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen",
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {place.authority.token(exp=int(time.time()) + 600)}",
    }  # fmt: skip
    with place.client.stream("POST", place.url, json=message, headers=headers) as listening:
        told = events(listening)
        assert next(told)["method"] == "notifications/subscriptions/acknowledged"
        with pytest.MonkeyPatch.context() as later:
            later.setattr("jwt.api_jwt.datetime", _InAnHour)
            place.world.registry.remove("media")
            place.world.refresh()
            assert list(told) == []
    assert place.outcomes == ["expired-token"]


@pytest.mark.parametrize(
    ("algorithm", "key"), [("PS256", rsa_key), ("ES256", ec_key), ("EdDSA", ed_key), ("RS256", rsa_key)]
)
def test_the_configured_algorithms_are_accepted(place: Deployment, algorithm: str, key: Any) -> None:
    place.authority.keys = [public(key("b"))]
    assert place.send(place.authority.token(key("b"), algorithm)).status_code == 200


def test_the_servers_own_tokens_are_also_accepted(place: Deployment) -> None:
    assert place.send(place.tokens["local"]).status_code == 200
    assert place.send(place.tokens["local"][:-1] + "x").status_code == 401
    assert place.authority.fetched == 0, "no key is needed for it"


def test_users_of_access_tokens_are_separate(place: Deployment) -> None:
    alice, eve = place.authority.token(), place.authority.token(sub="eve@login")
    call = {"name": "write_note", "arguments": NAME, "_meta": FORMS}
    asked = place.send(alice, "tools/call", **call).json()["result"]
    answer = {"approval": {"action": "accept", "content": {"answer": "allow once"}}}
    given = call | {"inputResponses": answer, "requestState": asked["requestState"]}
    assert place.send(eve, "tools/call", **given).json()["error"]["code"] == -32602 and place.world.done == []
    assert place.send(place.tokens["local"], "tools/call", **given).json()["error"]["code"] == -32602
    assert place.send(alice, "tools/call", **given).json()["result"]["structuredContent"] == "wrote a"


def test_several_audiences_and_clock_skew_are_accepted(place: Deployment) -> None:
    now = int(time.time())
    for claims in (
        {"aud": ["https://other.example", RESOURCE]},
        {"exp": now - 30},
        {"nbf": now + 30},
        {"iat": now + 30},
    ):
        assert place.send(place.authority.token(**claims)).status_code == 200


# -- refused tokens ----------------------------------------------------------------------------------------------------


def own_key_header(authority: Authority) -> dict[str, Any]:
    """A token header that contains its own key, and the address of one."""
    return {"jwk": public(rsa_key("thief")), "jku": f"{authority.issuer}/keys", "x5u": "https://evil.example/x"}


def as_text(key: Any, form: str = "PEM") -> bytes:
    kind = getattr(serialization.Encoding, form)
    return bytes(key.public_key().public_bytes(kind, serialization.PublicFormat.SubjectPublicKeyInfo))


FORGED: dict[str, Any] = {
    "no signature": lambda a: a.token(algorithm="none"),
    "None in other letters": lambda a: a.token(algorithm="none", header={"alg": "nOnE"}),
    "a sound token without its signature": lambda a: a.token().rpartition(".")[0] + ".",
    "the public key as a shared secret": lambda a: a.token(as_text(rsa_key("a")), "HS256"),
    "the public key in DER as a shared secret": lambda a: a.token(as_text(rsa_key("a"), "DER"), "HS256"),
    "an empty shared secret": lambda a: a.token(b"", "HS256"),
    "the key itself as a shared secret": lambda a: a.token(json.dumps(a.keys[0]).encode(), "HS256"),
    "another key under the known id": lambda a: a.token(rsa_key("thief")),
    "an elliptic key under the id of the other": lambda a: a.token(ec_key("thief"), "ES256"),
    "a key of its own": lambda a: a.token(rsa_key("thief"), header=own_key_header(a)),
    "a key of its own without an id": lambda a: a.token(rsa_key("thief"), header=own_key_header(a) | {"kid": None}),
    "a changed user": lambda a: swapped(a.token(), a.claims(sub="owner")),
    "a changed header": lambda a: encoded({"alg": "RS256", "kid": "k1"}) + "." + a.token().partition(".")[2],
    "an algorithm that is not listed": lambda a: a.token(algorithm="RS512"),
    "an algorithm that is a list": lambda a: a.token(header={"alg": ["RS256"]}),
    "no algorithm": lambda a: a.token(header={"alg": None}),
    "an id that is a path": lambda a: a.token(header={"kid": "../../../../dev/null"}),
    "an id that is a query": lambda a: a.token(header={"kid": "k1' UNION SELECT 'x"}),
    "an id that is a number": lambda a: a.token(header={"kid": 1}),
    "an endless id": lambda a: a.token(header={"kid": "k" * 2000}),
    "nothing critical": lambda a: a.token(header={"crit": []}),
    "something critical that nobody knows": lambda a: a.token(header={"crit": ["x"], "x": 1}),
    "something critical": lambda a: a.token(header={"crit": ["exp"]}),
    "a payload that is not encoded": lambda a: a.token(header={"b64": False, "crit": ["b64"]}),
    "a logout token": lambda a: a.token(header={"typ": "logout+jwt"}),
    "an encrypted token": lambda a: ".".join(["e30"] * 5),
    "two dots and nothing": lambda a: "..",
    "a huge token": lambda a: a.token(more="x" * 20_000),
    "a header that is twice the same": lambda a: twice(a),
    "claims that are a list": lambda a: a.signed({"alg": "RS256", "kid": "k1"}, [1], rsa_key("a"), "RS256"),
    "claims that are no JSON": lambda a: a.signed({"alg": "RS256", "kid": "k1"}, b"{", rsa_key("a"), "RS256"),
    "another issuer": lambda a: a.token(iss="https://evil.example"),
    "the issuer with a slash": lambda a: a.token(iss=a.issuer + "/"),
    "the issuer in a list": lambda a: a.token(iss=[a.issuer]),
    "no issuer": lambda a: a.token(iss=None),
    "another audience": lambda a: a.token(aud="https://other.example/mcp"),
    "the audience with a slash": lambda a: a.token(aud=RESOURCE + "/"),
    "the audience without its path": lambda a: a.token(aud="https://tools.example.com"),
    "an audience that is an object": lambda a: a.token(aud={RESOURCE: 1}),
    "no audience": lambda a: a.token(aud=None),
    "expired": lambda a: a.token(exp=int(time.time()) - 120),
    "no end": lambda a: a.token(exp=None),
    "an end that is a text": lambda a: a.token(exp="tomorrow"),
    "an end without end": lambda a: a.token(exp=float("inf")),
    "an end that is no number": lambda a: a.token(exp=float("nan")),
    "not yet": lambda a: a.token(nbf=int(time.time()) + 120),
    "issued tomorrow": lambda a: a.token(iat=int(time.time()) + 86400),
    "bound to a key of the client": lambda a: a.token(cnf={"jkt": "x"}),
}  # fmt: skip
OUTCOMES = {"expired": "expired-token"}


def swapped(token: str, claims: dict[str, Any]) -> str:
    header, _, signature = token.split(".")
    return f"{header}.{encoded(claims)}.{signature}"


def twice(authority: Authority) -> str:
    return authority.signed(b'{"alg":"none","alg":"RS256","kid":"k1"}', authority.claims(), rsa_key("a"), "RS256")


def test_forged_tokens_are_refused(place: Deployment) -> None:
    for case, forged in FORGED.items():
        place.world.receipts.clear()
        place.world.loop.call_soon_threadsafe(place.world.server.refusals._windows.clear)
        found = place.send(forged(place.authority), "tools/call", name="add", arguments={"a": 1, "b": 2})
        assert found.status_code == 401, case
        assert 'error="invalid_token"' in found.headers["www-authenticate"], case
        assert place.outcomes == [OUTCOMES.get(case, "invalid-token")], case
        assert {receipt.kind for receipt in place.world.receipts} == {"mcp-message"}, case
        assert not [receipt for receipt in place.world.receipts if "alice" in str(receipt)], case
    assert place.send(place.authority.token()).status_code == 200


def test_a_token_of_an_unknown_user_is_forbidden(place: Deployment) -> None:
    for sub in ("mallory@login", "ALICE@LOGIN", "alice", "local", "", None):
        assert place.send(place.authority.token(sub=sub)).status_code == 403, sub
    for sub in (7, ["alice@login"]):
        assert place.send(place.authority.token(sub=sub)).status_code == 401, "a subject is a text"
    assert place.outcomes == ["unknown-user", "invalid-token"]


def test_a_configured_claim_names_the_user(world: World, authority: Authority, tmp_path: Path) -> None:
    with deployed(world, authority, tmp_path, user_claim="email") as url:
        site = Deployment(world, url, UserTokens(tmp_path / "tokens.json"), authority)
        assert site.send(authority.token(email="alice@login", sub="x")).status_code == 200
        for email in (None, 7, ["alice@login"], {"alice@login": 1}):
            assert site.send(authority.token(email=email)).status_code == 403
        site.client.close()


def test_a_token_in_the_url_is_refused_despite_a_valid_header(place: Deployment) -> None:
    token = place.authority.token()
    for query in (f"access_token={token}", "a=b&access_token=", "access_token=x&access_token=y"):
        found = place.send(token, path=f"/mcp?{query}")
        assert found.status_code == 400 and 'error="invalid_request"' in found.headers["www-authenticate"]
    assert place.send(None, path=f"/mcp?access_token={token}").status_code == 401
    assert place.outcomes == ["token-in-url", "no-token"]


def test_several_headers_with_tokens_are_refused(place: Deployment) -> None:
    token = place.authority.token()
    lines = [f"authorization: Bearer {token}", "authorization: Bearer x"]
    for pair in (lines, lines[::-1]):
        head = ["POST /mcp HTTP/1.1", f"host: {HOST}", *pair, "content-length: 2", "connection: close", "", "{}"]
        assert place.raw("\r\n".join(head).encode()).split()[1] == b"400"


def test_only_the_bearer_scheme_is_accepted(place: Deployment) -> None:
    token = place.authority.token()
    for header in ("Basic {}", "DPoP {}", "Bearer {} {}", "Bearer {},{}", "Bearer", "{}"):
        sent = {"host": HOST, "authorization": header.replace("{}", token)}
        assert place.client.post(place.url, json={}, headers=sent).status_code == 401, header


def test_an_invalid_token_is_refused_before_the_body_is_read(place: Deployment) -> None:
    token = place.authority.token(aud="https://other.example")
    head = ["POST /mcp HTTP/1.1", f"host: {HOST}", f"authorization: Bearer {token}", "content-length: 1000", "", ""]
    assert place.raw("\r\n".join(head).encode()).split()[1] == b"401"


def test_local_pages_are_not_served_under_the_public_origin(tmp_path: Path) -> None:
    from wasmrt.interop.mcp.server.http import Entrance, MountedHandler, serve_http
    from wasmrt.interop.mcp.server.protocol import Server
    from wasmrt.interop.web import Request, Response, plain

    async def gate(request: Request) -> Response | None:
        return None

    async def page(request: Request) -> Response:
        return plain(200, "approvals")

    async def main() -> list[int]:
        loop, urls, ended = asyncio.get_running_loop(), asyncio.Queue[str](), asyncio.Event()
        serving = loop.create_task(
            serve_http(
                Server(), Entrance(UserTokens(tmp_path / "tokens.json")), host="127.0.0.1", port=0, ended=ended,
                started=urls.put_nowait, mounted=MountedHandler("/approvals/", gate, page), origin=f"https://{HOST}",
            )
        )  # fmt: skip
        url = await urls.get()
        assert url.startswith("http://127.0.0.1:")
        async with httpx.AsyncClient(trust_env=False) as client:
            hosts = ({}, {"host": HOST}, {"host": HOST.upper()}, {"host": "evil.example"})
            found = [(await client.get(f"{url}/approvals/", headers=headers)).status_code for headers in hosts]
        ended.set()
        await serving
        return found

    assert asyncio.run(main()) == [200, 404, 404, 421]


# -- keys --------------------------------------------------------------------------------------------------------------


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def judged(authority: Authority, tokens: list[Any], clock: Clock | None = None, **settings: Any) -> list[str]:
    """Return the outcome for each token in turn; functions in the list are called in their place."""
    found: list[str] = []

    async def main() -> None:
        resource = authority.settings(**settings)
        access = AccessTokens(resource, KeySet(authority.gateway, resource.jwks_url, now=clock or time.monotonic))
        for each in tokens:
            if callable(each):
                each()
                continue
            try:
                found.append(await access.user_of(each))
            except BadToken as bad:
                found.append(bad.fault.name)

    asyncio.run(main())
    return found


def test_rotated_keys_are_found_by_their_new_id(authority: Authority) -> None:
    clock = Clock()

    def exchange() -> None:
        authority.keys = [public(rsa_key("b"), "k2")]
        clock.now += keys.RETRY_SECONDS

    new = authority.token(rsa_key("b"), header={"kid": "k2"})
    assert judged(authority, [authority.token(), exchange, new, authority.token()], clock) == [
        "alice", "alice", "SIGNATURE",
    ]  # fmt: skip
    assert authority.fetched == 2


def test_unknown_key_ids_trigger_rate_limited_fetches(authority: Authority) -> None:
    clock = Clock()
    unknown = [authority.token(header={"kid": f"k{number}"}) for number in range(2, 30)]

    def wait() -> None:
        clock.now += keys.RETRY_SECONDS

    assert set(judged(authority, [*unknown, wait, *unknown], clock)) == {"SIGNATURE"}
    assert authority.fetched == 2


def test_concurrent_tokens_trigger_one_fetch_of_the_keys(authority: Authority) -> None:
    async def main() -> list[str]:
        access = AccessTokens(authority.settings(), KeySet(authority.gateway, f"{authority.issuer}/keys"))
        return await asyncio.gather(*(access.user_of(authority.token()) for _ in range(20)))

    assert asyncio.run(main()) == ["alice"] * 20 and authority.fetched == 1


def test_keys_are_used_for_a_day_if_fetching_fails(authority: Authority) -> None:
    clock = Clock()

    def later(seconds: float, status: int) -> Any:
        def change() -> None:
            clock.now += seconds
            authority.status = status

        return change

    token = authority.token()
    tokens = [
        token, later(keys.FRESH_SECONDS + 1, 500), token, later(keys.KEPT_SECONDS - keys.FRESH_SECONDS, 500), token,
        token, later(keys.RETRY_SECONDS, 200), token,
    ]  # fmt: skip
    assert judged(authority, tokens, clock) == ["alice", "alice", "NO_KEYS", "NO_KEYS", "alice"]


def test_without_keys_requests_are_answered_with_retry_after(place: Deployment) -> None:
    place.authority.status = 500
    found = place.send(place.authority.token())
    assert (found.status_code, found.headers["retry-after"]) == (503, "30") and place.outcomes == ["no-keys"]


def test_a_malformed_key_set_is_ignored(authority: Authority) -> None:
    many = b'{"keys": [' + b"{}," * 100 + b"{}]}"
    long = b'{"keys": []}' + b" " * keys._MAX_BYTES
    shapes = [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [], "keys": []}', b"<html>", b"[" * 10_000]
    for body in (*shapes, many, long, b" " * (2 << 20)):
        authority.body = body
        assert judged(authority, [authority.token()]) == ["NO_KEYS"], body[:20]


KEYS: dict[str, Any] = {
    "a short key": lambda: ([public(rsa_key("short", 1024))], rsa_key("short", 1024), "RS256"),
    "a key for encryption": lambda: ([public(rsa_key("a"), use="enc")], rsa_key("a"), "RS256"),
    "a key for another operation": lambda: ([public(rsa_key("a"), key_ops=["encrypt"])], rsa_key("a"), "RS256"),
    "a key for another algorithm": lambda: ([public(rsa_key("a"), alg="RS512")], rsa_key("a"), "RS256"),
    "two keys of one id": lambda: ([public(rsa_key("a")), public(rsa_key("b"))], rsa_key("a"), "RS256"),
    "no id in the token, two keys": lambda: (
        [public(rsa_key("a")), public(rsa_key("b"), "k2")], rsa_key("a"), "RS256", {"kid": None},
    ),
    "a shared secret among the keys": lambda: (
        [{"kty": "oct", "kid": "k1", "k": encoded(b"secret")}], b"secret", "HS256",
    ),
    "a broken key": lambda: ([public(rsa_key("a"), n="!!")], rsa_key("a"), "RS256"),
    "keys that are none": lambda: ([7, "x", None, {"kid": "k1"}], rsa_key("a"), "RS256"),
}  # fmt: skip


def test_a_key_for_another_use_verifies_no_token(authority: Authority) -> None:
    for case, made in KEYS.items():
        published, key, algorithm, *header = made()
        authority.keys = published
        token = authority.token(key, algorithm, header=header[0] if header else None)
        assert judged(authority, [token]) == ["ALGORITHM" if algorithm == "HS256" else "SIGNATURE"], case


def test_a_token_without_key_id_uses_the_only_suitable_key(authority: Authority) -> None:
    authority.keys = [public(rsa_key("a")), public(ec_key("b"), "k2"), public(rsa_key("c"), use="enc")]
    assert judged(authority, [authority.token(header={"kid": None})]) == ["alice"]


def test_keys_are_not_fetched_from_a_server_with_an_untrusted_certificate(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(trustme.CA(), tmp_path)
    try:
        authority.gateway, own = stranger.gateway, authority.gateway
        assert judged(authority, [authority.token()]) == ["NO_KEYS"] and authority.fetched == 0
        authority.gateway = own
    finally:
        stranger.close()


def test_every_token_fault_fits_a_header() -> None:
    for fault in TokenFault:
        assert str(fault).isascii() and '"' not in fault and "\\" not in fault


def test_no_part_of_a_token_is_in_a_response(place: Deployment) -> None:
    token = place.authority.token(aud="https://evil.example/secret-word", sub="secret-word")
    found = place.send(token)
    told = found.text + str(found.headers) + str(place.world.receipts)
    assert "secret" not in told and not any(part in told for part in token.split("."))


def test_signatures_agree_with_another_jwt_library(authority: Authority) -> None:
    """Tokens signed by hand and by a library are verified alike."""
    token = jwt.encode(authority.claims(), rsa_key("a"), "RS256", headers={"kid": "k1"})
    assert judged(authority, [token]) == ["alice"]
    assert json.loads(base64.urlsafe_b64decode(token.partition(".")[0] + "=="))["typ"] == "JWT"


def test_the_settings_are_read_from_the_file(authority: Authority) -> None:
    found: ResourceSettings = authority.settings()
    assert found.origin == f"https://{HOST}" and "HS256" not in found.algorithms
