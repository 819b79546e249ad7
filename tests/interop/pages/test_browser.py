"""The pages in a real browser: accessibility, keyboard use, layout, and attacks from other pages."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.agent.approvals.requests import request
from tests.interop.mcp_peers.fixtures import NodePeers
from tests.interop.pages.access import asking
from tests.interop.pages.browser import CHROMIUM, Browser, Tab, browsing
from tests.interop.pages.prepared import harmful, harmless
from tests.interop.pages.site import Site
from tests.interop.pages.site import site as served_site
from tests.interop.web.served import served
from wasmrt.agent.approvals import ApprovalAnswer, State
from wasmrt.agent.flows import FlowMap, Reach
from wasmrt.interop.web import Request, Response

pytestmark = [
    pytest.mark.ci("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the pages are not tried in a browser"),
]


HOSTILE_MAP = FlowMap(
    (
        Reach("notes", private="reads files"),
        Reach("fetch", untrusted="from the network", sends="can send requests"),
        Reach("</text><script>window.hit=1</script>", untrusted="x", sends="\"><image href='http://evil.example/'/>"),
    )
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def tab(browser: Browser, site: Site) -> Tab:
    """A tab in which a user has opened the link."""
    tab = browser.tab()
    browser.events.clear()
    tab.goto(site.origin + site.link())
    assert "No requests are pending" in tab.text()
    return tab


def focused(tab: Tab) -> str:
    return str(tab.run("document.activeElement.innerText || document.activeElement.getAttribute('aria-label') || ''"))


def test_a_link_opened_from_a_file_begins_a_session(browser: Browser, site: Site, tmp_path: Path) -> None:
    file = tmp_path / "link.html"
    file.write_text(f'<meta http-equiv="refresh" content="0;url={site.origin}{site.link()}">')
    tab = browser.tab()
    tab.goto(file.as_uri())
    tab.settled(site.origin)
    assert "No requests are pending" in tab.text()


def test_a_request_can_be_answered_by_keyboard(site: Site, tab: Tab) -> None:
    asked = request()
    site.store.add(asked)
    tab.ask("Page.reload")
    tab.settled()
    order = []
    for _ in range(20):
        tab.press("Tab")
        order.append(focused(tab))
        if order[-1] == "Allow once":
            break
    assert order[:7] == ["Skip to the content", "Waiting", "Answers", "Receipts", "Grants", "Jobs", "Flows"]
    assert order[7:] == ["Deny", "Allow once"]
    tab.press("Enter", text="\r")
    tab.settled("done=")
    assert f"{asked.id} (write_file) was approved for this call by ann" in tab.text()
    assert site.store.state(asked.id) is State.ANSWERED


def enter_in(tab: Tab, path: str, field: str) -> None:
    """Press Enter in a field of a page."""
    tab.goto(tab.run("location.href") + path)
    tab.run(f"document.getElementById('{field}').focus()")
    tab.press("Enter", text="\r")
    tab.settled("done=")


def test_enter_in_the_note_denies_and_never_allows(site: Site, tab: Tab) -> None:
    asked = request()
    site.store.add(asked)
    enter_in(tab, f"requests/{asked.id}", "note")
    found = site.store.get(asked.id)
    assert found is not None and found.approved is False


def test_a_screen_reader_finds_landmarks_headings_and_names(site: Site, tab: Tab) -> None:
    asked = request(preview="-old\n+new")
    site.store.add(asked)
    root = tab.run("location.href")
    wish = asking(site)
    for path in ("", f"requests/{asked.id}", f"access/{wish.id}", "remembered", "receipts", "grants", "flows"):
        tab.goto(root + path)
        nodes = [(_of(node, "role"), _of(node, "name"), node) for node in tab.tree()]
        roles = [role for role, _, _ in nodes]
        assert {"banner", "navigation", "main"} <= set(roles)
        assert roles.count("main") == 1
        levels = [_level(node) for role, _, node in nodes if role == "heading"]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels)), levels
        nameless = [role for role, name, _ in nodes if role in _NAMED and not name]
        assert nameless == []
        assert tab.run("document.documentElement.lang") == "en"
        assert tab.run("new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size") == tab.run(
            "document.querySelectorAll('[id]').length"
        )
    tab.goto(root)
    described = tab.run(
        "document.getElementById(document.querySelector('button.main').getAttribute('aria-describedby')).innerText"
    )
    assert described == "Change notes/a.txt"


_NAMED = ("button", "link", "textbox", "radio", "combobox", "region", "table", "article", "navigation", "heading")


def _of(node: dict[str, Any], name: str) -> str:
    return str(node.get(name, {}).get("value", ""))


def _level(node: dict[str, Any]) -> int:
    return next(each["value"]["value"] for each in node["properties"] if each["name"] == "level")


def test_a_new_request_is_announced_without_changing_the_page(site: Site, tab: Tab) -> None:
    asked = request()
    site.store.add(asked)
    news = "document.getElementById('news')"
    tab.run(f"new Promise(done => new MutationObserver(() => done(1)).observe({news}, {{attributes: true}}))")
    assert "This list has changed." in tab.text()
    assert asked.id not in tab.run("document.body.innerHTML")
    assert tab.run("document.getElementById('said').textContent") == "The list of requests has changed."
    tab.follow("document.querySelector('#news a').click()")
    assert asked.id in tab.run("document.body.innerHTML")


_ENDED = """new Promise(done => {
  const card = document.querySelector('article');
  new MutationObserver(() => card.querySelector('form') || done(card.innerText)).observe(card, {childList: true});
})"""


def test_a_request_that_was_answered_elsewhere_or_has_expired_loses_its_buttons(site: Site, tab: Tab) -> None:
    now_ms = time.time_ns() // 1_000_000
    for asked, words in ((request(), "Answered elsewhere"), (request(expires_ms=now_ms + 4000), "Expired.")):
        site.store.add(asked)
        tab.goto(tab.run("location.href.split('#')[0]"))
        assert tab.run("document.querySelectorAll('article button').length") == 2
        if words != "Expired.":
            site.store.answer(asked.id, ApprovalAnswer(approved=True, by="bob"), user="alice")
        assert words in tab.run(_ENDED)
        assert tab.run("document.querySelectorAll('article button').length") == 0


_TO_BUTTONS = """[...document.querySelectorAll('article')].map((card) =>
  card.querySelector('.acts button').getBoundingClientRect().bottom - card.getBoundingClientRect().top)"""
_MAX_TO_BUTTONS = 650
"""Pixels from the top of a card to the bottom of its first buttons, on a screen of 390 x 844."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_prepared_requests_are_accessible_and_fit_a_phone(
    browser: Browser, node_peers: NodePeers, tmp_path: Path, scheme: str
) -> None:
    axe = (node_peers.modules / "axe-core" / "axe.min.js").read_text()
    with served_site(tmp_path, flows=lambda: HOSTILE_MAP) as site:
        bad = harmful()
        for asked in (*harmless(), *bad):
            site.store.add(asked)
        wish = asking(site)
        tab = browser.tab()
        tab.goto(site.origin + site.link())
        tab.settled("/")
        tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        tab.ask("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
        root = tab.run("location.href")
        requests = [f"requests/{bad[0].id}", f"requests/{bad[5].id}", f"access/{wish.id}"]
        for path in ("", *requests, "remembered", "receipts", "grants", "flows"):
            tab.goto(root + path)
            if not path:
                assert max(tab.run(_TO_BUTTONS)) <= _MAX_TO_BUTTONS
            assert tab.run("document.documentElement.scrollWidth") <= 390
            tab.run(axe)
            found = tab.run("axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html)]))")
            assert found == [], path


_ON_SCREEN = """[...document.querySelectorAll('article button')].filter((button) => {
  const { top, bottom } = button.getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}).map((button) => button.innerText)"""


def test_a_long_request_can_be_denied_without_scrolling_and_allowed_behind_its_text(site: Site, tab: Tab) -> None:
    asked = request({"note": "line\n" * 3000})
    site.store.add(asked)
    tab.ask("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
    tab.goto(tab.run("location.href") + f"requests/{asked.id}")
    assert tab.run(_ON_SCREEN) == ["Deny"]
    tab.run("scrollTo(0, document.body.scrollHeight)")
    assert tab.run(_ON_SCREEN)[-2:] == ["Deny", "Allow once"]
    tab.run("document.querySelector('.end button').click()")
    tab.settled("done=")
    assert site.store.get(asked.id).approved is False  # type: ignore[union-attr]


def test_everything_can_be_done_without_scripts(site: Site, tab: Tab) -> None:
    asked = request()
    site.store.add(asked)
    tab.ask("Emulation.setScriptExecutionDisabled", value=True)
    tab.goto(tab.run("location.href") + f"requests/{asked.id}")
    tab.run("document.querySelector('button.main').click()")
    tab.settled("done=")
    assert site.store.state(asked.id) is State.ANSWERED


def test_access_can_be_granted_by_keyboard_and_without_scripts(site: Site, tab: Tab) -> None:
    wish = asking(site)
    tab.ask("Emulation.setScriptExecutionDisabled", value=True)
    tab.ask("Page.reload")
    tab.settled()
    order = []
    for _ in range(20):
        tab.press("Tab")
        order.append(focused(tab))
        if order[-1] == "Grant once":
            break
    assert order[-2:] == ["Deny", "Grant once"]
    tab.press("Enter", text="\r")
    tab.settled("done=")
    assert "granted once by ann" in tab.text()
    found = site.access.get(wish.id)
    assert found is not None and found.scope == "once"


def test_enter_in_the_narrower_entry_denies_and_never_grants(site: Site, tab: Tab) -> None:
    wish = asking(site)
    enter_in(tab, f"access/{wish.id}", "narrower")
    found = site.access.get(wish.id)
    assert found is not None and found.granted is None


def test_hostile_access_requests_are_harmless_in_a_browser(site: Site, tab: Tab) -> None:
    text = '"><img src=x onerror=window.hit=1></pre><script>window.hit=1</script>'
    wish = asking(site, tool=text, user=text, words=text)
    for path in ("", f"access/{wish.id}"):
        tab.goto(f"{site.origin}{tab.run('location.pathname')}".partition("access/")[0] + path)
        assert tab.run("window.hit") is None
        assert tab.run("document.images.length") == 0
        assert "window.hit=1" in tab.text()
    assert tab.said() == []


def test_the_flows_page_lists_tools_that_send_without_approval(browser: Browser, tmp_path: Path) -> None:
    with served_site(tmp_path, flows=lambda: HOSTILE_MAP) as site:
        tab = browser.tab()
        browser.events.clear()
        tab.goto(site.origin + site.link())
        tab.settled("/")
        tab.goto(tab.run("location.href") + "flows")
        assert "2 tools can send private text out without approval." in tab.text()
        assert "fetch can send requests" in tab.text() and "reads files: 1 tool" in tab.text()
        assert tab.run("[window.hit, document.images.length]") == [None, 0]
        assert tab.said() == []


def test_hostile_texts_are_harmless_in_a_browser(site: Site, tab: Tab) -> None:
    for text in (
        "<script>window.hit=1</script>",
        '"><img src=x onerror=window.hit=1>',
        "</pre><style>*{display:none}</style>",
    ):
        site.store.add(request({text: text}, tool=text, user=text, preview=f"+{text}"))
    tab.goto(tab.run("location.href"))
    assert tab.run("window.hit") is None
    assert tab.run("document.images.length") == 0
    assert tab.text().count("window.hit=1") >= 6
    assert tab.said() == []


def test_right_to_left_letters_do_not_reorder_other_text(site: Site, tab: Tab) -> None:
    """Between Hebrew letters, punctuation is displayed in reverse order: a value would appear before its name."""
    name, value = "\u05e9\u05dd", "\u05e2\u05e8\u05da 1"
    asked = request({name: value}, tool="\u05db\u05dc\u05d9", user="\u05d0\u05e0\u05d9")
    site.store.add(asked)
    tab.goto(tab.run("location.href") + f"requests/{asked.id}")
    tab.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    order = """(() => {
      const box = (text) => [...document.querySelectorAll('pre bdi')].find((e) => e.textContent.includes(text))
        .getBoundingClientRect();
      return box('%s').right <= box('%s').left;
    })()"""
    assert tab.run(order % (name, value)) is True


def test_the_content_security_policy_blocks_inline_scripts_and_styles(browser: Browser, tab: Tab) -> None:
    tab.run("""(() => {
      const script = document.createElement('script');
      try { script.append('window.hit = 1'); document.body.append(script); } catch {}
      const style = document.createElement('style'); style.textContent = 'body { color: rgb(1, 2, 3) }';
      document.body.append(style);
      const image = document.createElement('img');
      image.src = 'http://127.0.0.1:1/a.png';
      document.body.append(image);
    })()""")
    assert tab.run("window.hit") is None
    assert tab.run("getComputedStyle(document.body).color") != "rgb(1, 2, 3)"
    assert tab.run("fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'refused')") == "refused"
    assert any("Content Security Policy" in said for said in tab.said())


def test_a_page_of_another_origin_cannot_read_or_answer(browser: Browser, site: Site, tab: Tab) -> None:
    """From another port of this machine: browsers treat it as the same site, so the cookie would be sent."""
    asked = request()
    site.store.add(asked)
    root = tab.run("location.pathname")
    target = f"{site.origin}{root}requests/{asked.id}"

    async def attack(got: Request) -> Response:
        policy = ("content-security-policy", "default-src * 'unsafe-inline'")
        return Response(headers=(("content-type", "text/html"), policy), body=b"<!doctype html><body>")

    with served(attack) as other:
        evil = browser.tab()
        for host in (f"http://127.0.0.1:{other.port}/", f"http://localhost:{other.port}/"):
            evil.goto(host)
            assert "wasmrt-session" not in str(evil.run("document.cookie"))
            for mode in ("cors", "no-cors"):
                script = f"fetch('{target}', {{credentials: 'include', mode: '{mode}'}}).then(r => r.text(), () => '')"
                assert evil.run(script) == ""
            evil.run(
                f"fetch('{target}', {{method: 'POST', credentials: 'include', mode: 'no-cors', "
                "headers: {'content-type': 'application/x-www-form-urlencoded'}, "
                "body: 'form_token=&user=alice&answer=allow-once'}).catch(() => 0)"
            )
            evil.run(
                f"document.body.innerHTML = `<form method=post action='{target}'><input name=answer value=allow-once>"
                "<input name=user value=alice></form>`; document.forms[0].submit()"
            )
            evil.settled(site.origin)
            assert "refused" in evil.text()
            evil.goto(host)
            evil.run(f"document.body.innerHTML = `<iframe src='{site.origin}{root}'></iframe>`")
            assert evil.run("new Promise(done => setTimeout(() => done(frames[0].length), 300))") == 0
            assert evil.run(
                "(() => { try { return frames[0].document.body.innerText } catch { return 'closed' } })()"
            ) in ("", "closed")
    assert site.store.state(asked.id) is State.PENDING


def test_a_rebound_name_is_refused_in_a_browser(browser: Browser, site: Site) -> None:
    tab = browser.tab()
    tab.goto(f"http://evil.example:{site.server.port}{site.link()}")
    assert "does not serve that host name" in tab.text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_preferred_color_scheme(site: Site, tab: Tab, tmp_path: Path, scheme: str) -> None:
    site.store.add(request())
    tab.goto(tab.run("location.href"))
    tab.screenshot(tmp_path / "page.png", scheme=scheme)
    light = sum(_first_pixel(tmp_path / "page.png"))
    assert (light > 600) is (scheme == "light")
    for selector in ("body", "dt", "a", "button.main", "bdi", ".kind b"):
        assert tab.run(_CONTRAST % selector) >= 4.5, selector


_CONTRAST = """(() => {
  const part = (value) => { value /= 255; return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
  const light = (color) => { const [r, g, b] = color.match(/[\\d.]+/g).map(Number);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b); };
  let element = document.querySelector('main %s') || document.body;
  const front = light(getComputedStyle(element).color);
  const behind = () => getComputedStyle(element).backgroundColor;
  while (element.parentElement && /, 0\\)$|transparent/.test(behind())) element = element.parentElement;
  const back = light(behind());
  return (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
})()"""
"""WCAG 2.2, 1.4.3: the contrast of an element's text with its background."""


def _first_pixel(file: Path) -> tuple[int, ...]:
    data, at, packed = file.read_bytes(), 8, b""
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        packed += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return tuple(zlib.decompress(packed)[1:4])


def test_a_narrow_window_needs_no_horizontal_scrolling(site: Site, tab: Tab) -> None:
    site.store.add(request({"text": "x" * 150, "word": "y" * 190}, tool="a_tool_with_a_long_name" * 4))
    tab.ask("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1, mobile=True)
    tab.goto(tab.run("location.href"))
    assert tab.run("document.documentElement.scrollWidth") <= 360


def test_a_request_address_opens_its_page_in_the_browsers_session(site: Site, tab: Tab) -> None:
    asked = request()
    site.store.add(asked)
    tab.goto(f"{site.origin}/ask/{asked.id}")
    tab.settled(f"requests/{asked.id}")
    assert "All parameters" in tab.text()


def test_a_request_address_opens_nothing_without_a_session(browser: Browser, site: Site) -> None:
    asked = request()
    site.store.add(asked)
    tab = browser.tab()
    for kept in (None, "xabc/", "//evil.example/", "/a/b/", "javascript:alert(1)/", "https://evil.example/"):
        tab.goto(f"{site.origin}/ask/{asked.id}")
        tab.run("localStorage.clear()")
        if kept is not None:
            tab.run(f"localStorage.setItem('wasmrt-session /', '{kept}')")
            tab.goto(f"{site.origin}/ask/{asked.id}")
        assert "the browser has no session" in tab.text() and tab.run("location.pathname") == f"/ask/{asked.id}"
