"""An agent's tool system: tools of every kind, one registry with its views, one pipeline that a call goes through."""

from __future__ import annotations

from wasmrt.tools._answer import ToolAnswer
from wasmrt.tools._calls import ToolCall, ToolCallAccumulator
from wasmrt.tools._explain import Explanation, Outcome
from wasmrt.tools._function import FunctionTool, tool
from wasmrt.tools._load import approver_of, load_registry
from wasmrt.tools._registry import ToolRegistry
from wasmrt.tools._schema_tool import SchemaTool
from wasmrt.tools._store import PROTECTED_TOOL_NAMES
from wasmrt.tools._tool import Tool, ToolSource
from wasmrt.tools._traces import Trace
from wasmrt.tools._view import ToolView
from wasmrt.tools._wrapper import ReadOnlyToolWrapper

__all__ = [
    "PROTECTED_TOOL_NAMES",
    "Explanation",
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
    "approver_of",
    "load_registry",
    "tool",
]
