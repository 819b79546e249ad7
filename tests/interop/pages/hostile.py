"""Pages of other origins in a real browser, and every way in which a page can send a request to wasmrt's servers."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.interop.pages.browser import Browser, Tab
from tests.interop.web.served import served
from wasmrt.interop.web import Origins, Request, Response

SECONDS = 20.0
PAGES = ("another port", "another name", "a name that was rebound", "no origin")
"""The origin of the hostile page."""

_SEND = "fetch(target, {method: 'POST', credentials: 'include', %s}).then(r => r.text(), () => '')"
_FORM = """new Promise(done => {
  document.body.innerHTML = '<iframe name=there></iframe>';
  const form = document.createElement('form');
  Object.assign(form, {method: 'post', action: target, target: 'there', enctype: '%s'});
  const [first, ...rest] = body.split('=');
  form.append(Object.assign(document.createElement('input'), {name: first, value: rest.join('=')}));
  document.body.append(form);
  document.querySelector('iframe').onload = () => done('');
  form.submit();
})"""
_OPENED = "new Promise(done => { const it = new %s; it.onerror = () => done(''); it.onopen = () => done('open'); })"
WAYS = {
    "fetch": _SEND % "headers, body",
    "fetch without headers": _SEND % "body",
    "fetch, no-cors": _SEND % "mode: 'no-cors', body",
    "a form": _FORM % "application/x-www-form-urlencoded",
    "a form of plain text": _FORM % "text/plain",
    "a beacon": "navigator.sendBeacon(target, new Blob([body], {type: headers['content-type']})) && ''",
    "WebSocket": _OPENED % "WebSocket(target.replace('http', 'ws'))",
    "EventSource": _OPENED % "EventSource(target, {withCredentials: true})",
    "XMLHttpRequest": """new Promise(done => {
        const it = new XMLHttpRequest();
        it.open('POST', target);
        it.withCredentials = true;
        Object.entries(headers).forEach(([name, value]) => it.setRequestHeader(name, value));
        it.onloadend = () => done(it.responseText);
        it.send(body);
    })""",
}


@dataclass
class Heard:
    """The results of a server's check of names and origins, by request: a status, or None if it was accepted."""

    port: int
    said: queue.Queue[int | None] = field(default_factory=queue.Queue)

    def answers(self) -> list[int | None]:
        """Return at least one result, and all others that have arrived."""
        found = [self.said.get(timeout=SECONDS)]
        while not self.said.empty():
            found.append(self.said.get())
        return found


def heard(port: int, monkeypatch: pytest.MonkeyPatch) -> Heard:
    """Record the checks of the server on a port."""
    found, check = Heard(port), Origins.refusal

    def listening(origins: Origins, request: Request) -> Response | None:
        refused = check(origins, request)
        named = request.has("origin") or request.header("host") not in (f"127.0.0.1:{port}", f"localhost:{port}")
        if named and any(each.endswith(f":{port}") for each in origins.all):  # an open page polls for changes
            found.said.put(None if refused is None else refused.status)
        return refused

    monkeypatch.setattr(Origins, "refusal", listening)
    return found


async def _page(request: Request) -> Response:
    sandbox = "; sandbox allow-scripts allow-forms" if request.path == "/no-origin" else ""
    policy = ("content-security-policy", f"default-src * 'unsafe-inline'{sandbox}")
    return Response(headers=(("content-type", "text/html"), policy), body=b"<!doctype html><body>")


@contextmanager
def hostile_page(browser: Browser, where: str, port: int) -> Iterator[tuple[Tab, str]]:
    """A page from PAGES, and the origin with which it sends requests to wasmrt's server on a port."""
    tab = browser.tab()
    own = f"http://127.0.0.1:{port}"
    with served(_page) as other:
        if where == "a name that was rebound":
            own = f"http://evil.example:{port}"
            without_policy(tab)
            tab.goto(f"{own}/")
        else:
            name, path = ("localhost" if where == "another name" else "127.0.0.1"), where.replace(" ", "-")
            tab.goto(f"http://{name}:{other.port}/{path}")
            assert (tab.run("origin") == "null") is (where == "no origin")
        yield tab, own
        tab.ask("Page.close")


def without_policy(tab: Tab) -> None:
    """Let scripts of the tab's next page send requests, which the Content-Security-Policy of wasmrt's pages forbids."""
    tab.ask("Page.setBypassCSP", enabled=True)


def sent(tab: Tab, way: str, target: str, headers: dict[str, str], body: str) -> str:
    """Send a request from a page, and return the response as far as the page can read it."""
    given = f"const [target, headers, body] = {json.dumps([target, headers, body])};"
    return str(tab.run(f"(async () => {{ {given} return await ({WAYS[way]}); }})()"))
