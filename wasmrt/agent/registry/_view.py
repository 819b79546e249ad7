"""A view: all tools of a registry, or some of them. A view of a view never allows more than the first view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from shlex import quote
from typing import TYPE_CHECKING, Any

from wasmrt.agent.approvals import Approvals, Approver
from wasmrt.agent.flows import FlowMap
from wasmrt.agent.policy import ExfiltrationGuard, Permission, Preset, ToolPolicy
from wasmrt.agent.registry import _batch, _explain, _pipeline, _steps
from wasmrt.agent.registry._calls import ToolCall, read_call
from wasmrt.agent.registry._executor import AsyncExecutor, BlockingExecutor, run_blocking, run_without_loop
from wasmrt.agent.registry._explain import flow_map
from wasmrt.agent.registry._output import ToolAnswer, build_answer, clean
from wasmrt.agent.registry._registered import RegisteredTool, ToolRestrictions, list_allowed_actions
from wasmrt.agent.registry._services import RegistryServices, Trace
from wasmrt.agent.registry._state import Caller, CallRequest, CallState
from wasmrt.agent.registry._tool import Tool
from wasmrt.core.errors import ConfigurationError, NotInstalledError, ToolError
from wasmrt.core.limits import MAX_USER_BYTES
from wasmrt.core.model import Decision, ToolOutput
from wasmrt.core.traits import Traits
from wasmrt.runtime.context import DescribedTool, Progress

if TYPE_CHECKING:
    from wasmrt.sandbox.schema.providers import Provider

Call = ToolCall | Mapping[str, Any]


class ToolView:
    """All tools of a registry, or some of them, with methods to call the tools.

    Every call is subject to the restrictions of the view: tools that the view does not include are denied, and
    components are limited to the effects that the view allows. A view of a view has the restrictions of both.
    """

    def __init__(
        self, services: RegistryServices, restrictions: ToolRestrictions, caller: Caller | None = None
    ) -> None:
        self._services = services
        self._restrictions = restrictions
        self._caller = caller
        self._shown: dict[RegisteredTool, tuple[Traits, bool]] = {}

    # -- views -----------------------------------------------------------------------------------------------------

    def read_only(self) -> ToolView:
        """Return a view that allows only reading: GET and HEAD requests, reading files, and tools that only read."""
        return self._narrow_view(read_only=True)

    def for_subagent(self) -> ToolView:
        """Return the view for a sub-agent: read-only tools, and the read-only parts of other tools."""
        return self._narrow_view(subagent=True)

    def without_network(self, allow: Iterable[str] = ()) -> ToolView:
        """Return a view without tools that can send data, except the tools in `allow`."""
        guard = ExfiltrationGuard(enabled=True, allow_tools=_as_names(allow))
        return self._narrow_view(guards=(*self._restrictions.guards, guard))

    def only(self, patterns: Iterable[str]) -> ToolView:
        """Return a view of the tools whose name matches one of the patterns, such as `files-*`."""
        return self._narrow_view(names=(*self._restrictions.names, _as_names(patterns)))

    def under(self, preset: str | Preset) -> ToolView:
        """Return a view under a preset, in addition to the active preset of the policy.

        `preset` is a `Preset`, or the name of a preset of the policy.

        Raises:
            ConfigurationError: the policy has no preset with this name.
        """
        found = preset if isinstance(preset, Preset) else self._services.policy.named(preset)
        return self._narrow_view(presets=(*self._restrictions.presets, found))

    def _narrow_view(self, **restrictions: Any) -> ToolView:
        return ToolView(self._services, self._restrictions._replace(**restrictions), self._caller)

    # -- tools -----------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> ToolPolicy:
        """The policy of the registry."""
        return self._services.policy

    @property
    def approvals(self) -> Approvals:
        """The approvals of the registry: its approver and the remembered answers."""
        return self._services.approvals

    def tool_names(self) -> list[str]:
        """Return the sorted names of the tools that can be called."""
        return sorted(entry.name for entry in self._iter_visible_entries())

    def refusals(self) -> dict[str, Decision]:
        """Return the tools that cannot be called in this view, sorted by name, with the decisions that deny them."""
        found = ((entry.name, _steps.find_hiding_decision(self._probe(entry))) for entry in self._services.store)
        return {name: decision for name, decision in sorted(found, key=itemgetter(0)) if decision is not None}

    def get(self, name: str) -> Tool:
        """Return the tool with this name or alias, or with this name for models.

        Raises:
            NotInstalledError: no tool has this name, or the view does not include it.
        """
        entry = self._services.store.get(name)
        if not self._shows(entry) and (denial := _steps.find_hiding_decision(self._probe(entry))) is not None:
            raise NotInstalledError(
                f"this view has no tool named {name!r}: {denial.rule}",
                hint=denial.hint or f"to see the reason: wasmrt policy explain {quote(entry.name)}",
            )
        return entry.tool

    def permission(self, name: str) -> Permission | None:
        """Return the permission that the operator's rules set for a tool, or None if none does."""
        return self.policy.find_permission(self._services.store.get(name).names)

    def traits(self, name: str) -> Traits:
        """Return a tool's traits under the operator's rules, limited to the effects that this view allows."""
        entry = self._services.store.get(name)
        traits = self._traits(entry)
        return traits.within(self._restrictions.get_allowed_effects(traits))

    def definitions(self, provider: Provider, *, for_: str | None = None) -> list[dict[str, Any]]:
        """Return the definitions of the view's tools for a provider: "openai", "anthropic", "gemini" or "mcp".

        `for_` selects a narrower view: `"subagent"`, `"read-only"` or the name of a preset.

        Raises:
            ConfigurationError: the provider or the preset is unknown.
        """
        if for_ is not None:
            views = {"subagent": self.for_subagent, "read-only": self.read_only}
            return (views[for_]() if for_ in views else self.under(for_)).definitions(provider)
        return [self._build_definition(entry, provider) for entry in self._iter_visible_entries()]

    def definition(self, name: str, provider: Provider) -> dict[str, Any]:
        """Return the definition of one tool for a provider.

        Raises:
            NotInstalledError: no tool has this name, or the view does not include it.
            ConfigurationError: the provider is unknown.
        """
        self.get(name)
        return self._build_definition(self._services.store.get(name), provider)

    def described(self) -> Iterator[DescribedTool]:
        """Yield sanitized descriptions of the tools that programs can call in this view."""
        for entry in self._iter_visible_entries():
            if _steps.is_for_programs(entry):
                found = self._build_definition(entry, "mcp")
                yield DescribedTool(
                    entry.offered,
                    clean(self._services, found["description"]),
                    found["inputSchema"],
                    found.get("outputSchema"),
                )

    def document(self, name: str) -> str:
        """Return the document for models from a tool's package, sanitized; an empty string if there is none.

        A definition of the tool includes the document if it does not exceed the provider's limit.

        Raises:
            NotInstalledError: no tool has this name, or the view does not include it.
        """
        self.get(name)
        entry = self._services.store.get(name)
        self._services.definitions.record_returned(entry)
        return entry.document

    def __iter__(self) -> Iterator[Tool]:
        return (entry.tool for entry in self._iter_visible_entries())

    def __contains__(self, name: object) -> bool:
        entry = self._services.store.find(name) if isinstance(name, str) else None
        return entry is not None and self._shows(entry)

    def __len__(self) -> int:
        return sum(1 for _ in self._iter_visible_entries())

    # -- calls -----------------------------------------------------------------------------------------------------

    def execute(
        self,
        name: str,
        params: Any = None,
        *,
        user: str = "local",
        trace: str = "",
        data: Any = None,
        token: str | None = None,
        on_progress: Progress | None = None,
    ) -> ToolOutput:
        """Call a tool through every step of the pipeline, and return its output.

        `params` is an object, or the JSON text of one. `trace` is the name of the conversation. `data` is passed to the
        tool in its context. `token` is a confirmation token, which replaces an approval. For `on_progress`, see
        `aanswer`.

        Raises:
            ToolError: a step denied the call, or the tool failed; the error's `decisions` show the steps.
        """
        state = self._new_state(name, params, user, trace, data=data, token=token, on_progress=on_progress)
        return run_without_loop(_pipeline.execute(state, BlockingExecutor()))

    async def aexecute(
        self,
        name: str,
        params: Any = None,
        *,
        user: str = "local",
        trace: str = "",
        data: Any = None,
        token: str | None = None,
        on_progress: Progress | None = None,
    ) -> ToolOutput:
        """Call a tool like `execute`, without blocking the event loop. Cancelling the task ends the tool.

        Raises:
            ToolError: as for `execute`.
        """
        state = self._new_state(name, params, user, trace, data=data, token=token, on_progress=on_progress)
        return await _pipeline.execute(state, AsyncExecutor())

    def answer(
        self, call: Call, *, user: str = "local", trace: str = "", data: Any = None, approver: Approver | None = None
    ) -> ToolAnswer:
        """Run one tool call of a model. If the call fails, the answer contains the error for the model.

        `approver` answers the approval request of this call instead of the registry's approver.
        """
        asked = read_call(call)
        state = self._new_state(asked.name, asked.arguments, user, trace, data=data, approver=approver)
        return run_without_loop(_run_and_answer(state, asked, BlockingExecutor()))

    async def aanswer(
        self,
        call: Call,
        *,
        user: str = "local",
        trace: str = "",
        client: str = "",
        data: Any = None,
        on_progress: Progress | None = None,
        approver: Approver | None = None,
    ) -> ToolAnswer:
        """Run one tool call of a model like `answer`, without blocking the event loop.

        If the tool reports its progress, `on_progress` is called with `(done, total, message)` in another thread.
        `client` is the name that the program's own client gave, for approvers and receipts. It has no effect on
        decisions. The pending requests of a client's calls end with this process.
        """
        asked = read_call(call)
        details = {"client": client, "data": data, "on_progress": on_progress, "approver": approver}
        state = self._new_state(asked.name, asked.arguments, user, trace, **details)
        return await _run_and_answer(state, asked, AsyncExecutor())

    def execute_many(
        self, calls: Iterable[Call], *, user: str = "local", trace: str = "", data: Any = None
    ) -> list[ToolAnswer]:
        """Run the tool calls of one turn, and return their answers in the same order.

        Read-only calls run concurrently, other calls in the given order. A call that reads files, memory or the network
        runs after the earlier calls that change them. A failed or denied call does not stop the others. A call that
        waits for approval delays only later calls that read what it can change.
        """
        return run_blocking(self.aexecute_many(calls, user=user, trace=trace, data=data))

    async def aexecute_many(
        self, calls: Iterable[Call], *, user: str = "local", trace: str = "", data: Any = None
    ) -> list[ToolAnswer]:
        """Run the tool calls of one turn like `execute_many`, without blocking the event loop."""
        asked = [read_call(call) for call in calls]
        return await _batch.execute_many(
            asked, lambda call: self._new_state(call.name, call.arguments, user, trace, data=data)
        )

    def explain(self, name: str, params: Any = None, *, user: str = "local", trace: str = "") -> _explain.Explanation:
        """Return the outcome that a call would have, and the step that would decide it, without making the call."""
        return _explain.explain(self._new_state(name, params, user, trace))

    def trace(self, name: str, *, user: str = "local", automation: bool = False, parent: str = "") -> Trace:
        """Open a trace: a conversation or job whose content gets labels, and whose calls are subject to flow rules.

        Pass `automation=True` for a job without a user who could approve calls. All views of the registry share the
        trace. For a sub-agent, pass the trace of its agent as `parent`: both share their labels and their content.

        Raises:
            ConfigurationError: the name or the user is invalid, the parent is not open, or too many traces are open.
        """
        _check_user_and_trace(user, name)
        return self._services.traces.open(user, name, automation=automation, parent=parent)

    def flows(self) -> FlowMap:
        """Return the paths through the view's tools on which untrusted text could cause private data to be sent."""
        return flow_map(
            self._probe(entry) for entry in sorted(self._iter_visible_entries(), key=lambda entry: entry.name)
        )

    # -- inside ----------------------------------------------------------------------------------------------------

    def _new_state(self, name: str, arguments: Any, user: str = "local", trace: str = "", **details: Any) -> CallState:
        """Return the state of a new call; `details` are further fields of `CallRequest`."""
        _check_user_and_trace(user, trace)
        _check_client(details.get("client", ""))
        if not isinstance(name, str):
            raise ConfigurationError("the tool name must be text", hint="pass one of tool_names()")
        given, within = {} if arguments is None else arguments, None
        if (caller := self._caller) is not None:
            # SECURITY: the calls of a job are its user's and belong to its trace, whatever the runner passes.
            user, trace, within = caller.user, caller.trace, caller.lifetime
            details |= {"parent_id": caller.parent_id, "receipt_trace": caller.parent_id}
            details |= {"chain": caller.chain, "observer": caller.observer}
        request = CallRequest(name=name, arguments=given, user=user, trace=trace, tools=self, **details)
        return CallState(services=self._services, restrictions=self._restrictions, request=request, within=within)

    def _build_definition(self, entry: RegisteredTool, provider: Provider) -> dict[str, Any]:
        self._services.definitions.record_returned(entry)
        traits = self._traits(entry)
        held = self._restrictions.get_allowed_effects(traits)
        definition = entry.definition(provider, list_allowed_actions(traits, held))
        if provider == "mcp":
            definition["annotations"] = self._add_program_effects(entry, traits.within(held)).annotations()
        return definition

    def _add_program_effects(self, entry: RegisteredTool, traits: Traits) -> Traits:
        """Return the traits of a tool, including the effects of its programs.

        A tool that runs programs also has the effects of all tools that programs can call.
        """
        if not _steps.runs_programs(entry):
            return traits
        reached = (self._traits(each) for each in self._iter_visible_entries() if _steps.is_for_programs(each))
        effects = traits.effects.union(
            *(each.effects & self._restrictions.get_allowed_effects(each) for each in reached)
        )
        return replace(traits, effects=effects)

    def _traits(self, entry: RegisteredTool) -> Traits:
        return entry.traits(self._services.policy)

    def _iter_visible_entries(self) -> Iterator[RegisteredTool]:
        return (entry for entry in self._services.store if self._shows(entry))

    def _shows(self, entry: RegisteredTool) -> bool:
        """Return whether the view includes a tool: all pipeline steps that do not depend on params allow it."""
        traits = self._traits(entry)
        kept = self._shown.get(entry)
        if kept is not None and kept[0] is traits:
            return kept[1]
        shows = _steps.find_hiding_decision(self._probe(entry)) is None
        if len(self._shown) > 2 * len(self._services.store) + 64:  # most entries are of removed tools
            self._shown.clear()
        self._shown[entry] = (traits, shows)
        return shows

    def _probe(self, entry: RegisteredTool) -> CallState:
        """Return the state of a hypothetical call of a tool. The call is not made."""
        probe = self._new_state(entry.name, None)
        probe.entry, probe.traits = entry, self._traits(entry)
        probe.effects = probe.traits.effects & self._restrictions.get_allowed_effects(probe.traits)
        return probe


