"""All exported telemetry names, in one table.

Sources: the semantic conventions for GenAI (execute_tool spans) and for MCP (docs/gen-ai/mcp.md of
open-telemetry/semantic-conventions-genai, status Development: names may change), and for errors and networks.
"""

from __future__ import annotations

from typing import NamedTuple


class Name(NamedTuple):
    """An exported name, its kind, and its meaning."""

    name: str
    kind: str
    """`span`, `attribute`, `metric`, or `gauge` for a metric of `wasmrt serve --metrics` only."""
    meaning: str


def _make_attribute(name: str, meaning: str) -> Name:
    return Name(name, "attribute", meaning)


EXECUTE_TOOL = Name("execute_tool {gen_ai.tool.name}", "span", "a call of a registered tool, with all its steps")
SERVE_REQUEST = Name(
    "{mcp.method.name} {gen_ai.tool.name}", "span", "a request to `wasmrt serve`, shared with its call"
)

OPERATION_NAME = _make_attribute("gen_ai.operation.name", "`execute_tool`")
TOOL_NAME = _make_attribute("gen_ai.tool.name", "the name that the model called; absent if no tool has it")
TOOL_TYPE = _make_attribute("gen_ai.tool.type", "`function`")
TOOL_SOURCE = _make_attribute("wasmrt.tool.source", "the source of the tool: `builtin`, `installed` and others")
CALL_ID = _make_attribute("gen_ai.tool.call.id", "the call's id in its receipt")
CONVERSATION_ID = _make_attribute("gen_ai.conversation.id", "the trace id that the program passed")
ERROR_TYPE = _make_attribute(
    "error.type", "the error code; `tool_error` if the tool chose the code, or reported it in a result"
)
METHOD_NAME = _make_attribute("mcp.method.name", "the method; `_OTHER` if it is unknown")
PROTOCOL_VERSION = _make_attribute("mcp.protocol.version", "the negotiated protocol version")
STATUS_CODE = _make_attribute("rpc.response.status_code", "the code of a JSON-RPC error")
TRANSPORT = _make_attribute("network.transport", "`pipe` or `tcp`")
SERVER_ADDRESS = _make_attribute("server.address", "the host of the called MCP server")
SERVER_PORT = _make_attribute("server.port", "the port of the called MCP server")

EXECUTE_TOOL_DURATION = Name(
    "gen_ai.execute_tool.duration", "metric", "seconds of a call, including the wait for approval"
)
CLIENT_DURATION = Name("mcp.client.operation.duration", "metric", "seconds of a call to an MCP server")
SERVER_DURATION = Name("mcp.server.operation.duration", "metric", "seconds of a request to `wasmrt serve`")
PENDING_APPROVALS = Name("wasmrt.approvals.pending", "gauge", "requests that wait for an answer, of all replicas")
RUNNING_CALLS = Name("wasmrt.calls.running", "gauge", "running calls of components, each in a worker process")

NAMES: tuple[Name, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Name))
BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Bucket bounds of the histograms in seconds, as the conventions define them."""
CALLS_LOGGER = "wasmrt.calls"
"""The logger of finished calls, in Python's logging."""
