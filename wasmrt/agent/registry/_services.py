"""The objects of a registry that every call uses: tools, policy, approvals, traces and receipts."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from wasmrt.agent.access import AccessStore
from wasmrt.agent.approvals import Approvals, ConfirmationTokens, DenyApprover
from wasmrt.agent.flows import ApprovedPlans, FlowTrace, Label, Plan, SharedLabels, WrittenText, read_labels
from wasmrt.agent.policy import ToolPolicy
from wasmrt.agent.registry._definitions import DefinitionTexts
from wasmrt.agent.registry._registered import RegisteredTool, ToolSource
from wasmrt.agent.safety import Policy
from wasmrt.core.errors import ConfigurationError, InvalidNameError, NotInstalledError
from wasmrt.core.limits import MAX_FLOW_TRACES
from wasmrt.core.names import did_you_mean, fold_name, spelling
from wasmrt.core.telemetry import Telemetry
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import EMPTY_RECEIPT, Approval, Receipt
from wasmrt.runtime.runtime import WasmToolRuntime

CLEARED, PLANNED = "flows.clear", "flows.plan"
"""The tool names in receipts for removed labels, and for approved plans."""


class Trace:
    """One conversation or job of a user, as an object for the program that runs the model.

    A call belongs to the trace if the trace's name is passed as `trace=`. Calls only add labels. Only `clear` removes
    labels, at the request of a person.
    """

    def __init__(
        self, traces: Traces, user: str, name: str, flows: FlowTrace, *, parent: str = "", root: str = ""
    ) -> None:
        self.root = root or name
        """The trace whose content this trace has: itself, or that of the agent above."""
        self._traces = traces
        self._flows = flows
        self._parent = parent
        self._plans = ApprovedPlans()
        self.user = user
        self.name = name

    @property
    def labels(self) -> frozenset[Label]:
        """The labels of everything that the trace contains."""
        return self._flows.labels

    def add_user_message(self, text: str) -> None:
        """Add a message of the user. Flow rules do not require approval for destinations that the message names.

        For text that the user pasted from elsewhere, use `add_content` instead.

        Raises:
            ConfigurationError: the message is not a string.
        """
        if not isinstance(text, str):
            raise ConfigurationError(f"expected a user message as text, got {type(text).__name__}")
        if self._parent:
            # SECURITY: the text that an agent writes for a sub-agent can repeat untrusted content.
            hint = f"add the message to the trace {self._parent}; for the task of a sub-agent, use add_content"
            raise ConfigurationError("user messages cannot be added to the trace of a sub-agent", hint=hint)
        self._flows.user_said(text)

    def user_said(self, text: str) -> None:
        """Add a message from the user. Alias of `add_user_message`."""
        self.add_user_message(text)

    def add_content(self, text: Any, labels: Iterable[Label | str] = (Label.UNTRUSTED,), *, source: str = "") -> None:
        """Add content that the model reads in addition to tool results, such as an uploaded file or a pasted mail.

        Raises:
            ConfigurationError: a label is unknown, or labels contradict each other.
        """
        given = read_labels(labels)
        self._flows.saw(text, given, tool=source)
        self._traces.share(self.user, self.name, given)

    def saw(self, text: Any, labels: Iterable[Label | str] = (Label.UNTRUSTED,), *, source: str = "") -> None:
        """Add content that the model reads: an alias of `add_content`."""
        self.add_content(text, labels, source=source)

    def clear(self, *labels: Label | str, by: str) -> frozenset[Label]:
        """Remove labels and the content that has these labels, and write a receipt. By default, remove all labels.

        Raises:
            ConfigurationError: a label is unknown, or `by` is empty.
        """
        if not by:
            hint = 'for example: clear(by="ann")'
            raise ConfigurationError("clearing labels requires `by`, the name of the person who decided it", hint=hint)
        cleared = self._flows.clear(*sorted(read_labels(labels)) if labels else ())
        if self._traces.shared is not None:
            self._traces.shared.remove(self.user, self.root, cleared)
        if Label.TRUSTED in cleared:
            self._plans.end()
        self._traces.record(self, CLEARED, by, " ".join(sorted(cleared)))
        return cleared

    def approve_plan(self, plan: Plan, *, by: str) -> None:
        """Approve the calls of a plan in this trace, for a person or the program, and write a receipt.

        Calls that fit the plan require no further approval. The plan ends with the trace. Traces of sub-agents do not
        have it; approve a plan for them if necessary. Tools cannot call this method.

        Raises:
            ConfigurationError: `by` is empty, the trace is closed or has too many plans, or a tool is not registered.
        """
        if not by.strip():
            raise ConfigurationError("approving a plan requires a name", hint='for example: by="ann"')
        if self._traces.get(self.user, self.name) is not self:
            raise ConfigurationError(f"the trace {self.name!r:.80} is closed", hint="open it again")
        self._plans.approve(plan, by, self._traces.find_tools(plan))
        self._traces.record(self, PLANNED, by, plan.digest)

    def close(self) -> None:
        """End the trace: remove its content, and revoke the access that was granted to tools for this trace.

        Raises:
            ApprovalError: the grants cannot be revoked, because their store cannot be written.
        """
        self._traces.end(self.user, self.name)


class Traces:
    """The open traces, by user and name. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], Trace] = {}
        self.written = WrittenText()
        """Marks of text that calls wrote after untrusted text was read. Other traces recognize the text by them."""
        self.private_written = WrittenText()
        """Marks of text that calls wrote and that contained private text of their traces."""
        self.receipts: Callable[[Receipt], None] | None = None
        self.shared: SharedLabels | None = None
        """The labels of traces that other hosts continue."""
        self.find_tool: Callable[[str], RegisteredTool | None] = lambda _: None
        self.on_end: Callable[[str, str], None] | None = None
        """Receives user and name of each trace that ends."""

    def find(self, user: str, name: str) -> FlowTrace | None:
        """Return the content of a trace, or None if the trace is not open."""
        found = self._open.get((user, name))
        return None if found is None else found._flows

    def read_shared(self, user: str, name: str) -> None:
        """Add the labels that a trace has on other hosts. It raises the errors of `SharedLabels.read`."""
        found = self._open.get((user, name))
        if self.shared is not None and found is not None:
            self.shared.read(user, found.root, found._flows)

    def share(self, user: str, name: str, labels: Iterable[Label]) -> None:
        """Store labels of new content for other hosts. It raises the errors of `SharedLabels.add`."""
        found = self._open.get((user, name))
        if self.shared is not None and found is not None:
            self.shared.add(user, found.root, labels)

    def get(self, user: str, name: str) -> Trace | None:
        """Return a trace, or None if it is not open."""
        return self._open.get((user, name))

    def plans(self, user: str, name: str) -> ApprovedPlans | None:
        """Return the approved plans of a trace, or None if the trace is not open."""
        found = self.get(user, name)
        return None if found is None else found._plans

    def find_tools(self, plan: Plan) -> list[RegisteredTool]:
        """Return the registered tools of a plan's steps.

        Raises:
            ConfigurationError: a tool is not registered.
        """
        found = {step.tool: self.find_tool(step.tool) for step in plan.steps}
        unknown = next((name for name, tool in found.items() if tool is None), None)
        if unknown is not None:
            raise ConfigurationError(f"the plan names an unknown tool: {unknown}", hint="name a registered tool")
        return [tool for step in plan.steps if (tool := found[step.tool]) is not None]

    def open(self, user: str, name: str, *, automation: bool = False, parent: str = "") -> Trace:
        """Return the trace with a name, and open it if necessary. It shares the content of the trace `parent`, if any.

        Raises:
            ConfigurationError: the parent is not open, the trace is open without it, or too many traces are open.
                SECURITY: closing one automatically would drop its labels.
        """
        with self._lock:
            found = self._open.get((user, name))
            above = self._open.get((user, parent)) if parent else None
            if parent and above is None:
                raise ConfigurationError(f"no trace {parent!r:.80} is open", hint="open the trace of the agent first")
            if found is not None and above is not None and found._flows is not above._flows:
                hint = "use another name for the trace of the sub-agent"
                raise ConfigurationError(
                    f"the trace {name!r:.80} is already open, with a different parent or with none", hint=hint
                )
            if found is None:
                if len(self._open) >= MAX_FLOW_TRACES:
                    raise ConfigurationError(
                        f"{MAX_FLOW_TRACES:,} traces are open", code="too-many-traces",
                        hint="close traces that have ended: trace.close()",
                    )  # fmt: skip
                flows = FlowTrace(automation=automation) if above is None else above._flows
                root = "" if above is None else above.root
                found = self._open[user, name] = Trace(self, user, name, flows, parent=parent, root=root)
            if automation:
                found._flows.automation = True
            return found

    def end(self, user: str, name: str) -> None:
        """Close a trace."""
        with self._lock:
            ended = self._open.pop((user, name), None)
        if self.shared is not None and ended is not None and ended.root == name:
            self.shared.remove(user, name)
        if self.on_end is not None:
            self.on_end(user, name)

    def record(self, trace: Trace, change: str, by: str, details: str) -> None:
        """Write the receipt for a change of a trace by a person or the program."""
        if self.receipts is None:
            return
        now = time.time_ns() // 1_000_000
        self.receipts(
            EMPTY_RECEIPT._replace(
                started_ms=now, ended_ms=now, trace_id=trace.name, call_id=f"{change}-{now}", tool=change, kind="flows",
                user=trace.user, chain=(change,), approval=Approval("person", by[:256], details),
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
        "propose_plan",
    }
)
"""Names of an agent's own tools. Other tools may not have these names."""