async def _run_and_answer(state: CallState, call: ToolCall, executor: BlockingExecutor | AsyncExecutor) -> ToolAnswer:
    try:
        output = await _pipeline.execute(state, executor)
    except ToolError as error:
        return build_answer(state, call.id, None, error)
    return build_answer(state, call.id, output, None)


def _check_user_and_trace(user: object, trace: object) -> None:
    if not isinstance(user, str) or not 0 < len(user) <= MAX_USER_BYTES or not user.isprintable():
        text = f"the user must be 1 to {MAX_USER_BYTES} printable characters"
        raise ConfigurationError(text, hint="for example: alice")
    if not isinstance(trace, str) or len(trace) > MAX_USER_BYTES or not trace.isprintable():
        text = f"the trace must be up to {MAX_USER_BYTES} printable characters"
        raise ConfigurationError(text, hint="for example: job-7")


def _check_client(client: object) -> None:
    if not isinstance(client, str) or len(client) > MAX_USER_BYTES or not client.isprintable():
        text = f"the client's name must be up to {MAX_USER_BYTES} printable characters"
        raise ConfigurationError(text, hint="for example: editor 1.2")


def _as_names(allow: Iterable[str]) -> tuple[str, ...]:
    return (allow,) if isinstance(allow, str) else tuple(allow)
