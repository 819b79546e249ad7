"""An agent's tools: the registry, its views, and the pipeline of a call."""

from __future__ import annotations

from wasmrt.agent.registry._calls import ToolCall, ToolCallAccumulator
from wasmrt.agent.registry._declarations import describe_declarations
from wasmrt.agent.registry._explain import Outcome
from wasmrt.agent.registry._function import FunctionTool, SchemaTool, tool
from wasmrt.agent.registry._hosting import (
    absent_tools,
    bind_view,
    clean_text,
    detector_of,
    end_trace,
    end_with_call,
    is_narrowed,
    limit_servers,
    nested_registry,
    preview_approval,
    record_event,
    refuse_call,
)
from wasmrt.agent.registry._output import ToolAnswer
from wasmrt.agent.registry._registered import ToolSource
from wasmrt.agent.registry._registry import ToolRegistry
from wasmrt.agent.registry._services import PROTECTED_TOOL_NAMES, Trace
from wasmrt.agent.registry._state import Caller
from wasmrt.agent.registry._tool import Tool
from wasmrt.agent.registry._tried import try_conversation
from wasmrt.agent.registry._view import ToolView
from wasmrt.agent.registry._wrapper import ReadOnlyToolWrapper

__all__ = [
    "PROTECTED_TOOL_NAMES",
    "Caller",
    "FunctionTool",
    "Outcome",
    "ReadOnlyToolWrapper",
    "SchemaTool",
    "Tool",
    "ToolAnswer",
    "ToolCall",
    "ToolCallAccumulator",
    "ToolRegistry",
    "ToolSource",
    "ToolView",
    "Trace",
    "absent_tools",
    "bind_view",
    "clean_text",
    "describe_declarations",
    "detector_of",
    "end_trace",
    "end_with_call",
    "is_narrowed",
    "limit_servers",
    "nested_registry",
    "preview_approval",
    "record_event",
    "refuse_call",
    "tool",
    "try_conversation",
]
