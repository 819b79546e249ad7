"""ToolView: some of a registry's tools, or all of them. A view of a view narrows further, and nothing widens one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wasmrt.agent.approvals import ApprovalRequest, Approvals, Approver
from wasmrt.agent.flows import FlowMap
from wasmrt.agent.policy import ExfiltrationGuard, Preset, ToolPolicy
from wasmrt.agent.registry import _batch, _explain, _pipeline, _steps
from wasmrt.agent.registry._calls import ToolCall, read_call
from wasmrt.agent.registry._executor import AsyncExecutor, BlockingExecutor, blocking, driven
from wasmrt.agent.registry._explain import flow_map
from wasmrt.agent.registry._output import ToolAnswer, answer_of, clean
from wasmrt.agent.registry._registered import RegisteredTool
from wasmrt.agent.registry._restrictions import ToolRestrictions, actions_within, is_visible
from wasmrt.agent.registry._services import RegistryServices, Trace
from wasmrt.agent.registry._state import CallRequest, CallState, denied
from wasmrt.agent.registry._tool import Tool
from wasmrt.core.errors import ConfigurationError, NotAuthorizedError, NotInstalledError, ToolError
from wasmrt.core.limits import MAX_USER_BYTES
from wasmrt.core.model import Decision, ToolOutput
from wasmrt.core.traits import Traits
from wasmrt.runtime.audit import Receipt
from wasmrt.runtime.context import DescribedTool, Progress

if TYPE_CHECKING:
    from wasmrt.sandbox.schema.providers import Provider

Call = ToolCall | Mapping[str, Any]


class ToolView:
    """Some of a registry's tools, or all of them, and the way to call them. A view of a view narrows further.

    A call goes by the view that it is made through: what is not visible in it is refused, and a component is held to
    the effects that the view allows.
    """

    def __init__(self, services: RegistryServices, restrictions: ToolRestrictions) -> None:
        self._services = services
        self._restrictions = restrictions
        self._shown: dict[RegisteredTool, tuple[Traits, bool]] = {}

    # -- views -----------------------------------------------------------------------------------------------------

    def read_only(self) -> ToolView:
        """Return the view in which nothing can be changed: GET and HEAD, reading files, and tools that do the same."""
        return ToolView(self._services, self._restrictions._replace(read_only=True))

    def for_subagent(self) -> ToolView:
        """Return the view for an agent that an agent started: tools that only read, and of others what only reads."""
        return ToolView(self._services, self._restrictions._replace(subagent=True))

    def without_network(self, allow: Iterable[str] = ()) -> ToolView:
        """Return the view without tools that can send something outside, but for those that `allow` names."""
        guard = ExfiltrationGuard(enabled=True, allow_tools=_names(allow))
        return ToolView(self._services, self._restrictions._replace(guards=(*self._restrictions.guards, guard)))

    def only(self, patterns: Iterable[str]) -> ToolView:
        """Return the view of the tools that one of the patterns (`files-*`) fits."""
        return ToolView(
            self._services, self._restrictions._replace(names=(*self._restrictions.names, _names(patterns)))
        )

    def under(self, preset: str | Preset) -> ToolView:
        """Return the view under a preset, by its name in the policy, besides the active one.

        Raises:
            ConfigurationError: there is no such preset.
        """
        found = preset if isinstance(preset, Preset) else self._services.policy.named(preset)
        return ToolView(self._services, self._restrictions._replace(presets=(*self._restrictions.presets, found)))

    # -- tools -----------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> ToolPolicy:
        """The policy that decides."""
        return self._services.policy

    @property
    def approvals(self) -> Approvals:
        """Those who are asked, with what was answered before."""
        return self._services.approvals

    def tool_names(self) -> list[str]:
        """Return the names of the tools that can be called, sorted."""
        return sorted(entry.name for entry in self._visible())

    def get(self, name: str) -> Tool:
        """Return the tool of a name, an alias, or the spelling that a model uses.

        Raises:
            NotInstalledError: no tool has it, or this view does not.
        """
        entry = self._services.store.get(name)
        if not self._shows(entry):
            raise NotInstalledError(f"this view has no tool named {name!r}", hint="look at explain() for the reason")
        return entry.tool

    def traits(self, name: str) -> Traits:
        """Return a tool's traits in this view: within its effects, and under the operator's rules.

        Raises:
            NotInstalledError: no tool has this name.
        """
        entry = self._services.store.get(name)
        traits = self._traits(entry)
        return traits.within(self._restrictions.allowed_effects(traits))

    def definitions(self, provider: Provider, *, for_: str | None = None) -> list[dict[str, Any]]:
        """Return what can be called, as a provider wants it declared: openai, anthropic, gemini or mcp.

        `for_` is `"subagent"`, `"read-only"` or the name of a preset, for the definitions of that view.

        Raises:
            ConfigurationError: the provider or the preset is not known.
        """
        if for_ is not None:
            views = {"subagent": self.for_subagent, "read-only": self.read_only}
            return (views[for_]() if for_ in views else self.under(for_)).definitions(provider)
        return [self._definition(entry, provider) for entry in self._visible()]

    def definition(self, name: str, provider: Provider) -> dict[str, Any]:
        """Return one tool as a provider wants it declared.

        Raises:
            NotInstalledError: no tool has this name, or this view does not.
            ConfigurationError: the provider is not known.
        """
        self.get(name)
        return self._definition(self._services.store.get(name), provider)

    def described(self) -> Iterator[DescribedTool]:
        """Yield the tools that programs can call in this view, as a model may read of them."""
        for entry in self._visible():
            if _steps.in_programs(entry):
                found = self._definition(entry, "mcp")
                yield DescribedTool(
                    entry.offered, self.clean(found["description"]), found["inputSchema"], found.get("outputSchema")
                )

    def clean(self, text: str) -> str:
        """Return a text of a stranger's as a model may read it: sanitized under the policy, and without secrets."""
        return clean(self._services, text)

    def document(self, name: str) -> str:
        """Return the document for models that a tool's package has, made fit for a model to read; empty without one.

        A definition has it where the provider leaves room for the whole of it.

        Raises:
            NotInstalledError: no tool has this name, or this view does not.
        """
        self.get(name)
        return self._services.store.get(name).document

    def __iter__(self) -> Iterator[Tool]:
        return (entry.tool for entry in self._visible())

    def __contains__(self, name: object) -> bool:
        entry = self._services.store.find(name) if isinstance(name, str) else None
        return entry is not None and self._shows(entry)

    def __len__(self) -> int:
        return sum(1 for _ in self._visible())

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

        `params` is an object or its JSON text, `trace` names the conversation, `data` is what the tool may know of it,
        `token` a confirmation token in place of a person's approval. `on_progress` is that of `aanswer`.

        Raises:
            ToolError: a step refused it, or the tool failed; `decisions` says which.
        """
        state = self._state(name, params, user, trace, data=data, token=token, on_progress=on_progress)
        return driven(_pipeline.execute(state, BlockingExecutor()))

    async def aexecute(
        self,
        name: str,
        params: Any = None,
        *,
        user: str = "local",
        trace: str = "",
        data: Any = None,
        token: str | None = None,
    ) -> ToolOutput:
        """Call a tool as `execute` does, without blocking the event loop; cancelling ends the tool.

        Raises:
            ToolError: as `execute`.
        """
        return await _pipeline.execute(self._state(name, params, user, trace, data=data, token=token), AsyncExecutor())

    def answer(
        self, call: Call, *, user: str = "local", trace: str = "", data: Any = None, approver: Approver | None = None
    ) -> ToolAnswer:
        """Answer one tool call of a model. A failure is an answer too, from which the model can go on.

        `approver` is who is asked about this call where a person has to be, in place of the registry's approver.
        """
        asked = read_call(call)
        state = self._state(asked.name, asked.arguments, user, trace, data=data, approver=approver)
        return driven(_answered(state, asked, BlockingExecutor()))

    async def aanswer(
        self,
        call: Call,
        *,
        user: str = "local",
        trace: str = "",
        data: Any = None,
        on_progress: Progress | None = None,
        approver: Approver | None = None,
    ) -> ToolAnswer:
        """Answer one tool call of a model, as `answer` does, without blocking the event loop.

        `on_progress` gets `(done, total, message)` of a tool that tells, on another thread.
        """
        asked = read_call(call)
        details = {"data": data, "on_progress": on_progress, "approver": approver}
        state = self._state(asked.name, asked.arguments, user, trace, **details)
        return await _answered(state, asked, AsyncExecutor())

    def refuse(
        self, name: str, params: Any, decision: Decision, *, user: str = "local", trace: str = ""
    ) -> NotAuthorizedError:
        """Return the error of a call that whoever carries it refuses, and write its receipt."""
        state = self._state(name, params, user, trace)
        state.entry = self._services.store.find(name)
        failure = denied(decision)
        state.decisions.append(decision._replace(policy=state.policy_digest))
        _pipeline.finished(state, failure)
        return failure

    def record(self, receipt: Receipt) -> None:
        """Write a receipt of something that is no call, such as messages that were refused.

        Raises:
            ConfigurationError: it cannot be written.
        """
        if self._services.receipts is not None:
            self._services.receipts(receipt)

    def execute_many(
        self, calls: Iterable[Call], *, user: str = "local", trace: str = "", data: Any = None
    ) -> list[ToolAnswer]:
        """Answer the tool calls of one turn, in the order asked: calls that only read run at once, the others in order.

        One that fails or is denied stops no other. Calls that need a person wait for one, and no others for them.
        """
        return blocking(self.aexecute_many(calls, user=user, trace=trace, data=data))

    async def aexecute_many(
        self, calls: Iterable[Call], *, user: str = "local", trace: str = "", data: Any = None
    ) -> list[ToolAnswer]:
        """Answer the tool calls of one turn, as `execute_many` does, without blocking the event loop."""
        asked = [read_call(call) for call in calls]
        return await _batch.execute_many(
            asked, lambda call: self._state(call.name, call.arguments, user, trace, data=data)
        )

    def explain(self, name: str, params: Any = None, *, user: str = "local", trace: str = "") -> _explain.Explanation:
        """Say what would become of a call, and at which step, without making it."""
        return _explain.explain(self._state(name, params, user, trace))

    def asks(self, name: str, params: Any = None, *, user: str = "local", trace: str = "") -> ApprovalRequest | None:
        """Return what a person would be asked before a call, without making it.

        None where nobody has to be asked, an answer is remembered, or the call would be refused anyway.
        """
        return _explain.asked(self._state(name, params, user, trace))

    def trace(self, name: str, *, user: str = "local", automation: bool = False) -> Trace:
        """Open a conversation or job: what its calls see is labelled, and the rules over flows hold for them.

        `automation` says that nobody is there to be asked. The trace is the same for every view.

        Raises:
            ConfigurationError: the name or the user cannot be one, or too many traces are open.
        """
        _check_circumstances(user, name)
        return self._services.traces.open(user, name, automation=automation)

    def flows(self) -> FlowMap:
        """Return the paths by which private text could leave at a stranger's word, from effects and grants alone."""
        return flow_map(self._probe(entry) for entry in sorted(self._visible(), key=lambda entry: entry.name))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _state(self, name: str, arguments: Any, user: str = "local", trace: str = "", **details: Any) -> CallState:
        """Return the state of a new call; `details` are further fields of `CallRequest`."""
        _check_circumstances(user, trace)
        if not isinstance(name, str):
            raise ConfigurationError("expected a tool name as text", hint="pass one of tool_names()")
        given = {} if arguments is None else arguments
        request = CallRequest(name=name, arguments=given, user=user, trace=trace, tools=self, **details)
        return CallState(services=self._services, restrictions=self._restrictions, request=request)

    def _definition(self, entry: RegisteredTool, provider: Provider) -> dict[str, Any]:
        traits = self._traits(entry)
        held = self._restrictions.allowed_effects(traits)
        definition = entry.definition(provider, actions_within(traits, held))
        if provider == "mcp":
            definition["annotations"] = self._reach(entry, traits.within(held)).annotations()
        return definition

    def _reach(self, entry: RegisteredTool, traits: Traits) -> Traits:
        """Return traits with all that a call can lead to: of the interpreter, what programs can call in this view."""
        if not _steps.runs_programs(entry):
            return traits
        reached = (self._traits(each) for each in self._visible() if _steps.in_programs(each))
        effects = traits.effects.union(*(each.effects & self._restrictions.allowed_effects(each) for each in reached))
        return replace(traits, effects=effects)

    def _traits(self, entry: RegisteredTool) -> Traits:
        return entry.traits(self._services.policy)

    def _visible(self) -> Iterator[RegisteredTool]:
        return (entry for entry in self._services.store if self._shows(entry))

    def _shows(self, entry: RegisteredTool) -> bool:
        """Tell whether a call of some action of the tool would get past the steps that look at the tool alone."""
        traits = self._traits(entry)
        kept = self._shown.get(entry)
        if kept is not None and kept[0] is traits:
            return kept[1]
        shows = self._shows_now(entry, traits)
        if len(self._shown) > 2 * len(self._services.store) + 64:  # tools that are gone
            self._shown.clear()
        self._shown[entry] = (traits, shows)
        return shows

    def _probe(self, entry: RegisteredTool) -> CallState:
        """Return a call of a tool that is not made."""
        probe = self._state(entry.name, None)
        probe.entry, probe.traits = entry, self._traits(entry)
        probe.effects = probe.traits.effects & self._restrictions.allowed_effects(probe.traits)
        return probe

    def _shows_now(self, entry: RegisteredTool, traits: Traits) -> bool:
        probe = self._probe(entry)
        return is_visible(traits, self._restrictions.allowed_effects(traits)) and _passes(probe)