class ToolStore:
    """Registered tools by name. Names that a model could confuse are treated as equal. Thread-safe."""

    def __init__(self) -> None:
        self._entries: dict[str, RegisteredTool] = {}
        self._by_spelling: dict[str, RegisteredTool] = {}
        self._lock = threading.Lock()
        self.absent: dict[str, str] = {}
        """Names of tools that are unavailable here, each with the step that would make the tool available."""

    def add(self, entry: RegisteredTool) -> None:
        """Add a tool under its name, the name that models call it by, and its aliases.

        Raises:
            InvalidNameError: a name is protected or taken.
        """
        spellings = _list_spellings(entry)
        with self._lock:
            for spelling, name in spellings.items():
                self._check_name(entry, spelling, name)
            self._entries = {**self._entries, entry.name: entry}
            self._by_spelling = {**self._by_spelling, **dict.fromkeys(spellings, entry)}

    def remove(self, name: str) -> RegisteredTool:
        """Remove a tool by the name it was registered under.

        Raises:
            NotInstalledError: no tool has this name.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                raise NotInstalledError(f"no tool named {name!r} is registered")
            self._entries = {known: other for known, other in self._entries.items() if other is not entry}
            self._by_spelling = {spelling: other for spelling, other in self._by_spelling.items() if other is not entry}
        return entry

    def find(self, name: str) -> RegisteredTool | None:
        """Return the tool with this name or alias, in any spelling; None if there is no such tool."""
        entry = self._entries.get(name)
        return entry if entry is not None else self._by_spelling.get(fold_name(name))

    def get(self, name: str) -> RegisteredTool:
        """Return the tool with a name.

        Raises:
            NotInstalledError: no tool has this name.
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
        """Return what a user can do to make an unavailable tool available; None if no such tool has this name."""
        meant = spelling(name)
        return next((step for absent, step in self.absent.items() if spelling(absent) == meant), None)

    def names(self) -> tuple[str, ...]:
        """Return the names that models use."""
        return tuple(entry.offered for entry in self._entries.values())

    def __iter__(self) -> Iterator[RegisteredTool]:
        return iter(tuple(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def _check_name(self, entry: RegisteredTool, spelling: str, name: str) -> None:
        if entry.source is not ToolSource.BUILTIN and spelling in _PROTECTED:
            raise InvalidNameError(
                f"{name!r} is the name of a built-in tool", code="protected-name",
                hint="prepare the tool under another name; register the agent's own tools with builtin=True",
            )  # fmt: skip
        if (taken := self._by_spelling.get(spelling)) is not None:
            by = "" if taken.source is ToolSource.COMPONENT else f", by a {taken.source} tool"
            by = f", as {taken.name!r}{by}" if taken.name != name else by
            raise InvalidNameError(
                f"a tool named {name!r} is already registered{by}", code="name-taken",
                hint="remove it first, or prepare the new tool under another name",
            )  # fmt: skip


_PROTECTED = frozenset(map(fold_name, PROTECTED_TOOL_NAMES))


def _list_spellings(entry: RegisteredTool) -> dict[str, str]:
    """Return every normalized spelling of the tool's names and aliases, mapped to the name it belongs to."""
    names = (entry.offered, *entry.aliases, entry.name)
    return {form(name): name for name in names for form in (spelling, fold_name)}


@dataclass(slots=True, kw_only=True)
class RegistryServices:
    """The tools of one agent, and all other objects that their calls use."""

    store: ToolStore = field(default_factory=ToolStore)
    policy: ToolPolicy = field(default_factory=ToolPolicy)
    approvals: Approvals = field(default_factory=lambda: Approvals(DenyApprover()))
    rates: RateLimiter = field(default_factory=RateLimiter)
    detector: LeakDetector = field(default_factory=LeakDetector)
    safety: Policy = field(default_factory=Policy)
    traces: Traces = field(default_factory=Traces)
    definitions: DefinitionTexts = field(default_factory=DefinitionTexts)
    receipts: Callable[[Receipt], None] | None = None
    """Writes the receipts of calls that no runtime records; None if there are no receipts."""
    hashed: Callable[[str], str] | None = None
    """Returns the keyed hash of params or a result, for receipts."""
    tokens: ConfirmationTokens | None = None
    access: AccessStore | None = None
    """The store of access requests; None if access requests are off."""
    refresh: Callable[[], object] | None = None
    follow: Callable[[], None] | None = None
    """Called before each call: updates the tools to the current catalog. None if no catalog lists the tools."""
    session: str = field(default_factory=lambda: secrets.token_hex(8))
    """A random ID of this process's session."""
    lasting: bool = True
    """False if the process ends after one call. Access for its session would then be useless."""
    runtime_writes: bool = False
    """True if the runtime already writes the receipts of component calls to the same place as `receipts`."""
    telemetry: Telemetry | None = None
    """The telemetry of the agent's calls, or None."""
    runtime: WasmToolRuntime | None = None
    """The runtime that runs the agent's components, or None."""

    def __post_init__(self) -> None:
        self.traces.find_tool = self.store.find
