"""A wrapper that limits one tool to its read-only part."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from wasmrt.agent.registry._registered import decide_effects, is_visible, list_allowed_actions, with_actions
from wasmrt.agent.registry._state import denial_error
from wasmrt.agent.registry._tool import Tool
from wasmrt.core.effects import READING, Effect
from wasmrt.core.model import ToolOutput
from wasmrt.core.traits import Traits
from wasmrt.runtime.context import ToolContext


class ReadOnlyToolWrapper:
    """The read-only part of a tool. Its schema omits all other actions, which are denied; the sandbox enforces this.

    Create a wrapper with `wrap`. `ToolView.read_only` limits all tools of a registry in the same way.

    Examples:
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
        self.name, self.timeout_seconds, self.aliases, self.own = (
            tool.name,
            tool.timeout_seconds,
            tool.aliases,
            tool.own,
        )
        self.offer, self.prompt, self.output_schema = tool.offer, tool.prompt, tool.output_schema
        self.destinations, self.ids, self.declaration = tool.destinations, tool.ids, tool.declaration
        self.default_permission, self.requires_sanitization = tool.default_permission, tool.requires_sanitization
        self.approval_reason = tool.approval_reason
        self.in_programs, self.runs_programs = tool.in_programs, False
        self.is_async, self.ends_at_deadline = tool.is_async, tool.ends_at_deadline
        self.estimated_cost, self.estimated_duration = tool.estimated_cost, tool.estimated_duration
        self.requires_approval, self.check, self.preview = tool.requires_approval, tool.check, tool.preview
        self.manual_command, self.untrusted_result = tool.manual_command, tool.untrusted_result

    @property
    def inner(self) -> Tool:
        """The wrapped tool, which determines the source of this tool, and whether this tool is external."""
        return self._tool

    @property
    def traits(self) -> Traits:
        """The traits of the wrapped tool, limited to reading."""
        return self._tool.traits.within(READING)

    @property
    def _actions(self) -> frozenset[str] | None:
        return list_allowed_actions(self._tool.traits, READING)

    @property
    def digest(self) -> str:
        """The digest of the tool's code."""
        return self._tool.digest

    @property
    def grant_digest(self) -> str:
        """The digest of the tool's grant."""
        return self._tool.grant_digest

    @property
    def granted_effects(self) -> frozenset[Effect] | None:
        """The effects that the tool's grant allows."""
        return self._tool.granted_effects

    def in_conversation(self, user: str, trace_id: str) -> ReadOnlyToolWrapper:
        """Return the tool itself, because a read-only tool has no state for a conversation."""
        return self

    def session_digest(self) -> str | None:
        """Return None, because a read-only tool has no state for a conversation."""
        return None

    @classmethod
    def wrap(cls, tool: Tool) -> ReadOnlyToolWrapper | None:
        """Return the read-only part of a tool, or None if no part of the tool is read-only."""
        if isinstance(tool, ReadOnlyToolWrapper):
            return tool
        return cls(tool) if is_visible(tool.traits, READING) else None

    @property
    def description(self) -> str:
        """The description of the wrapped tool, with a list of the read-only actions."""
        text = self._tool.description
        return text if self._actions is None else f"{text.rstrip()} Actions here: {', '.join(sorted(self._actions))}."

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the params, which accepts only the read-only actions."""
        if self._actions is None:
            return self._tool.schema
        return with_actions(self._tool.schema, self._tool.traits.action_param, self._actions)

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput | Awaitable[ToolOutput]:
        """Run the tool, limited to reading.

        Raises:
            NotAuthorizedError: the action is missing, is not text, or is not read-only. The tool was not called.
            ToolError: the tool failed.
        """
        refused = decide_effects(self.name, self._tool.traits, READING, params)
        if refused is not None:
            raise denial_error(refused)
        context = context or ToolContext()
        held = READING if context.effects is None else READING & context.effects
        return self._tool.execute(params, replace(context, effects=held))
