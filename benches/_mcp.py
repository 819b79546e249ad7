"""Common parts of the MCP server benches: request metadata, and the official SDK's server with the same tools."""

from __future__ import annotations

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
SDK_SERVER = """
import sys
import mcp_types as types
from mcp.server.lowlevel import Server
from wasmrt import ToolCall, WasmRuntimeConfig, WasmToolRuntime, load_registry
runtime = WasmToolRuntime(WasmRuntimeConfig.load())
registry = load_registry(runtime)
async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool.model_validate(each) for each in registry.definitions("mcp")])
async def call_tool(ctx, params):
    answer = await registry.aanswer(ToolCall(str(ctx.request_id), params.name, params.arguments or {}))
    content = [types.TextContent(type="text", text=answer.body or answer.text)]
    structured = {"result": answer.output.result} if answer.output else None
    return types.CallToolResult(content=content, structured_content=structured, is_error=not answer.ok)
server = Server("bench", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
"""
"""The start of a program that serves the registry of `wasmrt serve` on the SDK; the bench adds how to run `server`."""
