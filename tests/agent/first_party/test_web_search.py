"""`web_search`: its providers, their keys, and the configuration that chooses one."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner
from wasmrt.testing import MemorySecrets, ScriptedServer
from wasmrt.testing._server import ReceivedRequest, ServerConnection, http_response

from tests.agent.first_party.web import Web, page
from wasmrt import Effect, PreparedTool, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, load_registry
from wasmrt.agent.config import read_config_file
from wasmrt.catalog.search import PROVIDERS, WebSearch
from wasmrt.cli import cli
from wasmrt.core.errors import ConfigFileError, ConfigurationError, NotInstalledError, ToolError, UnknownToolError
from wasmrt.core.labels import Label
from wasmrt.egress.secrets import Secret

ToolOf = Callable[[str], PreparedTool]
KEY = "brv-" + "k3Y5q8Z1" * 4
FOUND = {"title": "One", "url": "https://example.com/one", "snippet": "First."}
JSON = "application/json"
ANSWERS = {
    "brave": {"web": {"results": [{"title": "One", "url": FOUND["url"], "description": "First."}]}},
    "tavily": {"results": [{"title": "One", "url": FOUND["url"], "content": "First.", "score": 0.9}]},
    "searxng": {"results": [{"title": "One", "url": FOUND["url"], "content": "First.", "engine": "x"}]},
}
ADDRESSES = {
    "brave": "https://api.search.brave.com/res/v1/web/search",
    "tavily": "https://api.tavily.com/search",
    "searxng": "https://search.example.com/search",
}


def choice(provider: str) -> WebSearch:
    return WebSearch(provider=provider, url="https://search.example.com" if provider == "searxng" else None)


@contextmanager
def searching(web: Web, provider: str, *, key: str | None = KEY) -> Iterator[PreparedTool]:
    store = MemorySecrets()
    if key is not None:
        store.set("local", f"{provider}_api_key", Secret(key))
    config = WasmRuntimeConfig(network=web.network(), secrets=store, web_search=choice(provider))
    with WasmToolRuntime(config) as runtime:
        yield runtime.prepare_installed("web_search")


@pytest.fixture(scope="module")
def tool_of(whole_web: Web, home: Path) -> Iterator[ToolOf]:
    """Return the tool with a provider and its key."""
    with ExitStack() as stack:
        yield lru_cache(lambda provider: stack.enter_context(searching(whole_web, provider)))


@pytest.fixture
def searched(web: Web, tool_of: ToolOf) -> Callable[..., Any]:
    """Return a function that searches with a provider that gives the given answer."""

    def run(provider: str, answer: Any, *, status: int = 200, **params: Any) -> Any:
        body = answer if isinstance(answer, str) else json.dumps(answer)
        web.pages[ADDRESSES[provider]] = page(body, kind=JSON, status=status)
        return tool_of(provider).execute({"query": "a b&c", **params}).result

    return run


@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_providers_return_the_same_result_format(searched: Callable[..., Any], web: Web, provider: str) -> None:
    assert searched(provider, ANSWERS[provider]) == {"query": "a b&c", "results": [FOUND]}
    (asked,) = web.asked
    if provider == "tavily":
        assert asked.method == "POST" and json.loads(asked.body) == {"query": "a b&c", "max_results": 10}
        assert asked.header("Authorization") == f"Bearer {KEY}"
    else:
        assert asked.method == "GET" and asked.target.partition("?")[2].startswith("q=a+b%26c&")
        assert asked.header("X-Subscription-Token") == (KEY if provider == "brave" else None)


def test_results_are_limited_and_have_page_urls(searched: Callable[..., Any]) -> None:
    many = [{"title": "t" * 5000, "url": f"https://example.com/{n}", "content": None} for n in range(30)]
    odd = [{"url": "javascript:alert(1)"}, {"title": "no url"}, "text", 7, {"url": "file:///etc/passwd"}]
    results = searched("searxng", {"results": [*odd, *many]}, max_results=3)["results"]
    assert [result["url"] for result in results] == [f"https://example.com/{n}" for n in range(3)]
    assert results[0] == {"title": "t" * 1000, "url": "https://example.com/0", "snippet": ""}


def test_search_without_hits_returns_an_empty_list(searched: Callable[..., Any]) -> None:
    assert searched("brave", {"type": "search", "query": {}})["results"] == []
    assert searched("searxng", {"results": []})["results"] == []


@pytest.mark.parametrize(
    ("provider", "answer", "status", "said"),
    [
        ("brave", {}, 401, "refuses the key"),
        ("tavily", {}, 429, "search less, and later"),
        ("searxng", "no", 403, "search.formats"),
        ("searxng", "<html>", 200, "no list of results"),
        ("brave", {"web": {"results": "none"}}, 200, "no list of results"),
        ("brave", {}, 500, "answered 500"),
    ],
)
def test_provider_failure_suggests_a_fix(
    searched: Callable[..., Any], provider: str, answer: Any, status: int, said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        searched(provider, answer, status=status)


def test_empty_query_sends_no_request(searched: Callable[..., Any], web: Web) -> None:
    with pytest.raises(ToolError, match="say what to search for"):
        searched("searxng", {}, query="  ")
    assert not web.asked


# -- the key -----------------------------------------------------------------------------------------------------------


def test_missing_key_error_names_the_command(web: Web, home: Path) -> None:
    with searching(web, "brave", key=None) as tool, pytest.raises(ToolError) as caught:
        tool.execute({"query": "x"})
    assert "wasmrt secret set brave_api_key" in caught.value.message and not web.asked


@pytest.mark.parametrize("provider", ["brave", "tavily"])
def test_echoed_key_is_redacted_from_the_result(web: Web, provider: str, tool_of: ToolOf) -> None:
    def echo(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        heard = request.header("X-Subscription-Token") or request.header("Authorization") or ""
        result = {"title": heard, "url": f"https://evil.example/?k={heard}".replace(" ", "+"), "description": heard,
                  "content": heard}  # fmt: skip
        return http_response(json.dumps({"web": {"results": [result]}, "results": [result]}).encode())

    web.pages[ADDRESSES[provider]] = echo
    tool = tool_of(provider)
    try:
        assert KEY not in str(tool.execute({"query": "x"}).result)
    except ToolError as error:
        assert KEY not in str(error)
    assert KEY in web.asked[0].head.decode()


def test_key_is_not_available_to_other_tools_or_queries(web: Web, home: Path) -> None:
    web.pages[ADDRESSES["brave"]] = page("{}", kind=JSON)
    store = MemorySecrets()
    store.set("local", "brave_api_key", Secret(KEY))
    config = WasmRuntimeConfig(network=web.network(), secrets=store, web_search=choice("brave"))
    with WasmToolRuntime(config) as runtime:
        runtime.prepare_installed("http").execute({"method": "GET", "url": ADDRESSES["brave"]})
        runtime.prepare_installed("web_fetch").execute({"url": ADDRESSES["brave"], "format": "raw"})
        smuggled = [{"name": "X-Subscription-Token", "value": "{brave_api_key}"}]
        params = {"method": "GET", "url": ADDRESSES["brave"] + "?k={brave_api_key}", "headers": smuggled}
        with suppress(ToolError):
            runtime.prepare_installed("http").execute(params)
    assert len(web.asked) >= 2 and all(KEY not in request.head.decode() for request in web.asked)


def test_redirect_of_the_provider_is_not_followed(searched: Callable[..., Any], web: Web, tool_of: ToolOf) -> None:
    web.pages["https://other.example/"] = page("{}")

    def away(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        return http_response(status=302, headers=(("Location", "https://other.example/"),))

    tool = tool_of("brave")
    with pytest.raises(ToolError, match="answered 302"):
        web.pages[ADDRESSES["brave"]] = away
        tool.execute({"query": "x"})
    assert len(web.asked) == 1


# -- the configuration -------------------------------------------------------------------------------------------------


def test_effects_of_a_search_follow_from_its_provider(web: Web, tool_of: ToolOf) -> None:
    expected = {
        "searxng": {Effect.NETWORK},
        "brave": {Effect.NETWORK, Effect.USE_SECRET},
        "tavily": {Effect.NETWORK, Effect.USE_SECRET, Effect.EXTERNAL_WRITE},  # it takes searches by POST alone
    }
    for provider in PROVIDERS:
        tool = tool_of(provider)
        assert tool.traits.effects == expected[provider]
        (entry,) = tool.capabilities.http.allowlist  # type: ignore[union-attr]
        assert f"https://{entry.host_pattern}{entry.path}" == ADDRESSES[provider]


def test_read_only_view_has_no_post_search(web: Web, tool_of: ToolOf) -> None:
    tool = tool_of("tavily")
    registry = ToolRegistry()
    registry.register(tool, builtin=True)
    view = registry.read_only()
    assert "web_search" in registry and "web_search" not in view
    with pytest.raises(ToolError, match="external-write, which the view does not allow"):
        view.execute("web_search", {"query": "x"})
    assert not web.asked


def test_search_results_are_untrusted_and_not_private(web: Web, tool_of: ToolOf) -> None:
    web.pages[ADDRESSES["brave"]] = page(json.dumps(ANSWERS["brave"]), kind=JSON)
    tool = tool_of("brave")
    registry = ToolRegistry()
    registry.register(tool, builtin=True)
    trace = registry.trace("t")
    registry.execute("web_search", {"query": "x"}, trace="t")
    assert trace.labels == {Label.UNTRUSTED}


def test_conversation_is_not_sent_to_the_provider(web: Web, tool_of: ToolOf) -> None:
    web.pages[ADDRESSES["searxng"]] = page('{"results": []}', kind=JSON)
    tool = tool_of("searxng")
    tool.execute({"query": "x"}, {"provider": "tavily", "url": "https://evil.example/"})
    assert [request.header("Host") for request in web.asked] == ["search.example.com"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('provider = "google"', "brave, tavily, searxng"),
        ('provider = "searxng"', '"url" is missing'),
        ('provider = "searxng"\nurl = "https://user:p@search.example.com/"', '"url" is invalid'),
        ('provider = "searxng"\nurl = "ftp://search.example.com/"', '"url" is invalid'),
        ('provider = "searxng"\nurl = "https://search.example.com/?q=1"', '"url" must not contain a query'),
        ('provider = "brave"\nurl = "https://search.example.com/"', '"url" can only be set for'),
        ('url = "https://search.example.com/"', '"provider" must be one of'),
        ('provider = "brave"\nkey = "x"', "key is not known"),
        ('provider = "brave"\ncost_per_search = "cheap"', "must be a number"),
        ('provider = "brave"\ncost_per_search = -1', "must be a price"),
        ('provider = "brave"\ncost_per_search = nan', "must be a price"),
        ('provider = "brave"\ncost_per_search = inf', "must be a price"),
    ],
)
def test_mistakes_in_the_web_search_section_are_reported(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[web_search]\n{text}\n")
    with pytest.raises(ConfigFileError) as caught:
        read_config_file(file)
    assert said in str(caught.value)


def test_web_search_section_sets_provider_and_price(tmp_path: Path, web: Web, home: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[web_search]\nprovider = "brave"\ncost_per_search = 0.005\n')
    chosen = WasmRuntimeConfig.load(file).web_search
    assert chosen == WebSearch(provider="brave", cost_per_search=Decimal("0.005"))
    with WasmToolRuntime(WasmRuntimeConfig(web_search=chosen)) as runtime:
        assert runtime.prepare_installed("web_search").estimated_cost({}) == Decimal("0.005")
    assert choice("searxng").cost == 0 and choice("brave").cost is None
    with pytest.raises(ConfigurationError):
        WebSearch(provider="bing")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://search.example.com", "https://search.example.com/search"),
        ("https://example.com/searxng/", "https://example.com/searxng/search"),
        ("http://search.example.com:8888/", "http://search.example.com:8888/search"),
        ("https://[2606:4700::1111]:444/", "https://[2606:4700::1111]:444/search"),
    ],
)
def test_searxng_requests_go_to_the_configured_url(url: str, address: str) -> None:
    search = WebSearch(provider="searxng", url=url)
    assert search.settings == {"provider": "searxng", "url": address}
    assert search.grant.explain_http("GET", address).allowed
    assert not search.grant.explain_http("POST", address).allowed


def test_search_without_a_provider_is_hidden_and_suggests_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    with WasmToolRuntime() as runtime, load_registry(runtime) as registry:
        with pytest.raises(NotInstalledError) as python:
            runtime.prepare_installed("web_search")
        assert "web_search" not in registry.tool_names() and "web_search" not in registry.problems
        with pytest.raises(UnknownToolError) as called:
            registry.execute("web_search", {"query": "x"})
        with pytest.raises(NotInstalledError) as got:
            registry.get("web_search")
        with pytest.raises(UnknownToolError) as unread:
            registry.execute("file_read", {"path": "a"})
    for error in (python.value, called.value, got.value):
        assert "wasmrt config set web_search.provider brave" in (error.hint or "")
    assert "--workspace DIR" in (unread.value.hint or "")
    result = CliRunner().invoke(cli, ["run", "web_search", '{"query": "x"}'], prog_name="wasmrt")
    assert result.exit_code != 0 and "wasmrt config set web_search.provider brave" in result.stderr


def test_command_line_searches_a_private_searxng_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("search.internal").configure_cert(tls)
    (tmp_path / "data").mkdir()
    authority.cert_pem.write_to_path(str(tmp_path / "data/ca.pem"))
    body = json.dumps(ANSWERS["searxng"]).encode()
    with ScriptedServer(lambda request, _: http_response(body), tls=tls) as server:
        (tmp_path / "data/config.toml").write_text(
            '[network]\nca_file = "ca.pem"\nunsafe_allowed_networks = ["127.0.0.0/8"]\n'
            'hosts = { "search.internal" = ["127.0.0.1"] }\n'
            f'[web_search]\nprovider = "searxng"\nurl = "https://search.internal:{server.port}/sx/"\n'
        )
        result = CliRunner().invoke(cli, ["run", "web_search", '{"query": "x"}'], prog_name="wasmrt")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["results"] == [FOUND]
    assert server.requests[0].target == "/sx/search?q=x&format=json" and server.requests[0].sni == "search.internal"
