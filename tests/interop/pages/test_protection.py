"""Access to the pages, and attacks by other pages, links and untrusted text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.agent.approvals.requests import request
from tests.interop.pages.site import Person, Site
from tests.interop.pages.site import site as served_site
from wasmrt import Decision, Reason
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, ApprovalScope, State

_HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "</pre></main><form action=//evil.example><button>Allow",
    "</title><meta http-equiv=refresh content='0;url=//evil.example'>",
    "<!-- ", "-->", "]]>", "&lt;script&gt;", "&#x3c;script&#x3e;", "javascript:alert(1)", "{{7*7}}", "\u202egnp.exe",
    "\u2066hidden\u2069", "a\u200bb", "\ufeff", "\U000e0041", "\x00", "\x1b[31m", "\r\nSet-Cookie: a=1", "\u2028",
)  # fmt: skip


class Elements(HTMLParser):
    """The elements and attributes that an HTML parser finds in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, frozenset[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, frozenset(name for name, _ in attrs)))


def hostile_request(text: str) -> ApprovalRequest:
    why = Decision(False, Reason.NOT_GRANTED, text, capability="approval", subject=text)
    return request(
        {text: text, "deep": [{text: [text]}]}, tool=f"tool{text}", user=text, trace=text or "t", risk=text,
        why=why, preview=f"+{text}\n-{text}",
    )  # fmt: skip


def test_without_a_session_pages_and_forms_are_refused(site: Site, ann: Person) -> None:
    asked = request()
    site.store.add(asked)
    other = site.person()
    ann.get()
    body = urlencode({"form_token": ann.token, "user": "alice", "answer": "allow-once"})
    for cookie in ("", "wasmrt-session=", "wasmrt-session=guess", other.cookie, f"{ann.cookie}; {other.cookie}"):
        for method, path in (
            ("GET", ""), ("GET", "state"), ("GET", "receipts"), ("GET", f"requests/{asked.id}"),
            ("POST", f"requests/{asked.id}"), ("POST", "verify"), ("POST", "leave"),
        ):  # fmt: skip
            answer = site.send(
                method, ann.root + path, body if method == "POST" else None, cookie=cookie, origin=site.origin,
                content_type="application/x-www-form-urlencoded",
            )  # fmt: skip
            assert answer.status == 403
            assert asked.id not in answer.text
    assert site.store.state(asked.id) is State.PENDING


def test_a_bearer_token_does_not_open_pages(site: Site, ann: Person) -> None:
    secret = ann.cookie.partition("=")[2]
    assert site.send("GET", ann.root, authorization=f"Bearer {secret}").status == 403


def test_a_link_works_once_and_prefetching_does_not_use_it(site: Site) -> None:
    link = site.link()
    assert site.send("HEAD", link).status == 403
    assert site.send("GET", link, sec_purpose="prefetch").status == 403
    assert site.send("POST", link, "", origin=site.origin).status == 403
    assert site.send("GET", link + "&a=1&a=2").status == 403
    assert site.send("GET", link).status == 200
    again = site.send("GET", link)
    assert again.status == 403
    assert "wasmrt approvals --web" in again.text
    assert "set-cookie" not in again.headers


def test_a_form_without_the_sessions_token_is_refused(site: Site, ann: Person) -> None:
    asked = request()
    site.store.add(asked)
    other = site.person()
    other.get()
    ann.get()
    old = site.person()
    old.get()
    old.post("leave")
    for token in ("", other.token, old.token, ann.token[:-1], ann.token + "a", ann.token.upper()):
        answer = ann.post(f"requests/{asked.id}", answer="allow-once", form_token=token)
        assert answer.status == 403
        assert "Nothing was changed" in answer.text
    assert site.store.state(asked.id) is State.PENDING
    assert ann.post(f"requests/{asked.id}", answer="allow-once").status == 303


def test_a_form_from_another_or_no_origin_is_refused(site: Site, ann: Person) -> None:
    asked = request()
    site.store.add(asked)
    ann.get()
    body = urlencode({"form_token": ann.token, "user": "alice", "answer": "allow-once"})
    kind = "application/x-www-form-urlencoded"
    path = f"{ann.root}requests/{asked.id}"
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://{site.server.host}"):
        answer = site.send("POST", path, body, cookie=ann.cookie, content_type=kind, origin=origin)
        assert answer.status == 403
    for more in ({}, {"sec_fetch_site": "same-site"}, {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "none"}):
        assert site.send("POST", path, body, cookie=ann.cookie, content_type=kind, **more).status == 403
    for other in ("text/plain", "application/json", "multipart/form-data; boundary=a"):
        answer = site.send("POST", path, body, cookie=ann.cookie, content_type=other, origin=site.origin)
        assert answer.status == 403
    assert site.store.state(asked.id) is State.PENDING
    own = site.send("POST", path, body, cookie=ann.cookie, content_type=kind, sec_fetch_site="same-origin")
    assert own.status == 303, "a browser that sends no origin says it otherwise"


def test_answers_in_a_query_are_ignored(site: Site, ann: Person) -> None:
    asked = request()
    site.store.add(asked)
    ann.get()
    fields = urlencode({"form_token": ann.token, "user": "alice", "answer": "allow-once"})
    ann.get(f"requests/{asked.id}?{fields}")
    assert site.send("PUT", f"{ann.root}requests/{asked.id}", fields, cookie=ann.cookie).status == 405
    assert site.store.state(asked.id) is State.PENDING


def test_pages_are_not_served_to_a_rebound_name(site: Site, ann: Person) -> None:
    assert site.send("GET", ann.root, cookie=ann.cookie, host=f"evil.example:{site.server.port}").status == 421
    assert site.send("GET", site.link(), host="evil.example").status == 421


