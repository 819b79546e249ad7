"""ToolRegistry: the tools of an agent, with the policy over them; and the views of it, which only narrow."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wasmrt.approvals import Approvals, Approver
from wasmrt.audit import Receipt
from wasmrt.errors import ConfigurationError, ToolError
from wasmrt.leaks import LeakDetector
from wasmrt.limits import MAX_USER_BYTES
from wasmrt.model import Decision, ToolOutput
from wasmrt.names import check_prepared_name
from wasmrt.policy import ExfiltrationGuard, Preset, ToolPolicy
from wasmrt.prepared import PreparedTool
from wasmrt.rates import RateLimiter
from wasmrt.runtime import WasmToolRuntime
from wasmrt.safety import Policy
from wasmrt.tools import _batch, _explain, _pipeline
from wasmrt.tools._answer import ToolAnswer, answer_of
from wasmrt.tools._calls import ToolCall
from wasmrt.tools._entry import Entry
from wasmrt.tools._function import FunctionTool
from wasmrt.tools._lens import Lens, actions_within, is_visible
from wasmrt.tools._state import CallState
from wasmrt.tools._system import System, Tokens
from wasmrt.tools._tool import Tool, ToolSource
from wasmrt.tools._waits import AwaitingWaits, BlockingWaits, blocking, driven
from wasmrt.traits import Traits

if TYPE_CHECKING:
    from wasmrt.schema.providers import Provider

_PROCESS = os.urandom(6).hex()
_numbers = itertools.count(1)
Call = ToolCall | Mapping[str, Any]


class ToolView:
    """Some of a registry's tools, or all of them, and the way to call them. A view of a view narrows further.

    A call goes by the view that it is made through: what is not visible in it is refused, and a component is held to
    the effects that the view allows.
    """

    def __init__(self, system: System, lens: Lens) -> None:
        self._system = system
        self._lens = lens

    # -- views -----------------------------------------------------------------------------------------------------

    def read_only(self) -> ToolView:
        """Return the view in which nothing can be changed: GET and HEAD, reading files, and tools that do the same."""
        return ToolView(self._system, self._lens._replace(read_only=True))

    def for_subagent(self) -> ToolView:
        """Return the view for an agent that an agent started: tools that only read, and of others what only reads."""
        return ToolView(self._system, self._lens._replace(subagent=True))

    def without_network(self, allow: Iterable[str] = ()) -> ToolView:
        """Return the view without tools that can send something outside, but for those that `allow` names."""
        guard = ExfiltrationGuard(enabled=True, allow_tools=_names(allow))
        return ToolView(self._system, self._lens._replace(guards=(*self._lens.guards, guard)))

    def under(self, preset: str | Preset) -> ToolView:
        """Return the view under a preset, by its name in the policy, besides the active one.

        Raises:
            ConfigurationError: there is no such preset.
        """
        found = preset if isinstance(preset, Preset) else self._system.policy.named(preset)
        return ToolView(self._system, self._lens._replace(presets=(*self._lens.presets, found)))

    # -- tools -----------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> ToolPolicy:
        """The policy that decides."""
        return self._system.policy

    def tool_names(self) -> list[str]:
        """Return the names of the tools that can be called, sorted."""
        return sorted(entry.name for entry in self._visible())

    def get(self, name: str) -> Any:
        """Return the tool of a name, an alias, or the spelling that a model uses.

        Raises:
            NotInstalledError: no tool has it, or this view does not.
        """
        entry = self._system.store.get(name)
        if not self._shows(entry):
            from wasmrt.errors import NotInstalledError

            raise NotInstalledError(f"this view has no tool named {name!r}", hint="look at explain() for the reason")
        return entry.tool

    def traits(self, name: str) -> Traits:
        """Return a tool's traits in this view: within its effects, and under the operator's rules.

        Raises:
            NotInstalledError: no tool has this name.
        """
        entry = self._system.store.get(name)
        traits = self._traits(entry)
        return traits.within(self._lens.held(entry.name, traits))

    def definitions(self, provider: Provider, *, for_: str | None = None) -> list[dict[str, Any]]:
        """Return what can be called, as a provider wants it declared: openai, anthropic, gemini or mcp.

        `for_` is `"subagent"`, `"read-only"` or the name of a preset, for the definitions of that view.

        Raises:
            ConfigurationError: the provider or the preset is not known.
        """
        if for_ is not None:
            views = {"subagent": self.for_subagent, "read-only": self.read_only}
            return (views[for_]() if for_ in views else self.under(for_)).definitions(provider)
        found = []
        for entry in self._visible():
            traits = self._traits(entry)
            actions = actions_within(traits, self._lens.held(entry.name, traits))
            found.append(entry.definition(provider, actions))
        return found

    def __iter__(self) -> Iterator[Any]:
        return (entry.tool for entry in self._visible())

    def __contains__(self, name: object) -> bool:
        entry = self._system.store.find(name) if isinstance(name, str) else None
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
    ) -> ToolOutput:
        """Call a tool through every step of the pipeline, and return its output.

        `params` is an object or its JSON text, `trace` names the conversation, `data` is what the tool may know of it,
        `token` a confirmation token in place of a person's approval.

        Raises:
            ToolError: a step refused it, or the tool failed; `decisions` says which.
        """
        state = self._state(name, params, user, trace, data, token)
        return driven(_pipeline.execute(state, BlockingWaits()))

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
        return await _pipeline.execute(self._state(name, params, user, trace, data, token), AwaitingWaits())

    def answer(self, call: Call, *, user: str = "local", trace: str = "", data: Any = None) -> ToolAnswer:
        """Answer one tool call of a model. A failure is an answer too, from which the model can go on."""
        asked = read_call(call)
        state = self._state(asked.name, asked.arguments, user, trace, data, None)
        return driven(_answered(state, asked, BlockingWaits()))

    async def aanswer(self, call: Call, *, user: str = "local", trace: str = "", data: Any = None) -> ToolAnswer:
        """Answer one tool call of a model, as `answer` does, without blocking the event loop."""
        asked = read_call(call)
        return await _answered(
            self._state(asked.name, asked.arguments, user, trace, data, None), asked, AwaitingWaits()
        )

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
            asked, lambda call: self._state(call.name, call.arguments, user, trace, data, None)
        )

    def explain(self, name: str, params: Any = None, *, user: str = "local", trace: str = "") -> _explain.Explanation:
        """Say what would become of a call, and at which step, without making it."""
        return _explain.explain(self._state(name, params, user, trace, None, None))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _state(self, name: str, params: Any, user: str, trace: str, data: Any, token: str | None) -> CallState:
        if not isinstance(user, str) or not 0 < len(user) <= MAX_USER_BYTES or not user.isprintable():
            raise ConfigurationError(f"a user is 1 to {MAX_USER_BYTES} printable characters", hint="alice is one")
        return CallState(
            system=self._system, lens=self._lens, name=name, arguments={} if params is None else params, user=user,
            trace=trace, data=data, token=token, call_id=f"{_PROCESS}-t{next(_numbers):x}",
        )  # fmt: skip

    def _traits(self, entry: Entry) -> Traits:
        traits: Traits = entry.tool.traits
        return traits.tightened(self._system.policy.tightening_for(entry.name))

    def _visible(self) -> Iterator[Entry]:
        return (entry for entry in self._system.store if self._shows(entry))

    def _shows(self, entry: Entry) -> bool:
        """Tell whether a call of some action of the tool would get past the steps that look at the tool alone."""
        name = entry.name
        probe = self._state(name, None, "local", "", None, None)
        probe.entry, probe.traits = entry, self._traits(entry)
        held = self._lens.held(name, probe.traits)
        return is_visible(name, probe.traits, held) and _passes(probe)


class ToolRegistry(ToolView):
    """The tools of an agent: components, functions, plugins and servers' tools, under one policy.

    Args:
        runtime: Its settings are shared: receipts, rate limits of users, leak rules.
        policy: By default nothing is said but that external tools stay out.
        approver: Who is asked where a person has to approve a call; by default nobody, which denies.
        approvals: In place of `approver`, with what was answered before.
    """

    def __init__(
        self,
        runtime: WasmToolRuntime | None = None,
        *,
        policy: ToolPolicy | None = None,
        approver: Approver | None = None,
        approvals: Approvals | None = None,
        tokens: Tokens | None = None,
        rates: RateLimiter | None = None,
        detector: LeakDetector | None = None,
        safety: Policy | None = None,
        receipts: Callable[[Receipt], None] | None = None,
    ) -> None:
        if approver is not None and approvals is not None:
            raise ConfigurationError("give a registry an approver or approvals, not both")
        policy = policy or ToolPolicy()
        system = System(policy=policy, rates=rates or RateLimiter(), detector=detector or LeakDetector(), tokens=tokens)
        if approver is not None:
            approvals = Approvals(approver, timeout_seconds=policy.approval_seconds)
        if approvals is not None:
            system.approvals = approvals
        if safety is not None:
            system.safety = safety
        system.receipts = receipts
        if runtime is not None:
            system.detector = detector or runtime.detector
            system.receipts = receipts or runtime.pipeline.audit
            system.hashed = runtime.pipeline.hashed
        super().__init__(system, Lens(presets=() if policy.active is None else (policy.active,)))
        self.runtime = runtime

    def register(
        self,
        tool: Tool | PreparedTool | FunctionTool[Any, Any],
        *,
        builtin: bool = False,
        source: ToolSource | None = None,
        group: str = "",
        aliases: Sequence[str] = (),
    ) -> None:
        """Offer a tool under its name; of a component with several tools, each under `NAME.TOOL`.

        `builtin` is for the agent's own tools, which may have the protected names. `source` is where it comes from, by
        default what kind of tool it is.

        Raises:
            InvalidNameError: a name is protected and the tool is not the agent's own, or it is taken.
            ConfigurationError: it is no tool.
        """
        if inspect.isfunction(tool):  # type: ignore[unreachable]  # against the hints
            raise ConfigurationError(f"{tool!r:.80} is no tool", hint="put @tool above the function")
        if not isinstance(tool, Tool):
            raise ConfigurationError(
                f"{tool!r:.80} is no tool", hint="it needs name, description, schema, traits, execute"
            )
        chosen = ToolSource.BUILTIN if builtin else source or _source_of(tool)
        several = isinstance(tool, PreparedTool) and tool.has_several
        parts = [tool.tool(spec.name) for spec in tool.tools if not spec.hidden] if several else [tool]  # type: ignore[union-attr]
        for part in parts:
            check_prepared_name(part.name)
            given = (*getattr(part, "aliases", ()), *aliases) if not several else ()
            self._system.store.add(Entry(part, part.name, chosen, group, tuple(given)))

    def add_installed(self, *names: str) -> list[str]:
        """Prepare installed tools under their grants and offer them; all of them where no name is given.

        Returns their names. They are external tools: the policy has to let them in.

        Raises:
            ConfigurationError: the registry has no runtime.
            WasmrtError: as `WasmToolRuntime.prepare_installed` and `register`.
        """
        if self.runtime is None:
            raise ConfigurationError("a registry without a runtime prepares nothing", hint="ToolRegistry(runtime)")
        from wasmrt.install import Catalog
        from wasmrt.places import find_places

        added = []
        for name in names or [tool.name for tool in Catalog(find_places().data).tools()]:
            self.register(self.runtime.prepare_installed(name), source=ToolSource.INSTALLED)
            added.append(name)
        return added

    def remove(self, name: str) -> None:
        """Offer a tool no longer.

        Raises:
            NotInstalledError: no tool has this name.
        """
        self._system.store.remove(name)

    def group(self, name: str) -> list[str]:
        """Return the names of the tools of a group, sorted."""
        return sorted(entry.name for entry in self._system.store if entry.group == name)

    def source(self, name: str) -> ToolSource:
        """Return where a tool comes from.

        Raises:
            NotInstalledError: no tool has this name.
        """
        return self._system.store.get(name).source

    def warnings(self) -> tuple[str, ...]:
        """Return in sentences what in the policy has no effect."""
        built_in = [entry.name for entry in self._system.store if not entry.source.external]
        return self._system.policy.warnings(built_in=built_in)


def read_call(call: Call) -> ToolCall:
    """Return a model's tool call from OpenAI's or Anthropic's form, or as it is.

    Raises:
        InvalidParametersError: it is none of them.
    """
    if isinstance(call, ToolCall):
        return call
    from wasmrt.errors import InvalidParametersError

    function = call.get("function")
    if isinstance(function, Mapping):  # OpenAI's tool_calls entry
        found = ToolCall(call.get("id") or "", function.get("name") or "", function.get("arguments", "{}"))
    else:  # Anthropic's tool_use block, or a plain mapping
        arguments: Any = next((call[key] for key in ("input", "arguments", "params") if key in call), {})
        found = ToolCall(call.get("id") or "", call.get("name") or "", arguments)
    if not isinstance(found.id, str) or not isinstance(found.name, str):
        raise InvalidParametersError("a tool call has a name and an id, which are texts", hint="pass it as it came")
    return found


async def _answered(state: CallState, call: ToolCall, waits: BlockingWaits | AwaitingWaits) -> ToolAnswer:
    try:
        output = await _pipeline.execute(state, waits)
    except ToolError as error:
        return answer_of(state, call.id, None, error)
    return answer_of(state, call.id, output, None)


def _passes(probe: CallState) -> bool:
    from wasmrt.tools import _steps

    checks = (_steps.check_filter, _steps.check_preset, _steps.check_rules, _steps.check_exfiltration)
    found = (probe.lens.decide_access(probe.known.name, probe.traits), *(check(probe) for check in checks))
    return all(each.allowed for each in found if isinstance(each, Decision))


def _names(allow: Iterable[str]) -> tuple[str, ...]:
    return (allow,) if isinstance(allow, str) else tuple(allow)


def _source_of(tool: object) -> ToolSource:
    if isinstance(tool, PreparedTool):
        return ToolSource.COMPONENT
    return ToolSource.FUNCTION
