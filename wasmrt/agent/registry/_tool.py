"""Tool: what an agent can call. A prepared component is one, so is a Python function, a plugin and a server's tool."""

from __future__ import annotations

from collections.abc import Awaitable
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from wasmrt.core.model import ToolOutput
from wasmrt.core.traits import Traits
from wasmrt.runtime.context import ToolContext


@runtime_checkable
class Tool(Protocol):
    """One tool. Derive from `wasmrt.ToolDefaults` for everything but name, description, schema, traits and execute.

    Example:
        >>> from wasmrt import Tool, tool
        >>> @tool(effects=[])
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> isinstance(add, Tool), add.description
        (True, 'Add two numbers.')
    """

    @property
    def name(self) -> str:
        """The name that it is called by."""

    @property
    def description(self) -> str:
        """Its description, for a model."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its params."""

    @property
    def traits(self) -> Traits:
        """Its effects, and what follows from them."""

    @property
    def timeout_seconds(self) -> float:
        """Seconds that one call may take."""

    def execute(self, params: Any, context: ToolContext) -> ToolOutput | Awaitable[ToolOutput]:
        """Run the tool; what it returns may be awaitable.

        Raises:
            ToolError: it failed.
        """

    def estimated_cost(self, params: Any) -> Decimal | None:
        """Return what a call will probably cost; None for unknown."""

    def estimated_duration(self, params: Any) -> float | None:
        """Return how many seconds a call will probably take; None for unknown."""

    def requires_approval(self, params: Any) -> bool:
        """Tell whether a person has to approve this call, whatever its effects say."""


class ToolSource(StrEnum):
    """The place that a tool comes from.

    Example:
        >>> from wasmrt import ToolRegistry, ToolSource, tool
        >>> @tool(effects=[])
        ... def ping() -> str:
        ...     "Return pong."
        ...     return "pong"
        >>> registry = ToolRegistry()
        >>> _ = registry.register(ping, source=ToolSource.FUNCTION)
        >>> registry.source("ping")
        <ToolSource.FUNCTION: 'function'>
    """

    BUILTIN = "builtin"
    FUNCTION = "function"
    COMPONENT = "component"
    """A component that the program prepared itself."""
    INSTALLED = "installed"
    PLUGIN = "plugin"
    MCP_LOCAL = "mcp-local"
    MCP_VERIFIED = "mcp-verified"
    MCP_COMMUNITY = "mcp-community"

    @property
    def external(self) -> bool:
        """True for tools that the program did not name in its own code: the filter of external tools is for them."""
        return self not in (ToolSource.BUILTIN, ToolSource.FUNCTION, ToolSource.COMPONENT)
