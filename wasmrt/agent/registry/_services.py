"""RegistryServices: what every call of a registry uses: its tools, policy, approvers, traces and receipts."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from wasmrt.agent.access import AccessStore
from wasmrt.agent.approvals import Approvals, DenyApprover
from wasmrt.agent.flows import FlowTrace, Label, Written, read_labels
from wasmrt.agent.policy import ToolPolicy
from wasmrt.agent.registry._registered import RegisteredTool
from wasmrt.agent.registry._tool import ToolSource
from wasmrt.agent.safety import Policy
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, InvalidNameError, NotInstalledError
from wasmrt.core.limits import MAX_FLOW_TRACES
from wasmrt.core.names import did_you_mean, folded, spelling
from wasmrt.core.telemetry import Telemetry
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import EMPTY_RECEIPT, Approval, Receipt
from wasmrt.runtime.runtime import WasmToolRuntime

CLEARED = "flows.clear"
"""The name that stands for a tool in the receipt of labels that were cleared."""


class Trace:
    """One conversation or job of a user, as the program around the model sees it.

    Calls that are made with `trace=` of its name belong to it. Its labels only grow; `clear` is for a person.
    """

    def __init__(self, traces: Traces, user: str, name: str, flows: FlowTrace) -> None:
        self._traces = traces
        self._flows = flows
        self.user = user
        self.name = name

    @property
    def labels(self) -> frozenset[Label]:
        """The labels of everything that it has seen."""
        return self._flows.labels

    def user_said(self, text: str) -> None:
        """Take in what the person said. A destination that stands in it is not asked about.

        Text that the person pasted is not said by them: give it to `saw`.

        Raises:
            ConfigurationError: it is no text.
        """
        if not isinstance(text, str):
            raise ConfigurationError("what a person said is a text")
        self._flows.user_said(text)

    def saw(self, text: Any, labels: Iterable[Label | str] = (Label.UNTRUSTED,), *, source: str = "") -> None:
        """Take in what the model gets besides the results of tools: a file that was uploaded, a mail that was pasted.

        Raises:
            ConfigurationError: a label is none, or they contradict each other.
        """
        self._flows.saw(text, read_labels(labels), tool=source)

    def clear(self, *labels: Label | str, by: str) -> frozenset[Label]:
        """Forget what was seen under some labels, all where none is given, and write a receipt of it.

        Raises:
            ConfigurationError: a label is none, or nobody is named.
        """
        if not by:
            raise ConfigurationError("labels are cleared by a person", hint='clear(by="ann")')
        cleared = self._flows.clear(*sorted(read_labels(labels)) if labels else ())
        self._traces.told(self, cleared, by)
        return cleared

    def close(self) -> None:
        """End the trace, forget what it has seen, and end what tools were granted for it.

        Raises:
            ApprovalError: what was granted cannot be ended, since its store cannot be written.
        """
        self._traces.end(self.user, self.name)


class Traces:
    """The traces that are open, by their user and name. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], Trace] = {}
        self.written = Written()
        """Marks of what calls wrote after they had seen strangers' text, for whichever trace reads it again."""
        self.receipts: Callable[[Receipt], None] | None = None
        self.on_end: Callable[[str, str], None] | None = None
        """Gets user and name of a trace that has ended."""

    def find(self, user: str, name: str) -> FlowTrace | None:
        """Return what a trace has seen; None for one that is not open."""
        found = self._open.get((user, name))
        return None if found is None else found._flows

    def open(self, user: str, name: str, *, automation: bool = False) -> Trace:
        """Return the trace of a name, opened where it is not.

        Raises:
            ConfigurationError: too many are open. SECURITY: none is forgotten to make room, since its labels would be.
        """
        with self._lock:
            found = self._open.get((user, name))
            if found is None:
                if len(self._open) >= MAX_FLOW_TRACES:
                    raise ConfigurationError(
                        f"{MAX_FLOW_TRACES:,} traces are open", code="too-many-traces",
                        hint="close those that have ended: trace.close()",
                    )  # fmt: skip
                found = self._open[user, name] = Trace(self, user, name, FlowTrace(automation=automation))
            elif automation:
                found._flows.automation = True
            return found

    def end(self, user: str, name: str) -> None:
        """Forget a trace."""
        with self._lock:
            self._open.pop((user, name), None)
        if self.on_end is not None:
            self.on_end(user, name)

    def told(self, trace: Trace, cleared: frozenset[Label], by: str) -> None:
        """Write the receipt of labels that a person cleared."""
        if self.receipts is None:
            return
        now = time.time_ns() // 1_000_000
        self.receipts(
            EMPTY_RECEIPT._replace(
                started_ms=now, ended_ms=now, trace_id=trace.name, call_id=f"clear-{now}", tool=CLEARED, kind="flows",
                user=trace.user, chain=(CLEARED,), approval=Approval("person", by[:256], " ".join(sorted(cleared))),
            )
        )  # fmt: skip


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
        self._entries: dict[str, RegisteredTool] = {}
        self._by_spelling: dict[str, RegisteredTool] = {}
        self._lock = threading.Lock()
        self.absent: dict[str, str] = {}
        """Names that tools would have if something else were here, each with the step that brings it."""

    def add(self, entry: RegisteredTool) -> None:
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

    def remove(self, name: str) -> RegisteredTool:
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

    def find(self, name: str) -> RegisteredTool | None:
        """Return the tool of a name, in the spelling of a model or by an alias; None where there is none."""
        entry = self._entries.get(name)
        return entry if entry is not None else self._by_spelling.get(folded(name))

    def get(self, name: str) -> RegisteredTool:
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

    def __iter__(self) -> Iterator[RegisteredTool]:
        return iter(tuple(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def _check(self, entry: RegisteredTool, spelling: str, name: str) -> None:
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


def _spellings(entry: RegisteredTool) -> dict[str, str]:
    """Return every folded spelling that means the tool, with the name that it is of."""
    names = (entry.offered, *entry.aliases, entry.name)
    return {form(name): name for name in names for form in (spelling, folded)}


class Tokens(Protocol):
    """Takes confirmation tokens; `wasmrt.ConfirmationTokens` does."""

    def redeem(
        self, token: str, *, trace: str, tool: str, effects: Collection[Effect], params_digest: str | None
    ) -> object:
        """Use up a token for one call.

        Raises:
            NotAuthorizedError: it is not good for this call.
        """


@dataclass(slots=True, kw_only=True)
class RegistryServices:
    """One agent's tools, the policy over them, and those who are asked."""

    store: ToolStore = field(default_factory=ToolStore)
    policy: ToolPolicy = field(default_factory=ToolPolicy)
    approvals: Approvals = field(default_factory=lambda: Approvals(DenyApprover()))
    rates: RateLimiter = field(default_factory=RateLimiter)
    detector: LeakDetector = field(default_factory=LeakDetector)
    safety: Policy = field(default_factory=Policy)
    traces: Traces = field(default_factory=Traces)
    receipts: Callable[[Receipt], None] | None = None
    """Takes the receipts of calls that no runtime writes."""
    hashed: Callable[[str], str] | None = None
    """The keyed hash of params and results in receipts."""
    tokens: Tokens | None = None
    access: AccessStore | None = None
    """The requests for more of a grant; None where nobody is asked for that."""
    refresh: Callable[[], object] | None = None
    """Offers the tools as the catalog has them now, where the registry follows one."""
    session: str = field(default_factory=lambda: secrets.token_hex(8))
    """The name of this program's run, which nobody else has."""
    lasting: bool = True
    """False for a program that ends with its call, so that nothing holds for a session of it."""
    runtime_writes: bool = False
    """True where the runtime writes the receipts of its components' calls to the same place."""
    telemetry: Telemetry | None = None
    """Tells of its calls; None where nobody wants to know."""
    runtime: WasmToolRuntime | None = None
    """The one that its components are prepared in, and invoke each other."""
