"""Telemetry: exports the operations of a registry and of a server through the program's OpenTelemetry SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wasmrt.core.telemetry._operation import Operation, current_operation
from wasmrt.core.telemetry._sdk import Sdk
from wasmrt.core.telemetry.names import (
    CALL_ID,
    CONVERSATION_ID,
    EXECUTE_TOOL_DURATION,
    METHOD_NAME,
    OPERATION_NAME,
    PROTOCOL_VERSION,
    SERVER_DURATION,
    TOOL_NAME,
    TOOL_SOURCE,
    TOOL_TYPE,
    TRANSPORT,
    Name,
)

_EXECUTE = "execute_tool"
_CALL = "tools/call"


class Telemetry:
    """Exports spans and metrics of calls and requests, through the given providers or the program's global ones.

    Without an OpenTelemetry SDK nothing is exported. Arguments, results, messages and user IDs are never exported.

    Args:
        tracer_provider: An OpenTelemetry `TracerProvider`.
        meter_provider: An OpenTelemetry `MeterProvider`.

    Raises:
        ConfigurationError: OpenTelemetry is not installed.

    Example:
        >>> from wasmrt import Telemetry, ToolRegistry
        >>> registry = ToolRegistry(telemetry=Telemetry())
    """

    def __init__(self, *, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        self._sdk = Sdk(tracer_provider, meter_provider)

    def begin_call(self, *, tool: str, call_id: str, trace: str, source: str) -> Operation:
        """Begin a call of a registered tool; `tool` and `source` are empty for an unknown tool.

        Within a request to `wasmrt serve`, the call uses the request's span, as the MCP conventions require.
        """
        values: dict[Name, str | int] = {OPERATION_NAME: _EXECUTE, TOOL_TYPE: "function", CALL_ID: call_id}
        known = {TOOL_NAME: tool, CONVERSATION_ID: trace, TOOL_SOURCE: source}
        values |= {name: value for name, value in known.items() if value}
        measured = (OPERATION_NAME, TOOL_NAME, TOOL_SOURCE)
        outer = current_operation()
        if outer is not None and outer.takes_call:
            outer.takes_call = False
            if tool:
                outer.note({TOOL_NAME: tool})
                outer.rename(f"{_CALL} {tool}")
            return Operation(self._sdk, EXECUTE_TOOL_DURATION, outer.span, values, measured, owns_span=False)
        span = self._sdk.start(f"{_EXECUTE} {tool}" if tool else _EXECUTE, "INTERNAL", values)
        return Operation(self._sdk, EXECUTE_TOOL_DURATION, span, values, measured)

    def begin_request(self, *, method: str, version: str, transport: str, meta: Mapping[str, Any]) -> Operation:
        """Begin a request to a wasmrt server, as a child of the span that its `_meta` identifies."""
        values: dict[Name, str | int] = {METHOD_NAME: method, TRANSPORT: transport}
        values |= {PROTOCOL_VERSION: version} if version else {}
        span = self._sdk.start(method, "SERVER", values, meta)
        measured = (METHOD_NAME, TOOL_NAME, PROTOCOL_VERSION, TRANSPORT)
        return Operation(self._sdk, SERVER_DURATION, span, values, measured, takes_call=method == _CALL)
