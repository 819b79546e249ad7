"""A server written with the official SDK: `python sdk_server.py [legacy]` on standard streams."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("sdk")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def get_sum(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def list_words(text: str) -> list[str]:
    """Split a text."""
    return text.split()


@server.tool()
def get_failure() -> str:
    """Fail."""
    raise ToolError("no such thing")


@server.tool()
async def get_progress(ctx: Context) -> str:
    """Report progress."""
    for step in range(3):
        await ctx.report_progress(step, 3, f"step {step}")
    return "done"


@server.tool()
async def get_meta(text: str, ctx: Context) -> dict[str, Any]:
    """Return the metadata of the request."""
    return dict(ctx.request_context.meta or {})


@server.tool()
async def get_slow() -> str:
    """Take long."""
    await asyncio.sleep(60)
    return "late"


@server.tool()
def read_here(path: str) -> str:
    """Read a file."""
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        raise ToolError(str(error)) from error


@server.tool()
def write_here(path: str, text: str) -> str:
    """Write a file."""
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        raise ToolError(str(error)) from error
    return os.getcwd()


def app(kind: str) -> Any:
    """The same server over HTTP."""
    return server.sse_app() if kind == "sse" else server.streamable_http_app()


if __name__ == "__main__":
    server.run("stdio")
