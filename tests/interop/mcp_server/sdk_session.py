"""A session with the official Python SDK, of any generation: it runs in the environment of that SDK.

    python sdk_session.py '{"command": [...], "approve": [...]}'
    python sdk_session.py '{"url": "...", "authorization": "...", "approve": [...]}'

It connects, lists the tools, makes calls that are allowed, denied and waiting for approval, and disconnects. `approve`
is the command that approves the waiting request, without its ID. The last line of output is what it received, as JSON.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from contextlib import AsyncExitStack
from typing import Any

FIRST_OF_2 = "2"


async def main(where: dict[str, Any], version: str) -> None:
    async with AsyncExitStack() as stack:
        call, names = await (connect_2 if version >= FIRST_OF_2 else _connect_1)(where, stack)
        found = {
            "names": await names(),
            "allowed": await call("time", {"operation": "now"}),
            "denied": await call("json", {"operation": "validate", "data": "{}"}),
            "asked": await call("echo", {"message": "hi"}),
        }
        request = re.search(r"wasmrt approvals approve (\S+?)`", found["asked"][1])
        assert request is not None, found["asked"]
        await asyncio.to_thread(subprocess.run, [*where["approve"], request[1]], check=True, capture_output=True)
        found["approved"] = await call("echo", {"message": "hi"})
        found["left"] = await call("echo", {"message": "nobody answers this"})
    print(json.dumps(found))


async def _connect_1(where: dict[str, Any], stack: AsyncExitStack) -> tuple[Any, Any]:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client
    from mcp.shared.exceptions import McpError
    from mcp.types import Implementation

    if "url" in where:
        transport: Any = streamablehttp_client(where["url"], headers={"Authorization": where["authorization"]})
    else:
        command, *arguments = where["command"]
        transport = stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ)))
    read, write, *_ = await stack.enter_async_context(transport)
    me = Implementation(name="generation", version="1")
    session = await stack.enter_async_context(ClientSession(read, write, client_info=me))
    await session.initialize()

    async def call(name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        try:
            result = await session.call_tool(name, arguments)
        except McpError as error:
            return True, error.error.message
        return result.isError, result.content[0].text

    async def names() -> list[str]:
        return [tool.name for tool in (await session.list_tools()).tools]

    return call, names


async def connect_2(where: dict[str, Any], stack: AsyncExitStack) -> tuple[Any, Any]:
    import httpx2
    from mcp import Client, MCPError, StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client
    from mcp_types import Implementation

    if "url" in where:
        headers = {"Authorization": where["authorization"]}
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60))
        server: Any = streamable_http_client(where["url"], http_client=http)
    else:
        command, *arguments = where["command"]
        server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    me = Implementation(name="generation", version="2")
    client = await stack.enter_async_context(Client(server, client_info=me))

    async def call(name: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        try:
            result = await client.call_tool(name, arguments)
        except MCPError as error:
            return True, error.error.message
        return result.is_error, result.content[0].text

    async def names() -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    return call, names


if __name__ == "__main__":
    from importlib.metadata import version

    asyncio.run(main(json.loads(sys.argv[1]), version("mcp")))
