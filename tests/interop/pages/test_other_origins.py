"""The approvals page is open in a browser; pages of other origins try to answer for its user."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.approvals.requests import request
from tests.interop.pages.browser import CHROMIUM, Browser, browsing
from tests.interop.pages.hostile import PAGES, WAYS, heard, hostile_page, sent
from tests.interop.pages.site import Site
from wasmrt.agent.approvals import State

pytestmark = [
    pytest.mark.ci("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the pages are not tried in a browser"),
]

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.parametrize("where", PAGES)
def test_a_page_of_another_origin_cannot_answer_a_request(
    browser: Browser, site: Site, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request()
    site.store.add(asked)
    tab = browser.tab()
    tab.goto(site.origin + site.link())
    path = f"{tab.run('location.pathname')}requests/{asked.id}"
    token = tab.run(f'fetch(\'{path}\').then(r => r.text()).then(t => /form_token" value="([^"]*)/.exec(t)[1])')
    body = f"form_token={token}&user=alice&answer=allow-once"  # more than such a page could know
    with hostile_page(browser, where, site.server.port) as (evil, own):
        listened = heard(site.server.port, monkeypatch)
        for way in WAYS:
            read = sent(evil, way, own + path, FORM, body)
            assert read.strip() in ("", "This server does not serve that host name."), way
            assert set(listened.answers()) == {421 if "rebound" in where else 403}, way
    assert site.store.state(asked.id) is State.PENDING
    # The same request from the page itself is accepted.
    sent(tab, "fetch", site.origin + path, FORM, body)
    assert listened.answers()[0] is None
    assert site.store.state(asked.id) is State.ANSWERED
