"""Requests that a web page could cause: no preflight succeeds, and only the header with the token authenticates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.interop.mcp_server.site import Site
from tests.interop.mcp_server.world import META

PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization, content-type"}
ORIGINS = ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil.example", "own", ""]


def message(site: Site) -> dict[str, Any]:
    return site.message("tools/call", {"name": "write_note", "arguments": {"name": "a"}, "_meta": META})


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("with_token", [True, False], ids=["token", "no token"])
def test_no_preflight_is_allowed(site: Site, origin: str, with_token: bool) -> None:
    sent = dict(PREFLIGHT) | ({"authorization": f"Bearer {site.tokens['local']}"} if with_token else {})
    if origin:
        sent["origin"] = site.url.removesuffix("/mcp") if origin == "own" else origin
    found = site.client.options(site.url, headers=sent)
    assert found.status_code in (401, 403, 405)
    assert not [name for name in found.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_no_response_lets_another_origin_read_it(site: Site, method: str) -> None:
    sent = site.headers(origin="https://evil.example", content_type="application/json")
    found = site.client.request(method, site.url, headers=sent)
    assert found.status_code == 403
    assert not [name for name in found.headers if name.startswith("access-control-")]
    assert "set-cookie" not in found.headers


# Places for a token that a page or a link could fill; `{token}` is a valid one.
PLACES: dict[str, dict[str, Any]] = {
    "a cookie": {"headers": {"cookie": "authorization=Bearer {token}"}},
    "a cookie named like a session": {"headers": {"cookie": "wasmrt-session={token}"}},
    "the query": {"query": "?access_token={token}"},
    "another name in the query": {"query": "?token={token}"},
    "an encoded name in the query": {"query": "?access%5Ftoken={token}"},
    "a name in capitals in the query": {"query": "?ACCESS_TOKEN={token}"},
    "the login of the URL": {"headers": {"authorization": "Basic e3Rva2VufTo="}},
    "another scheme": {"headers": {"authorization": "Token {token}"}},
    "the proxy's header": {"headers": {"proxy-authorization": "Bearer {token}"}},
    "another header": {"headers": {"x-authorization": "Bearer {token}"}},
    "a header with a list": {"headers": {"authorization": "Bearer {token}, Bearer {token}"}},
    "the session's header": {"headers": {"mcp-session-id": "{token}"}},
    "the body": {"body": {"access_token": "{token}"}},
    "the metadata": {"body": {"params": {"_meta": {"authorization": "Bearer {token}"}}}},
    "a form": {"content": "access_token={token}", "type": "application/x-www-form-urlencoded"},
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_token_elsewhere_than_in_its_header_does_not_authenticate(site: Site, place: str) -> None:
    def filled(value: Any) -> Any:
        return json.loads(json.dumps(value).replace("{token}", site.tokens["local"]))

    case = filled(PLACES[place])
    sent = {"accept": "application/json, text/event-stream", "content-type": case.get("type", "application/json")}
    content = case.get("content") or json.dumps(message(site) | case.get("body", {}))
    found = site.client.post(site.url + case.get("query", ""), content=content, headers=sent | case.get("headers", {}))
    assert found.status_code == 401
    assert site.tokens["local"] not in found.text
    assert site.world.done == [] and site.world.pending() == []
    site.works()


# Media types that a page may send without a preflight, or that are read as JSON by lenient servers.
TYPES = [
    "text/plain", "text/plain; charset=application/json", "text/plain;application/json", "text/json",
    "multipart/form-data; boundary=a", "application/x-www-form-urlencoded", "application/json-rpc", "application/jsonp",
    "application/x-www-form-urlencoded, application/json", "*/*",
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES)
def test_only_json_is_a_message(site: Site, kind: str) -> None:
    found = site.client.post(site.url, content=json.dumps(message(site)), headers=site.headers(content_type=kind))
    assert found.status_code == 415
    assert site.world.done == [] and site.world.pending() == []
