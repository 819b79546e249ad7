"""What the benches of MCP servers share: the metadata of a request, and the tool that both servers offer."""

from __future__ import annotations

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
TOOL = """
import sys
import mcp_types as types
from mcp.server.lowlevel import Server
SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
async def listed(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", description="Echo.", input_schema=SCHEMA)])
async def called(ctx, params):
    text = params.arguments["message"]
    content = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, structured_content={"result": text})
server = Server("bench", version="1", on_list_tools=listed, on_call_tool=called)
"""
"""The source of a server on the official SDK; what follows it runs `server`."""
