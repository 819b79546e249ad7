"""The tools of a registry by every name they answer to. Safe to use from many threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from wasmrt.agent.registry._entry import Entry
from wasmrt.agent.registry._tool import ToolSource
from wasmrt.core.errors import InvalidNameError, NotInstalledError
from wasmrt.core.names import did_you_mean, folded, spelling

PROTECTED_TOOL_NAMES = frozenset(
    {
        *("echo", "time", "json", "http", "shell"),
        *("read_file", "write_file", "list_dir", "apply_patch"),
        *("memory_search", "memory_write", "memory_read", "memory_tree"),
        *("create_job", "list_jobs", "job_status", "cancel_job", "job_events", "job_prompt"),
        *("tool_search", "tool_install", "tool_auth", "tool_activate", "tool_list", "tool_remove"),
        *("skill_list", "skill_search", "skill_install", "skill_remove"),
        *("routine_create", "routine_list", "routine_update", "routine_delete", "routine_history"),
        *("run_code", "search_tools"),
        "build_software",
    }
)
"""Names that an agent's own tools go by; a tool that somebody else wrote may not take one."""


class ToolStore:
    """Entries by name. A name that a model could take for another one counts as the same."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._by_spelling: dict[str, Entry] = {}
        self._lock = threading.Lock()
        self.absent: dict[str, str] = {}
        """Names that tools would have if something else were here, each with the step that brings it."""

    def add(self, entry: Entry) -> None:
        """Add a tool under its name, the name that models call it by, and its aliases.

        Raises:
            InvalidNameError: a name is protected, or taken; the message says by what.
        """
        spellings = _spellings(entry)
        with self._lock:
            for spelling, name in spellings.items():
                self._check(entry, spelling, name)
            self._entries = {**self._entries, entry.name: entry}
            self._by_spelling = {**self._by_spelling, **dict.fromkeys(spellings, entry)}

    def remove(self, name: str) -> Entry:
        """Remove a tool by the name it was registered under.

        Raises:
            NotInstalledError: no tool has it.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                raise NotInstalledError(f"no tool named {name!r} is registered")
            self._entries = {known: other for known, other in self._entries.items() if other is not entry}
            self._by_spelling = {spelling: other for spelling, other in self._by_spelling.items() if other is not entry}
        return entry

    def find(self, name: str) -> Entry | None:
        """Return the tool of a name, in the spelling of a model or by an alias; None where there is none."""
        entry = self._entries.get(name)
        return entry if entry is not None else self._by_spelling.get(folded(name))

    def get(self, name: str) -> Entry:
        """Return the tool of a name.

        Raises:
            NotInstalledError: no tool has it.
        """
        entry = self.find(name)
        if entry is None:
            if (step := self.step_for(name)) is not None:
                raise NotInstalledError(f"{name!r} cannot be used here", hint=step)
            names = sorted(self._entries)
            near = did_you_mean(name, names) if len(names) > 20 else None
            known = ", ".join(names[:50]) or "none"
            hint = f"did you mean {near}?" if near else f"registered: {known}"
            raise NotInstalledError(f"no tool named {name!r} is registered", hint=hint)
        return entry

    def step_for(self, name: str) -> str | None:
        """Return the step that brings a tool which would have this name; None where none would."""
        meant = spelling(name)
        return next((step for absent, step in self.absent.items() if spelling(absent) == meant), None)

    def names(self) -> tuple[str, ...]:
        """Return the names that models call the tools by."""
        return tuple(entry.offered for entry in self._entries.values())

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def _check(self, entry: Entry, spelling: str, name: str) -> None:
        if entry.source is not ToolSource.BUILTIN and spelling in _PROTECTED:
            raise InvalidNameError(
                f"{name!r} is the name of a built-in tool", code="protected-name",
                hint="prepare the tool under another name; the agent's own are registered with builtin=True",
            )  # fmt: skip
        if (taken := self._by_spelling.get(spelling)) is not None:
            by = "" if taken.source is ToolSource.COMPONENT else f", by a {taken.source} tool"
            by = f", as {taken.name!r}{by}" if taken.name != name else by
            raise InvalidNameError(
                f"a tool named {name!r} is registered already{by}", code="name-taken",
                hint="remove it first, or prepare this one under another name",
            )  # fmt: skip


_PROTECTED = frozenset(map(folded, PROTECTED_TOOL_NAMES))


def _spellings(entry: Entry) -> dict[str, str]:
    """Return every folded spelling that means the tool, with the name that it is of."""
    names = (entry.offered, *entry.aliases, entry.name)
    return {form(name): name for name in names for form in (spelling, folded)}
