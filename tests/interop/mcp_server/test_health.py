"""Health checks of a server over HTTP: `/healthz` and `/readyz`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.interop.mcp_server.site import Site
from wasmrt.interop.mcp.server.http import Entrance, UserTokens, serve_http
from wasmrt.interop.mcp.server.protocol import Server

PATHS = ("/healthz", "/readyz")


def status(site: Site, path: str, method: str = "GET", **headers: str) -> int:
    return site.client.request(method, site.url.removesuffix("/mcp") + path, headers=headers).status_code


@pytest.mark.parametrize("path", PATHS)
def test_health_checks_need_no_token_and_leave_no_receipt(site: Site, path: str) -> None:
    found = site.client.get(site.url.removesuffix("/mcp") + path)
    assert (found.status_code, found.text, found.headers["cache-control"]) == (200, "OK\n", "no-store")
    assert status(site, path, "HEAD") == 200
    assert site.world.receipts == []


@pytest.mark.parametrize("path", PATHS)
def test_health_checks_only_read_and_only_for_the_servers_own_names(site: Site, path: str) -> None:
    assert status(site, path, "POST") == 405
    assert status(site, path, host="rebound.example") == 421
    assert status(site, f"{path}/") == 404
    assert status(site, path.upper()) == 404


def test_a_closing_server_is_alive_but_not_ready(site: Site) -> None:
    closed = asyncio.run_coroutine_threadsafe(_close(site.world.server), site.world.loop)
    closed.result(20)
    assert [status(site, path) for path in PATHS] == [200, 503]


def test_a_draining_server_answers_calls_but_is_not_ready(site: Site) -> None:
    site.world.server.drain()
    assert [status(site, path) for path in PATHS] == [200, 503]
    site.works()


async def _close(server: Server) -> None:
    server.close()


@pytest.mark.parametrize("failed", [False, True])
def test_a_server_whose_tools_are_loading_or_failed_is_not_ready(tmp_path: Path, failed: bool) -> None:
    async def main() -> list[int]:
        server, ended, url = Server(), asyncio.Event(), asyncio.get_running_loop().create_future()
        entrance = Entrance(UserTokens(tmp_path / "tokens.json"))
        serving = asyncio.ensure_future(
            serve_http(server, entrance, host="127.0.0.1", port=0, ended=ended, started=url.set_result)
        )
        if failed:
            server.fail()
        async with httpx.AsyncClient(base_url=await url, trust_env=False) as client:
            found = [(await client.get(path)).status_code for path in PATHS]
        ended.set()
        await serving
        return found

    assert asyncio.run(main()) == [200, 503]
