"""`http` and `web_fetch`: requests and responses, with real TLS on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.agent.first_party.conftest import Run
from tests.agent.first_party.web import Web, page
from wasmrt import (
    CallbackApprover,
    Effect,
    PreparedTool,
    ToolContext,
    ToolDefaults,
    ToolOutput,
    ToolPolicy,
    ToolRegistry,
    WasmToolRuntime,
)
from wasmrt.agent.policy import Permission, ToolRule
from wasmrt.agent.registry._function import action_names
from wasmrt.capabilities import RateLimitConfig
from wasmrt.core.errors import NotAuthorizedError, RateLimitedError, ToolError
from wasmrt.core.traits import SafetyTier, SubagentAccess

URL = "https://example.com/a"
ARTICLE = f"<title>T</title><nav>Menu</nav><article><h1>Head</h1><p>{'Words to read. ' * 40}</p></article>"
Refused = Callable[..., ToolError]


def test_request_is_sent_as_given_and_its_response_returned(run: Run, web: Web) -> None:
    web.pages[URL] = page('{"n": [1, "two"]}', kind="application/json", X_Kind="mine")
    headers = [{"name": "X-Own", "value": "1"}, {"name": "Accept", "value": "application/json"}]
    answer = run("http", method="PATCH", url=URL + "?q=1", headers=headers, body={"b": [1]})
    assert (answer["status"], answer["body"]) == (200, {"n": [1, "two"]})
    assert answer["headers"]["x-kind"] == "mine"
    (asked,) = web.asked
    assert (asked.method, asked.target, asked.header("X-Own")) == ("PATCH", "/a?q=1", "1")
    assert json.loads(asked.body) == {"b": [1]} and asked.header("Content-Type") == "application/json"
    assert asked.sni == "example.com"


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [
        ("text", b"text", "text/plain; charset=utf-8"),
        ([1, {"a": None}], b'[1,{"a":null}]', "application/json"),
        (0, b"0", "application/json"),
        (None, b"", None),
    ],
)
def test_body_is_sent_as_text_or_json(run: Run, web: Web, body: Any, sent: bytes, kind: str | None) -> None:
    web.pages[URL] = page("ok")
    run("http", method="POST", url=URL, body=body)
    assert web.asked[0].body == sent and web.asked[0].header("Content-Type") == kind


def test_given_content_type_is_kept(run: Run, web: Web) -> None:
    web.pages[URL] = page("ok")
    run("http", method="PUT", url=URL, headers=[{"name": "content-type", "value": "text/csv"}], body="a,b")
    assert web.asked[0].header("Content-Type") == "text/csv"


def test_http_returns_any_status_and_does_not_follow_redirects(run: Run, web: Web) -> None:
    web.pages[URL] = page("", status=302, Location="https://example.com/b")
    answer = run("http", method="GET", url=URL)
    assert answer["status"] == 302 and answer["headers"]["location"] == "https://example.com/b"
    assert run("http", method="GET", url="https://example.com/none")["status"] == 404
    assert [request.target for request in web.asked] == ["/a", "/none"]


def test_html_is_converted_to_markdown_on_request(run: Run, web: Web) -> None:
    web.pages[URL] = page(ARTICLE)
    assert run("http", method="GET", url=URL)["body"] == ARTICLE
    answer = run("http", method="GET", url=URL, markdown=True)
    assert "Words to read." in answer["body"] and "<" not in answer["body"] and "Menu" not in answer["body"]
    assert answer["title"] == "T"


def test_web_fetch_returns_the_article_with_absolute_links(run: Run, web: Web) -> None:
    web.pages[URL] = page(ARTICLE.replace("</p>", ' <a href="../x">link</a></p>', 1))
    answer = run("web_fetch", url=URL)
    assert answer["title"] == "T" and "[link](https://example.com/x)" in answer["content"]
    assert "Menu" not in answer["content"] and answer["content_type"] == "text/html"
    assert run("web_fetch", url=URL, format="raw")["content"].startswith("<title>")


def test_web_fetch_returns_the_whole_page_without_an_article(run: Run, web: Web) -> None:
    web.pages[URL] = page("<title>T</title><p>Short.")
    assert run("web_fetch", url=URL)["content"].strip() == "Short."


def test_long_page_is_read_in_parts(run: Run, web: Web) -> None:
    text = "".join(f"{number:05d}é" for number in range(20_000))
    web.pages[URL] = page(text, kind="text/plain; charset=utf-8")
    first = run("web_fetch", url=URL)
    assert first["content"] == text[:50_000] and (first["total_chars"], first["next_offset"]) == (120_000, 50_000)
    last = run("web_fetch", url=URL, offset=119_994, max_chars=100)
    assert last["content"] == text[-6:] and "next_offset" not in last
    assert run("web_fetch", url=URL, offset=500_000)["content"] == ""


def test_same_site_redirects_are_followed_and_others_reported(run: Run, web: Web) -> None:
    web.pages[URL] = page("", status=301, Location="https://www.example.com/b")
    web.pages["https://www.example.com/b"] = page("", status=302, Location="/c")
    web.pages["https://www.example.com/c"] = page("", status=307, Location="https://other.example/d")
    web.pages["https://other.example/d"] = page("elsewhere", kind="text/plain")
    answer = run("web_fetch", url=URL)
    assert answer["moved_to"] == "https://other.example/d" and answer["content"] == ""
    assert [request.header("Host") for request in web.asked] == ["example.com", "www.example.com", "www.example.com"]
    web.pages["https://www.example.com/c"] = page("arrived", kind="text/plain")
    answer = run("web_fetch", url=URL)
    assert (answer["content"], answer["url"]) == ("arrived", "https://www.example.com/c")


def test_number_of_redirects_is_limited(refused: Refused, web: Web) -> None:
    web.pages[URL] = page("", status=302, Location="/a")
    assert refused("web_fetch", url=URL).code == "tool:redirect" and len(web.asked) == 6


@pytest.mark.parametrize(("status", "kind"), [(404, "client"), (503, "operation-failed")])
def test_missing_page_is_an_error_with_its_status(refused: Refused, web: Web, status: int, kind: str) -> None:
    web.pages[URL] = page("sorry", status=status)
    error = refused("web_fetch", url=URL)
    assert error.code == "tool:http-status" and str(status) in error.message


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("grüße".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grüße"),
        ("грамота".encode("koi8-r"), 'text/plain; charset="koi8-r"', "грамота"),
        ("日本語".encode("shift_jis"), "text/plain;charset=Shift_JIS", "日本語"),
        (b'<meta charset="windows-1251"><p>' + "привет".encode("cp1251"), "text/html", "привет"),
        ("\ufeffbom".encode("utf-16"), "text/plain", "bom"),
        ("naïve".encode("cp1252"), "text/plain", "naïve"),
        ("naïve".encode(), "text/plain", "naïve"),
    ],
)
def test_text_is_decoded_with_its_encoding(run: Run, web: Web, body: bytes, kind: str, text: str) -> None:
    head = f"HTTP/1.1 200 X\r\nContent-Length: {len(body)}\r\nContent-Type: {kind}\r\n\r\n".encode()
    web.pages[URL] = head + body
    assert text in run("web_fetch", url=URL)["content"]
    assert text in run("http", method="GET", url=URL)["body"]


def test_encoding_is_found_without_a_header(run: Run, web: Web) -> None:
    russian = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 3
    japanese = "この文章は日本語で書かれています。文字コードの宣言がないページです。" * 3
    rows = [
        (russian.encode("cp1251"), russian),
        (russian.encode("koi8-r"), russian),
        (japanese.encode("shift_jis"), japanese),
        (japanese.encode("euc_jp"), japanese),
        (japanese.encode("iso2022_jp"), japanese),
        (b'<?xml version="1.0" encoding="windows-1251"?>' + russian.encode("cp1251"), russian),
        (
            b"<!-- <meta charset=koi8-r> -->" + b" " * 4000 + b"<meta charset=cp1251>" + russian.encode("cp1251"),
            russian,
        ),
        (("<p>" + russian).encode("utf-16-le"), russian),
    ]
    for body, text in rows:
        web.pages[URL] = f"HTTP/1.1 200 X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        assert text.strip() in run("web_fetch", url=URL, format="raw")["content"], body[:80]


def test_content_that_is_not_text_is_refused_with_its_type(refused: Refused, run: Run, web: Web) -> None:
    pdf = "%PDF-1.4\n1 0 obj << /Type /Catalog >> endobj"
    for kind, body, named in (("text/html", pdf, "pdf"), ("image/png", "text", "image/png"), ("", "{\\rtf1 x}", "rtf")):
        web.pages[URL] = page(body, kind=kind)
        error = refused("web_fetch", url=URL)
        assert error.code == "tool:not-text" and named in error.message and "expected HTML" in error.message
        assert named in run("http", method="GET", url=URL)["omitted"]
    web.pages[URL] = page("<svg>words</svg>", kind="image/svg+xml")
    assert "words" in run("web_fetch", url=URL)["content"]


def test_pages_whose_text_is_elsewhere_have_a_note(run: Run, web: Web) -> None:
    web.pages[URL] = page('<meta http-equiv="Refresh" content="0; URL=\'/b?x=1\'"><p>Moving.</p>')
    answer = run("web_fetch", url=URL)
    assert answer["moved_to"] == "https://example.com/b?x=1" and "fetch moved_to" in answer["note"]
    web.pages[URL] = page('<div id="root"></div><script src="/app.js"></script>')
    assert "without its scripts" in run("web_fetch", url=URL)["note"]
    web.pages[URL] = page(f'<meta http-equiv="refresh" content="60">{ARTICLE}<script></script>')
    assert not {"note", "moved_to"} & run("web_fetch", url=URL).keys()
    assert [request.target for request in web.asked] == ["/a"] * 3


def test_international_urls_are_sent_in_ascii(run: Run, web: Web) -> None:
    web.pages["https://example.com/wiki/%C3%96sterreich"] = page("austria", kind="text/plain")
    for tool, params in (("web_fetch", {}), ("http", {"method": "GET"})):
        answer = run(tool, url="https://ｅｘａｍｐｌｅ.com/wiki/Österreich?q=ä#ö", **params)
        assert "austria" in answer.values()
    assert {request.target for request in web.asked} == {"/wiki/%C3%96sterreich?q=%C3%A4"}
    assert {request.header("Host") for request in web.asked} == {"example.com"}


# -- in an agent -------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(runtime: WasmToolRuntime, prepared: Callable[[str], PreparedTool]) -> Callable[..., ToolRegistry]:
    def make(*rules: ToolRule, **settings: Any) -> ToolRegistry:
        registry = ToolRegistry(runtime, policy=ToolPolicy(rules=rules), **settings)
        for name in ("http", "web_fetch", "web_search"):
            registry.register(prepared(name), builtin=True)
        return registry

    return make


def test_all_methods_of_http_are_actions(prepared: Callable[[str], PreparedTool]) -> None:
    tool = prepared("http")
    declared = {action.name: action.effects for action in tool.traits.actions}
    assert set(declared) == set(action_names(tool.schema, "method") or ())
    assert tool.traits.action_param == "method"
    assert declared.pop("GET") == {Effect.NETWORK}
    assert set(declared.values()) == {frozenset({Effect.NETWORK, Effect.EXTERNAL_WRITE})}
    assert tool.traits.tier() is SafetyTier.SIDE_EFFECTING
    assert tool.traits.subagent_access is SubagentAccess.READ_ONLY
    assert prepared("web_fetch").traits.read_only and prepared("web_fetch").traits.network_outbound


def test_http_requires_approval_and_web_fetch_does_not(registry: Callable[..., ToolRegistry], web: Web) -> None:
    web.pages[URL] = page("ok")
    asked: list[str] = []
    tools = registry(approver=CallbackApprover(lambda request: bool(asked.append(request.params["method"]))))
    for method in ("GET", "POST"):
        with pytest.raises(NotAuthorizedError):
            tools.execute("http", {"method": method, "url": URL})
    assert asked == ["GET", "POST"] and not web.asked
    assert tools.execute("web_fetch", {"url": URL}).result["content"].strip() == "ok"
    allowed = registry(ToolRule(tool="http", permission=Permission.ALLOW))
    assert allowed.execute("http", {"method": "POST", "url": URL}).result["status"] == 200


def test_read_only_view_allows_only_get(registry: Callable[..., ToolRegistry], web: Web) -> None:
    web.pages[URL] = page("ok")
    view = registry(ToolRule(tool="http", permission=Permission.ALLOW)).read_only()
    (definition,) = [each for each in view.definitions("openai") if each["function"]["name"] == "http"]
    assert definition["function"]["parameters"]["properties"]["method"]["enum"] == ["GET"]
    assert view.execute("http", {"method": "GET", "url": URL}).result["status"] == 200
    with pytest.raises(NotAuthorizedError):
        view.execute("http", {"method": "DELETE", "url": URL})
    assert [request.method for request in web.asked] == ["GET"]


class Spy(ToolDefaults):
    """Replaces a tool with hostile code, and records the effects that the sandbox would allow."""

    name, description = "http", "Sends."

    def __init__(self, tool: PreparedTool) -> None:
        self.schema, self.traits, self.granted_effects = tool.schema, tool.traits, tool.granted_effects
        self.held: list[frozenset[Effect] | None] = []

    def execute(self, params: Any, context: ToolContext) -> ToolOutput:
        """Do nothing."""
        self.held.append(context.effects)
        return ToolOutput(result="")


def test_each_method_is_limited_to_its_effects(prepared: Callable[[str], PreparedTool]) -> None:
    spy = Spy(prepared("http"))
    tools = ToolRegistry(policy=ToolPolicy(rules=(ToolRule(tool="http", permission=Permission.ALLOW),)))
    tools.register(spy, builtin=True)
    for method in ("GET", "POST"):
        tools.execute("http", {"method": method, "url": URL})
    assert spy.held == [frozenset({Effect.NETWORK}), None]  # None means the whole grant


def test_rate_limits_apply_to_each_user(registry: Callable[..., ToolRegistry], web: Web) -> None:
    web.pages[URL] = page("ok")
    usual = registry().explain("web_fetch", {"url": URL})
    assert any("60 a minute, 1000 an hour" in str(step) for step in usual.steps)
    tools = registry(ToolRule(tool="web_fetch", rate=RateLimitConfig(1, 10)))
    tools.execute("web_fetch", {"url": URL}, user="ann")
    with pytest.raises(RateLimitedError):
        tools.execute("web_fetch", {"url": URL}, user="ann")
    tools.execute("web_fetch", {"url": URL}, user="bob")


def test_web_tools_declare_cost_and_duration(prepared: Callable[[str], PreparedTool]) -> None:
    for name in ("http", "web_fetch", "web_search", "read_file", "html_to_markdown"):
        tool = prepared(name)
        assert tool.estimated_cost({}) == Decimal(0), name
        assert 0 < (tool.estimated_duration({}) or 0) <= tool.timeout_seconds, name
