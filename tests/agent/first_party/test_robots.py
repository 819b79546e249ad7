"""`robots.txt` (RFC 9309): ignored by default; with the setting, `web_fetch` reads only allowed pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from wasmrt.testing._server import http_response

from tests.agent.first_party.web import Web, page
from wasmrt import PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import ToolError

FILE = "https://example.com/robots.txt"


@pytest.fixture
def fetch(whole_web: Web, web: Web) -> Iterator[Callable[[str], str]]:
    with WasmToolRuntime(WasmRuntimeConfig(network=whole_web.network(), robots_txt=True)) as runtime:
        tool = runtime.prepare_installed("web_fetch")
        yield lambda path: read(tool, path)


def read(tool: PreparedTool, path: str) -> str:
    try:
        return str(tool.execute({"url": f"https://example.com{path}"}).result["content"])
    except ToolError as error:
        assert error.code == "tool:robots-txt", error
        return error.message


CASES = {
    "one path": ("User-agent: *\nDisallow: /private", {"/private/a": False, "/privateer": False, "/": True}),
    "the longest rule": ("user-agent: *\ndisallow: /a\nallow: /a/b", {"/a": False, "/a/b": True, "/a/c": False}),
    "allow wins a tie": ("User-agent: *\nDisallow: /a\nAllow: /a", {"/a": True}),
    "own group": ("User-agent: *\nDisallow: /\n\nUser-agent: WASMRT/1.0\nDisallow: /x", {"/y": True, "/x": False}),
    "two own groups": (
        "User-agent: wasmrt\nDisallow: /x\nUser-agent: wasmrt\nDisallow: /y", {"/y": False, "/x": False}
    ),
    "a shared group": (
        "User-agent: a\nUser-agent: wasmrt\nDisallow: /x\nUser-agent: *\nDisallow: /", {"/x": False, "/y": True}
    ),
    "other agents": ("User-agent: other\nDisallow: /", {"/": True}),
    "a prefix of a name": ("User-agent: was\nDisallow: /", {"/": True}),
    "wildcards": (
        "User-agent: *\nDisallow: /*.gif$\nDisallow: /a*z",
        {"/x.gif": False, "/x.gif?a": True, "/abz1": False, "/ab": True},
    ),
    "query": ("User-agent: *\nDisallow: /*?q=", {"/s?q=1": False, "/s": True}),
    "escapes": ("User-agent: *\nDisallow: /ö\nDisallow: /%7ejoe", {"/%C3%B6": False, "/~joe": False, "/o": True}),
    "comments and line ends": ("\ufeff# hi\r\nUser-agent: * # all\r\nDisallow: /a # b\r\n", {"/a": False, "/b": True}),
    "nothing disallowed": ("User-agent: *\nDisallow:\n", {"/": True}),
    "no rules": ("<html>not a robots file</html>", {"/": True}),
    "a far rule": ("#" * 600_000 + "\nUser-agent: *\nDisallow: /", {"/": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_pages_are_read_if_the_file_allows_them(fetch: Callable[[str], str], web: Web, name: str) -> None:
    text, expected = CASES[name]
    for path, allowed in expected.items():
        web.clear()
        web.pages |= {
            FILE: page(text, kind="text/plain"),
            f"https://example.com{path.partition('?')[0]}": page("text", kind="text/plain"),
        }
        answer = fetch(path)
        assert (answer == "text") is allowed, (path, answer)
        assert [request.target for request in web.asked] == ["/robots.txt", path][: 1 + allowed]


def test_a_denial_names_the_rule_and_the_setting(fetch: Callable[[str], str], web: Web) -> None:
    web.pages[FILE] = page("User-agent: *\nDisallow: /a", kind="text/plain")
    assert fetch("/a/b") == (
        "robots.txt of example.com does not allow this page (Disallow: /a); "
        "the setting web_fetch.robots_txt = true applies it"
    )


@pytest.mark.parametrize(("status", "allowed"), [(404, True), (403, True), (500, False), (503, False)])
def test_a_missing_file_allows_and_a_failing_server_does_not(
    fetch: Callable[[str], str], web: Web, status: int, allowed: bool
) -> None:
    web.pages |= {FILE: http_response(status=status), "https://example.com/a": page("text", kind="text/plain")}
    assert (fetch("/a") == "text") is allowed


def test_the_target_of_a_redirect_is_checked(fetch: Callable[[str], str], web: Web) -> None:
    web.pages |= {
        FILE: page("User-agent: *\nDisallow: /hidden", kind="text/plain"),
        "https://example.com/a": http_response(status=302, headers=(("Location", "/hidden"),)),
        "https://example.com/hidden": page("text", kind="text/plain"),
    }
    assert "Disallow: /hidden" in fetch("/a")
    assert [request.target for request in web.asked] == ["/robots.txt", "/a"]


def test_a_redirected_file_is_followed_through_the_guarded_client(fetch: Callable[[str], str], web: Web) -> None:
    web.pages |= {
        FILE: http_response(status=301, headers=(("Location", "https://www.example.com/robots.txt"),)),
        "https://www.example.com/robots.txt": page("User-agent: *\nDisallow: /", kind="text/plain"),
    }
    assert "Disallow: /" in fetch("/a")
    web.pages[FILE] = http_response(status=301, headers=(("Location", "https://inside.example/robots.txt"),))
    with pytest.raises(AssertionError, match=r"not allowed|not public|internal|private"):
        fetch("/a")
    assert [request.header("Host") for request in web.asked[-1:]] == ["example.com"]


def test_the_file_is_not_requested_by_default(runtime: WasmToolRuntime, web: Web) -> None:
    web.pages |= {
        FILE: page("User-agent: *\nDisallow: /", kind="text/plain"),
        "https://example.com/a": page("text", kind="text/plain"),
    }
    assert read(runtime.prepare_installed("web_fetch"), "/a") == "text"
    assert [request.target for request in web.asked] == ["/a"]
