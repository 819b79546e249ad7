"""Requests to the pages that another site could cause: none is allowed beforehand, and none changes anything."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from tests.agent.approvals.requests import request
from tests.interop.pages.site import Person, Site
from wasmrt.agent.approvals import State

FORM = "application/x-www-form-urlencoded"
ORIGINS = ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil.example", "own"]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("path", ["", "state", "requests/{id}"])
def test_no_preflight_is_allowed(site: Site, ann: Person, path: str, origin: str) -> None:
    asked = request()
    site.store.add(asked)
    sent = {"origin": site.origin if origin == "own" else origin, "access_control_request_method": "POST"}
    found = site.send("OPTIONS", ann.root + path.format(id=asked.id), cookie=ann.cookie, **sent)
    assert found.status in (403, 405) and asked.id not in found.text
    assert not [name for name in found.headers if name.startswith("access-control-")]


# The fields of a form with a valid session, sent in a way that a form of the page does not use.
WAYS: dict[str, dict[str, str]] = {
    "GET": {"method": "GET", "in": "query"},
    "HEAD": {"method": "HEAD", "in": "query"},
    "PUT": {"method": "PUT"},
    "PATCH": {"method": "PATCH"},
    "DELETE": {"method": "DELETE"},
    "a method that overrides GET": {"method": "GET", "in": "query", "x_http_method_override": "POST"},
    "a query with POST": {"in": "query"},
    "the token in the query": {"in": "split"},
    "no origin": {"origin": ""},
    "another site": {"sec_fetch_site": "cross-site", "origin": ""},
    "a neighbouring site": {"sec_fetch_site": "same-site", "origin": ""},
    "typed by the user": {"sec_fetch_site": "none", "origin": ""},
    "an own origin from another site": {"origin": "http://evil.example", "sec_fetch_site": "same-origin"},
    "an origin with another port": {"origin": "http://127.0.0.1:1"},
    "an origin with a path": {"origin": "{own}/"},
    "an origin over TLS": {"origin": "https://{host}"},
    "plain text": {"content_type": "text/plain"},
    "JSON": {"content_type": "application/json"},
    "a form in several parts": {"content_type": "multipart/form-data; boundary=a"},
    "no media type": {"content_type": ""},
    "another host": {"host": "evil.example"},
    "another host with the port": {"host": "evil.example:{port}"},
    "a host that ends like ours": {"host": "evil.{host}"},
    "a token in a header instead": {"in": "header"},
    "no token": {"in": "nowhere"},
    "the token twice": {"in": "twice"},
}


@pytest.mark.parametrize("case", WAYS)
def test_only_the_form_of_the_session_answers(site: Site, ann: Person, case: str) -> None:
    asked = request()
    site.store.add(asked)
    ann.get()
    names = {"own": site.origin, "host": site.server.host, "port": str(site.server.port)}
    way = {name: value.format(**names) for name, value in WAYS[case].items()}
    method, place = way.pop("method", "POST"), way.pop("in", "body")
    answer, token = {"user": "alice", "answer": "allow-once"}, {"form_token": ann.token}
    path, body = f"{ann.root}requests/{asked.id}", urlencode(answer | token)
    if place in ("query", "split"):
        path, body = f"{path}?{urlencode(answer | token if place == 'query' else token)}", urlencode(answer)
        body = "" if place == "query" else body
    elif place == "twice":
        body += f"&{urlencode(token)}"
    elif place in ("header", "nowhere"):
        body = urlencode(answer)
        way |= {"x_csrf_token": ann.token} if place == "header" else {}
    sent = {"cookie": ann.cookie, "origin": site.origin, "content_type": FORM} | way
    found = site.send(method, path, body, **{name: value for name, value in sent.items() if value})
    assert found.status != 303
    assert site.store.state(asked.id) is State.PENDING
    assert ann.post(f"requests/{asked.id}", answer="allow-once").status == 303