async def _answered(state: CallState, call: ToolCall, executor: BlockingExecutor | AsyncExecutor) -> ToolAnswer:
    try:
        output = await _pipeline.execute(state, executor)
    except ToolError as error:
        return answer_of(state, call.id, None, error)
    return answer_of(state, call.id, output, None)


def _check_circumstances(user: object, trace: object) -> None:
    if not isinstance(user, str) or not 0 < len(user) <= MAX_USER_BYTES or not user.isprintable():
        raise ConfigurationError(f"a user is 1 to {MAX_USER_BYTES} printable characters", hint="alice is one")
    if not isinstance(trace, str) or len(trace) > MAX_USER_BYTES or not trace.isprintable():
        raise ConfigurationError(f"a trace is up to {MAX_USER_BYTES} printable characters", hint="job-7 is one")


def _passes(probe: CallState) -> bool:
    checks = (_steps.check_filter, _steps.check_preset, _steps.check_rules, _steps.check_exfiltration)
    found = (probe.restrictions.decide_access(probe.known.name, probe.traits), *(check(probe) for check in checks))
    return all(each.allowed for each in found if isinstance(each, Decision))


def _names(allow: Iterable[str]) -> tuple[str, ...]:
    return (allow,) if isinstance(allow, str) else tuple(allow)
