"""The `Tool` protocol, which prepared components, Python functions, plugins and MCP tools implement."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Decision, ToolOutput
from wasmrt.core.tool_defaults import Declaration, Offer, ToolDefaults
from wasmrt.core.traits import OwnTerms, Traits
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.prepared import PreparedTool


@runtime_checkable
class Tool(Protocol):
    """The interface of a tool in a registry.

    Derive tools from `wasmrt.ToolDefaults`. It documents every member, and has defaults for all members except `name`,
    `description`, `schema`, `traits` and `execute`.

    Examples:
        >>> from wasmrt import Tool, tool
        >>> @tool(effects=[])
        ... def add(a: int, b: int) -> int:
        ...     "Add two numbers."
        ...     return a + b
        >>> isinstance(add, Tool), add.description
        (True, 'Add two numbers.')
    """

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> dict[str, Any]: ...
    @property
    def traits(self) -> Traits: ...
    def execute(self, params: Any, context: ToolContext) -> ToolOutput | Awaitable[ToolOutput]:
        """Run the tool.

        Raises:
            ToolError: the call failed.
        """

    @property
    def timeout_seconds(self) -> float: ...
    @property
    def digest(self) -> str: ...
    @property
    def grant_digest(self) -> str: ...
    @property
    def granted_effects(self) -> frozenset[Effect] | None: ...
    @property
    def own(self) -> OwnTerms: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def offer(self) -> Offer | None: ...
    @property
    def prompt(self) -> str: ...
    @property
    def output_schema(self) -> dict[str, Any] | None: ...
    @property
    def default_permission(self) -> str: ...
    @property
    def approval_reason(self) -> str: ...
    @property
    def destinations(self) -> tuple[str, ...] | None: ...
    @property
    def ids(self) -> tuple[str, ...]: ...
    @property
    def declaration(self) -> Declaration | None: ...
    @property
    def requires_sanitization(self) -> bool: ...
    @property
    def in_programs(self) -> bool: ...
    @property
    def runs_programs(self) -> bool: ...
    @property
    def is_async(self) -> bool: ...
    @property
    def ends_at_deadline(self) -> bool: ...
    def estimated_cost(self, params: Any) -> Decimal | None: ...
    def estimated_duration(self, params: Any) -> float | None: ...
    def requires_approval(self, params: Any) -> bool: ...
    def check(self, params: Any) -> Decision | None: ...
    def preview(self, params: Any, context: ToolContext) -> str | None: ...
    def manual_command(self, params: Any) -> str: ...
    def untrusted_result(self, result: Any) -> bool: ...
    def in_conversation(self, user: str, trace_id: str) -> Tool: ...
    def session_digest(self) -> str | None: ...


_MEMBERS = tuple(name for name in vars(Tool) if not name.startswith("_"))
_REQUIRED = ("name", "description", "schema", "traits", "execute")
_MISSING = object()
_MIN_CHECKED_CHARS = 5
"""Shorter member names, such as `ids`, are similar to many unrelated names."""
_NEAR = 0.8
_RENAMED = {"foreign": "untrusted_result", "by_hand": "manual_command", "ends_by_itself": "ends_at_deadline"}
"""Former names of members, with the current names. A tool that still declares a former name is not accepted."""


def check_tool(tool: object) -> None:
    """Check that an object implements `Tool`, and that none of its public members is misspelled.

    SECURITY: a tool with `requires_aproval` would otherwise run without approval.

    Raises:
        ConfigurationError: a member is missing or misspelled, or the object is a class or a plain function.
    """
    if isinstance(tool, PreparedTool):
        return
    if inspect.isfunction(tool):
        raise ConfigurationError(f"{tool!r:.80} is not a tool", hint="put @tool above the function")
    if inspect.isclass(tool):
        hint = f"create an instance first: {tool.__name__:.80}(...)"
        raise ConfigurationError(f"{tool!r:.80} is a class, not a tool", hint=hint)
    needed = _REQUIRED if isinstance(tool, ToolDefaults) else _MEMBERS
    if missing := [name for name in needed if inspect.getattr_static(tool, name, _MISSING) is _MISSING]:
        some = [name for name in missing if name in _REQUIRED] or missing
        hint = f"required: {', '.join(_REQUIRED)}; wasmrt.ToolDefaults has defaults for the other members"
        raise ConfigurationError(f"{tool!r:.80} is not a tool: it has no {', '.join(some)}", hint=hint)
    for name in dir(tool):
        if meant := _find_intended_member(name):
            hint = f"rename it to {meant}, or to a name with a leading underscore if it is unrelated"
            message = f"{type(tool).__name__}.{name} is not a member of a tool: did you mean {meant}?"
            raise ConfigurationError(message, code="unknown-member", hint=hint)


@lru_cache(maxsize=1024)  # the tools of a registry share most names
def _find_intended_member(name: str) -> str | None:
    """Return the member that the author of an unknown public name probably meant, or None."""
    # The prefix `a` is the convention for an asynchronous variant, such as `aexecute`.
    if name.startswith("_") or name in _MEMBERS or name.removeprefix("a") in _MEMBERS:
        return None
    candidates = [each for each in (*_MEMBERS, *_RENAMED) if len(each) >= _MIN_CHECKED_CHARS]
    near = get_close_matches(name.lower(), candidates, 1, _NEAR)
    return _RENAMED.get(near[0], near[0]) if near else None
