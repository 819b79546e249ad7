"""ReadOnlyToolWrapper: one tool of which only the part that reads is left."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from wasmrt.agent.registry._entry import with_actions
from wasmrt.agent.registry._lens import actions_within, decide_effects, is_visible
from wasmrt.agent.registry._state import denied
from wasmrt.agent.registry._tool import Tool
from wasmrt.core.effects import READING
from wasmrt.core.model import ToolOutput
from wasmrt.core.traits import Traits
from wasmrt.runtime.context import ToolContext

_PASSED_ON = (
    "preview", "by_hand", "foreign", "is_async", "ends_by_itself", "digest", "grant_digest", "granted_effects",
    "prompt", "output_schema", "check", "own", "destinations", "ids", "aliases", "default_permission",
    "requires_sanitization", "in_programs",
)  # fmt: skip
"""Parts of a tool that it may have, and that are its own whatever is left of its effects."""


class ReadOnlyToolWrapper:
    """A tool whose calls change nothing: other actions are neither in its schema nor taken, and a sandbox holds it.

    `ToolView.read_only` does this for a whole registry. Make one with `wrap`.

    Example:
        >>> from wasmrt import ReadOnlyToolWrapper, ToolRegistry, tool
        >>> @tool(effects=["read-filesystem"])
        ... def read_note(name: str) -> str:
        ...     "Read a note."
        ...     return "empty"
        >>> ReadOnlyToolWrapper.wrap(read_note).name
        'read_note'
    """

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.name = tool.name
        self.timeout_seconds = tool.timeout_seconds

    @property
    def inner(self) -> Tool:
        """The tool of which this is a part: its source, and its trust, are this one's."""
        return self._tool

    @property
    def traits(self) -> Traits:
        """Its effects, held to reading."""
        return self._tool.traits.within(READING)

    @property
    def _actions(self) -> frozenset[str] | None:
        return actions_within(self._tool.traits, READING)

    def __getattr__(self, name: str) -> Any:
        if name in _PASSED_ON:
            return getattr(self._tool, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def wrap(cls, tool: Tool) -> ReadOnlyToolWrapper | None:
        """Return the tool without what changes something; None where nothing would be left of it."""
        if isinstance(tool, ReadOnlyToolWrapper):
            return tool
        return cls(tool) if is_visible(tool.traits, READING) else None

    @property
    def description(self) -> str:
        """Its description, with the actions that are left."""
        said = self._tool.description
        return said if self._actions is None else f"{said.rstrip()} Actions here: {', '.join(sorted(self._actions))}."

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its params, with the actions that are left."""
        if self._actions is None:
            return self._tool.schema
        return with_actions(self._tool.schema, self._tool.traits.action_param, self._actions)

    def estimated_cost(self, params: Any) -> Decimal | None:
        """Return what a call costs, as the tool says."""
        return self._tool.estimated_cost(params)

    def estimated_duration(self, params: Any) -> float | None:
        """Return how many seconds a call takes, as the tool says."""
        return self._tool.estimated_duration(params)

    def requires_approval(self, params: Any) -> bool:
        """Tell whether a person has to approve this call, as the tool says."""
        return self._tool.requires_approval(params)

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput | Awaitable[ToolOutput]:
        """Run the tool, held to reading.

        Raises:
            NotAuthorizedError: the action is missing, is no text, or changes something; the tool is not asked.
            ToolError: the tool failed.
        """
        refused = decide_effects(self.name, self._tool.traits, READING, params)
        if refused is not None:
            raise denied(refused)
        context = context or ToolContext()
        held = READING if context.effects is None else READING & context.effects
        return self._tool.execute(params, replace(context, effects=held))
