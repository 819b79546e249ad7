"""`wasmrt serve --http` and a real browser: pages of other origins are refused even with a valid token."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.mcp_server.world import META, VERSION, World
from tests.interop.pages.browser import CHROMIUM, Browser, browsing
from tests.interop.pages.hostile import PAGES, WAYS, heard, hostile_page, sent, without_policy
from wasmrt.interop.mcp.server.http import UserTokens

pytestmark = [
    pytest.mark.ci("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: no page is tried in a browser"),
]

CALL = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "add", "arguments": {"a": 20, "b": 22}, "_meta": META},
}  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.mark.parametrize("where", PAGES)
def test_a_page_of_another_origin_cannot_reach_a_tool(
    browser: Browser, world: World, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = UserTokens(tmp_path / "tokens.json")
    headers = {
        "content-type": "application/json", "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {users.renew('local')}", "mcp-protocol-version": META[VERSION],
        "mcp-method": "tools/call", "mcp-name": "add",
    }  # fmt: skip
    body = json.dumps(CALL)
    with world.serve_http(users) as url:
        port = int(url.removesuffix("/mcp").rpartition(":")[2])
        with hostile_page(browser, where, port) as (evil, own):
            listened = heard(port, monkeypatch)
            for way in WAYS:
                read = sent(evil, way, f"{own}/mcp", headers, body)
                assert read.strip() in ("", "This server does not serve that host name."), way
                assert set(listened.answers()) == {421 if "rebound" in where else 403}, way
        assert {receipt.kind for receipt in world.receipts} == {"mcp-message"}  # refused and recorded
        # The same request from a page of the server's own origin is accepted.
        page = browser.tab()
        without_policy(page)
        page.goto(url.removesuffix("/mcp") + "/")
        assert json.loads(sent(page, "fetch", url, headers, body))["result"]["structuredContent"] == 42
        assert listened.answers() == [None]
    assert [receipt.tool for receipt in world.receipts if receipt.kind != "mcp-message"] == ["add"]
