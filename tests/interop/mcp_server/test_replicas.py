"""Two replicas behind a real proxy, over one PostgreSQL and one Redis, with the official SDK's client."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.interop.mcp_server.processes import configure
from tests.interop.mcp_server.replicas import Replicas, proxied, wait_until
from wasmrt.core.postgres import Postgres
from wasmrt.interop.mcp.server.http import UserTokens

pytestmark = [pytest.mark.ci("peers"), pytest.mark.usefixtures("unmeasured")]

CONFIG = """
[database]
url = "{database}"
key_secret = "token_key"
[network]
rate_limit_storage = "{redis}"
[rates]
calls_per_minute = 100000
[tools.rules.echo]
permission = "ask"
"""
NOW = {"operation": "now"}


@pytest.fixture
def replicas(
    home: Path, tmp_path: Path, postgres: Postgres, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Replicas]:
    configure(home, CONFIG.format(database=postgres.url, redis=redis_url))
    token = UserTokens(home / "data" / "mcp-tokens.json").renew("local")
    homes = {"a": home, "b": shutil.copytree(home, tmp_path / "home-b", symlinks=True)}
    secrets = {"WASMRT_SECRETS_BACKEND": "environment", "WASMRT_SECRET_TOKEN_KEY": "0123456789abcdef" * 2}
    found = Replicas(homes, token, secrets)
    with proxied(found, tmp_path):
        yield found


@asynccontextmanager
async def client_of(replicas: Replicas) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {replicas.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(replicas.url, http_client=http)) as client,
    ):
        yield client


def run(replicas: Replicas, work: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with client_of(replicas) as client:
            return await asyncio.wait_for(work(client), 120)

    return asyncio.run(main())


async def text(client: Client, name: str, arguments: dict[str, Any]) -> str:
    return str((await client.call_tool(name, arguments)).content[0].text)


class Calls:
    """Calls that are made one after the other all the time, until the block ends."""

    def __init__(self, client: Client) -> None:
        self._client, self._ended = client, asyncio.Event()
        self.answered = 0
        self.failed: list[BaseException] = []

    async def __aenter__(self) -> Calls:
        self._calling = asyncio.ensure_future(self._call())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._ended.set()
        await self._calling

    async def _call(self) -> None:
        while not self._ended.is_set():
            try:
                assert not (await self._client.call_tool("time", NOW)).is_error
                self.answered += 1
            except Exception as error:
                self.failed.append(error)
            await asyncio.sleep(0.02)


def request_in(said: str) -> str:
    return said.partition("wasmrt approvals approve ")[2].partition("`")[0]


def test_a_call_that_waits_on_one_replica_is_answered_on_the_other_after_a_drain(
    replicas: Replicas, redis_url: str
) -> None:
    async def work(client: Client) -> None:
        waiting = request_in(await text(client, "echo", {"message": "hi"}))
        await asyncio.to_thread(replicas.start, "b")
        async with Calls(client) as calls:
            await asyncio.to_thread(wait_until, lambda: replicas.calls("b") > 2, "the proxy uses both replicas")
            for name in "ab":
                metrics = replicas.metrics(name)
                assert 'gen_ai_tool_name="time"' in metrics and "wasmrt_approvals_pending" in metrics
            a = replicas.processes["a"]
            a.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(a.wait, 60) == 0
            await asyncio.to_thread(replicas.wasmrt, "b", "approvals", "approve", waiting)
            assert await text(client, "echo", {"message": "hi"}) == "hi"
            assert request_in(await text(client, "echo", {"message": "hi"})) not in ("", waiting)
        assert calls.answered > 10 and calls.failed == []

    replicas.start("a")
    run(replicas, work)
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() > 0, "the replicas count calls together"


def test_a_killed_replica_loses_at_most_its_running_call_and_no_request(replicas: Replicas) -> None:
    async def work(client: Client) -> None:
        waiting = request_in(await text(client, "echo", {"message": "hi"}))
        await asyncio.to_thread(replicas.start, "b")
        async with Calls(client) as calls:
            await asyncio.to_thread(wait_until, lambda: replicas.calls("b") > 2, "the proxy uses both replicas")
            replicas.processes["a"].kill()
            replicas.processes["a"].wait(20)
            listed = json.loads(await asyncio.to_thread(replicas.wasmrt, "b", "approvals", "list", "--json"))
            assert [each["id"] for each in listed["pending"]] == [waiting]
            await asyncio.to_thread(replicas.wasmrt, "b", "approvals", "approve", waiting)
            assert await text(client, "echo", {"message": "hi"}) == "hi"
        assert calls.answered > 10 and len(calls.failed) <= 1

    replicas.start("a")
    run(replicas, work)
