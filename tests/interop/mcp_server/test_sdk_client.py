"""The official SDK's client against `wasmrt serve`, in each era, and in the order of some clients: both."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from tests.agent.first_party.names import SERVED
from tests.interop.mcp_server.processes import BUNDLED, OPEN, configure, wasmrt
from tests.interop.mcp_server.world import World
from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.agent.policy import ApproverKind
from wasmrt.interop.mcp.server.http import UserTokens

Mode = Literal["auto", "legacy", "2026-07-28"]
ASK = '[tools.rules.echo]\npermission = "ask"\n'

pytestmark = pytest.mark.usefixtures("unmeasured")


def with_client(home: Path, mode: Mode, work: Callable[[Client], Awaitable[Any]], **settings: Any) -> Any:
    """Run `work` with a client that started the server."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "wasmrt", "serve"], env={"WASMRT_HOME": str(home)}
    )

    async def run() -> Any:
        async with Client(command, mode=mode, **settings) as client:
            return await asyncio.wait_for(work(client), 60)

    return asyncio.run(run())


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    ("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")]
)
def test_the_sdk_client_lists_and_calls_tools(home: Path, mode: Mode, version: str) -> None:
    async def work(client: Client) -> None:
        assert client.protocol_version == version
        listed = (await client.list_tools()).tools
        assert [each.name for each in listed] == SERVED
        assert listed[0].annotations is not None and listed[0].annotations.read_only_hint is True
        result = await client.call_tool("echo", {"message": "hi"})
        assert result.content[0].text == "hi" and result.is_error is False
        assert result.structured_content == ("hi" if version == "2026-07-28" else {"result": "hi"})
        assert (await client.call_tool("echo", {})).is_error is True

    with_client(home, mode, work)


@pytest.mark.ci("slow")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdk_clients_form_approves_a_call(home: Path, mode: Mode) -> None:
    configure(home, ASK)
    asked: list[str] = []

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": "allow once"})

    async def work(client: Client) -> None:
        assert (await client.call_tool("echo", {"message": "hi"})).content[0].text == "hi"

    with_client(home, mode, work, elicitation_callback=answer)
    assert len(asked) == 1 and "echo" in asked[0]


@pytest.mark.ci("slow")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_without_a_form_the_command_approves_the_call(home: Path, mode: Mode) -> None:
    configure(home, ASK)

    async def work(client: Client) -> None:
        first = await client.call_tool("echo", {"message": "hi"})
        waiting = first.content[0].text.partition("wasmrt approvals approve ")[2].partition("`")[0]
        await asyncio.to_thread(wasmrt, "approvals", "approve", waiting)
        assert (await client.call_tool("echo", {"message": "hi"})).content[0].text == "hi"

    with_client(home, mode, work)


@pytest.mark.ci("slow")
def test_the_sdk_client_is_notified_of_an_installed_tool(home: Path, tmp_path: Path) -> None:
    configure(home, OPEN)
    tool = tmp_path / "parrot.wasm"
    tool.write_bytes((BUNDLED / "echo.wasm").read_bytes())

    async def work(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as changes:
            await asyncio.to_thread(wasmrt, "install", str(tool), "--yes")
            async for _ in changes:
                break
        assert "parrot" in [each.name for each in (await client.list_tools()).tools]

    with_client(home, "auto", work)


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_sdk_client_connects_over_http(world: World, tmp_path: Path, mode: Mode, version: str) -> None:
    users = UserTokens(tmp_path / "tokens.json")
    headers = {"authorization": f"Bearer {users.renew('local')}"}
    steps: list[float] = []

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"answer": "allow once"})

    async def progress(done: float, total: float | None, message: str | None) -> None:
        steps.append(done)

    async def run(url: str) -> None:
        async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=20) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode, elicitation_callback=answer) as client:
                assert client.protocol_version == version
                assert "add" in [each.name for each in (await client.list_tools()).tools]
                assert (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text == "3"
                assert (await client.call_tool("write_note", {"name": "a"})).content[0].text == "wrote a"
                await client.call_tool("steps", {"count": 3}, progress_callback=progress)

    with world.serve_http(users) as url:
        asyncio.run(run(url))
    assert world.done == ["a"] and steps == [1, 2, 3]


@pytest.mark.parametrize(("mode", "how"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_sdk_client_opens_the_page_of_a_request(tmp_path: Path, mode: Mode, how: str) -> None:
    world = World(tmp_path, ApproverKind.QUEUE)
    world.pages["local"] = "http://127.0.0.1:9/approvals/"
    users, opened = UserTokens(tmp_path / "tokens.json"), list[str]()
    headers = {"authorization": f"Bearer {users.renew('local')}"}

    async def answer(context: Any, params: Any) -> ElicitResult:
        (waiting,) = world.pending()
        opened.append(params.url.rpartition("/")[2])
        world.store.answer(waiting, ApprovalAnswer(approved=True, by="ann"), user="local")
        return ElicitResult(action="accept")

    async def run(url: str) -> str:
        async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=20) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=mode, elicitation_callback=answer) as client:
                assert client.protocol_version == how
                return str((await client.call_tool("write_note", {"name": "a"})).content[0].text)

    with world.serve_http(users) as url:
        assert asyncio.run(run(url)) == "wrote a"
    assert len(opened) == 1 and world.receipts[-1].approval is not None and world.receipts[-1].approval.how == "person"
