"""ToolRegistry: the tools an agent offers its model, by name, with the built-in names protected."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from wasmrt.errors import InvalidNameError, NotInstalledError
from wasmrt.names import folded
from wasmrt.tool import PreparedTool

PROTECTED_TOOL_NAMES = frozenset(
    {
        *("echo", "time", "json", "http", "shell"),
        *("read_file", "write_file", "list_dir", "apply_patch"),
        *("memory_search", "memory_write", "memory_read", "memory_tree"),
        *("create_job", "list_jobs", "job_status", "cancel_job", "job_events", "job_prompt"),
        *("tool_search", "tool_install", "tool_auth", "tool_activate", "tool_list", "tool_remove"),
        *("skill_list", "skill_search", "skill_install", "skill_remove"),
        *("routine_create", "routine_list", "routine_update", "routine_delete", "routine_history"),
        "build_software",
    }
)
"""Names that an agent's own tools go by; a tool that somebody else wrote may not take one."""


class ToolRegistry:
    """Tools by name. Safe to use from many threads."""

    def __init__(self) -> None:
        self._tools: dict[str, PreparedTool] = {}
        self._lock = threading.Lock()

    def register(self, tool: PreparedTool, *, builtin: bool = False) -> None:
        """Offer a tool under its name.

        Raises:
            InvalidNameError: the name is protected and the tool is not the agent's own, or the name is taken.
        """
        if not builtin and folded(tool.name) in PROTECTED_TOOL_NAMES:
            raise InvalidNameError(
                f"{tool.name!r} is the name of a built-in tool", code="protected-name",
                hint="prepare the tool under another name",
            )  # fmt: skip
        with self._lock:
            if any(folded(name) == folded(tool.name) for name in self._tools):
                raise InvalidNameError(
                    f"a tool named {tool.name!r} is registered already", code="name-taken",
                    hint="remove it first, or prepare this one under another name",
                )  # fmt: skip
            self._tools[tool.name] = tool

    def remove(self, name: str) -> None:
        """Offer a tool no longer.

        Raises:
            NotInstalledError: no tool has this name.
        """
        with self._lock:
            if self._tools.pop(name, None) is None:
                raise NotInstalledError(f"no tool named {name!r} is registered")

    def get(self, name: str) -> PreparedTool:
        """The tool of this name.

        Raises:
            NotInstalledError: no tool has it.
        """
        with self._lock:
            tool = self._tools.get(name)
            known = ", ".join(sorted(self._tools)) or "none"
        if tool is None:
            raise NotInstalledError(f"no tool named {name!r} is registered", hint=f"registered: {known}")
        return tool

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        with self._lock:
            return any(folded(taken) == folded(name) for taken in self._tools)

    def __iter__(self) -> Iterator[PreparedTool]:
        with self._lock:
            return iter(tuple(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)