def test_paths_are_compared_and_never_resolved(site: Site, ann: Person) -> None:
    root = ann.root.strip("/")
    for path in (
        f"//{root}/", f"/x/../{root}/", f"/%2e/{root}/", f"/{root}", f"/{root}//", f"/{root}/./receipts",
        f"/{root}/%72eceipts", "/style.css/../../pyproject.toml", "/style.css%00", "/_pages.py", "/__init__.py",
        "/../style.css", f"/{root}/style.css", f"/{root.upper()}/",
    ):  # fmt: skip
        assert site.send("GET", path, cookie=ann.cookie).status in (403, 404), path


def test_every_page_has_a_content_security_policy_and_cannot_be_framed(site: Site, ann: Person) -> None:
    site.store.add(request())
    pages = [ann.get(path) for path in ("", "remembered", "receipts", "grants", "nothing")]
    pages += [site.send("GET", "/"), site.send("GET", site.link()), ann.post("verify"), ann.post("leave")]
    for page in pages:
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; ")
        for part in ("form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'", "trusted-types 'none'"):
            assert part in policy
        assert "unsafe" not in policy and "http" not in policy and "*" not in policy
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["referrer-policy"] == "same-origin"
        assert page.headers["x-frame-options"] == "DENY"
        assert "style=" not in page.text and "<style" not in page.text
        assert not any(name.startswith("on") for _, names in Elements(page.text).found for name in names)


@pytest.mark.parametrize("text", _HOSTILE)
def test_untrusted_text_is_escaped_and_cannot_hide_other_text(site: Site, ann: Person, text: str) -> None:
    plain, hostile = request(preview="+x\n-x", params={"x": "x", "deep": [{"x": ["x"]}]}), hostile_request(text)
    expected = []
    for asked in (plain, hostile):
        site.store.add(asked)
        pages = [ann.get(), ann.get(f"requests/{asked.id}")]
        answer = ApprovalAnswer(approved=False, scope=ApprovalScope.ALWAYS, by=text, note=text)
        site.store.answer(asked.id, answer, user=asked.user)
        pages += [ann.get(f"requests/{asked.id}"), ann.get("remembered"), ann.get(f"?done={asked.id}")]
        for answered in site.store.answers():
            site.store.forget(answered.id)
        expected.append([_shape(page.text) for page in pages[:3]])
        for page in pages:
            assert all(char == "\n" or char.isprintable() for char in page.text)
            assert "<script>alert" not in page.text and "<img" not in page.text
            assert {name for name, _ in Elements(page.text).found} <= _ELEMENTS
            assert "set-cookie" not in page.headers
    assert expected[0] == expected[1], "the same elements, whatever the texts"


_ELEMENTS = {
    *("html", "head", "meta", "title", "link", "script", "body", "header", "nav", "main", "article", "form", "input"),
    *("button", "a", "p", "h1", "h2", "h3", "ul", "li", "dl", "div", "dt", "dd", "pre", "span", "bdi", "fieldset"),
    *("legend", "label", "select", "option", "table", "caption", "thead", "tbody", "tr", "th", "td", "time", "code"),
    *("strong", "footer", "b", "section", "details", "summary", "blockquote", "textarea"),
}


def _shape(text: str) -> list[tuple[str, frozenset[str]]]:
    """Return the elements of a page, without warnings, which depend on the text, and states of buttons."""
    found = Elements(re.sub(r'<ul class="warn".*?</ul>', "", text, flags=re.DOTALL)).found
    shape = [element for element in found if element[0] not in ("bdi", "span", "pre")]
    return [(name, frozenset() if name == "button" else attributes) for name, attributes in shape]


def test_filter_input_is_shown_as_text(site: Site, ann: Person) -> None:
    for text in _HOSTILE:
        for path in ("receipts", ""):
            page = ann.get(f"{path}?{urlencode({'tool': text, 'since': text, 'done': text, 'count': text})}")
            assert "<script>alert" not in page.text and "<img" not in page.text
            elements = Elements(page.text).found
            assert {name for name, _ in elements} <= _ELEMENTS
            assert not any(name == "autofocus" or name.startswith("on") for _, names in elements for name in names)
        assert ann.get(f"receipts/{urlencode({'': text})[1:]}").status == 404


def test_signing_out_ends_the_session_at_once(site: Site, ann: Person) -> None:
    gone = ann.post("leave")
    assert "Max-Age=0" in gone.headers["set-cookie"]
    assert ann.get().status == 403


def test_only_the_pages_own_files_are_served(site: Site) -> None:
    style, script = site.send("GET", "/style.css"), site.send("GET", "/refresh.js")
    assert (style.status, style.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert (script.status, script.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    for name in ("_html.py", "", "style", "../style.css"):
        assert site.send("GET", f"/{name}").status == 403


def test_pages_with_a_base_path_are_served_only_below_it(tmp_path: Path) -> None:
    with served_site(tmp_path, base="/approvals/") as site:
        ann = site.person()
        assert ann.root.startswith("/approvals/")
        assert ann.get().status == 200
        assert 'href="/approvals/style.css"' in ann.get().text
        assert site.send("GET", "/approvals/style.css").status == 200
        for path in ("/", "/style.css", "/approvals", "/mcp", ann.root.removeprefix("/approvals")):
            assert site.send("GET", path, cookie=ann.cookie).status == 404


def test_session_addresses_are_not_stored(site: Site, ann: Person, tmp_path: Path) -> None:
    link = site.link()
    site.send("GET", link)
    token = link.partition("=")[2].encode()
    assert not any(token in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
