"""Every name that leaves by telemetry, in one table.

Sources: the semantic conventions for GenAI (execute_tool spans) and for MCP (docs/gen-ai/mcp.md of
open-telemetry/semantic-conventions-genai, status Development: names may change), and for errors and networks.
"""

from __future__ import annotations

from typing import NamedTuple


class Name(NamedTuple):
    """A name, the kind of thing that it names, and its meaning."""

    name: str
    kind: str
    """`span`, `attribute` or `metric`."""
    says: str


def _attribute(name: str, says: str) -> Name:
    return Name(name, "attribute", says)


EXECUTE_TOOL = Name("execute_tool {gen_ai.tool.name}", "span", "a call of a registered tool, from its first step on")
SERVE_REQUEST = Name("{mcp.method.name} {gen_ai.tool.name}", "span", "a request to `wasmrt serve`; a call's is its own")

OPERATION_NAME = _attribute("gen_ai.operation.name", "`execute_tool`")
TOOL_NAME = _attribute("gen_ai.tool.name", "the tool, as a model calls it; absent where none has that name")
TOOL_TYPE = _attribute("gen_ai.tool.type", "`function`")
TOOL_SOURCE = _attribute("wasmrt.tool.source", "where the tool comes from: `builtin`, `installed` and so on")
CALL_ID = _attribute("gen_ai.tool.call.id", "the call's id in its receipt")
CONVERSATION_ID = _attribute("gen_ai.conversation.id", "the trace that the program named")
ERROR_TYPE = _attribute("error.type", "the code of the error; `tool_error` for one that a tool chose, and in a result")
METHOD_NAME = _attribute("mcp.method.name", "the method; `_OTHER` for one that is not known")
PROTOCOL_VERSION = _attribute("mcp.protocol.version", "the revision that is spoken")
STATUS_CODE = _attribute("rpc.response.status_code", "the code of a JSON-RPC error")
TRANSPORT = _attribute("network.transport", "`pipe` or `tcp`")
SERVER_ADDRESS = _attribute("server.address", "the host of an MCP server that is called")
SERVER_PORT = _attribute("server.port", "its port")

EXECUTE_TOOL_DURATION = Name(
    "gen_ai.execute_tool.duration", "metric", "seconds of a call, the wait for a person included"
)
CLIENT_DURATION = Name("mcp.client.operation.duration", "metric", "seconds of a call at an MCP server")
SERVER_DURATION = Name("mcp.server.operation.duration", "metric", "seconds of a request to `wasmrt serve`")

NAMES: tuple[Name, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Name))
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Bounds of the histograms, in seconds, as the conventions have them."""
