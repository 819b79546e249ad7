"""Views can only be narrower, and the sandbox enforces them for components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.agent.registry.conftest import Counted, Notebook
from tests.sandbox.border.conftest import only_tool
from tests.sandbox.border.relays import agent_http, agent_invoke
from tests.tiers import examples
from wasmrt import (
    Capabilities,
    Effect,
    EndpointPattern,
    Preset,
    Reason,
    ToolCall,
    ToolError,
    ToolPolicy,
    ToolRegistry,
    ToolSource,
    ToolSpec,
    WasmRuntimeConfig,
    WasmToolRuntime,
    tool,
)
from wasmrt.agent.policy import ExternalFilter, Permission, ToolRule
from wasmrt.agent.registry import Outcome
from wasmrt.core.errors import GuestError, NotAuthorizedError, NotInstalledError

Requester = Callable[..., Any]
ALLOWING = ToolPolicy(rules=(ToolRule(tool="*", permission=Permission.ALLOW),))
POST = '{"method": "POST", "url": "%s", "headers-json": "{}"}'


@pytest.mark.parametrize("isolation", ["in-process", "process"])
def test_a_read_only_view_never_sends_post(requester: Requester, isolation: str) -> None:
    registry, here, received = requester(
        isolation, policy=ToolPolicy(rules=(ToolRule(tool="*", permission=Permission.ALLOW),))
    )
    params = {"method": "POST", "url": here.url(), "headers-json": "{}"}
    assert registry.execute("tool", params).result[0] == 200
    with pytest.raises(GuestError) as caught:
        registry.read_only().execute("tool", params)
    assert received == ["POST"]
    denied = next(each for each in caught.value.decisions if not each.allowed)
    assert denied.reason is Reason.METHOD_NOT_ALLOWED
    assert "limited to its effects" in denied.rule
    assert registry.read_only().execute("tool", params | {"method": "GET"}).result[0] == 200
    assert registry.execute("tool", params).result[0] == 200  # the view of one call does not apply to the next


def test_declared_effects_are_enforced_by_the_sandbox(
    counted: Counted,
) -> None:
    here, received = counted()
    component = agent_http("").component()
    with WasmToolRuntime(WasmRuntimeConfig(network=here.network, isolation="in-process")) as runtime:
        own = only_tool(runtime, component, here.grant())
        spec = ToolSpec(own.tools[0].name, "Reads, it says.", own.schema, read_only=True)
        claimed = runtime.prepare("claimed", component, here.grant(), tools=[spec])
        registry = ToolRegistry(runtime)
        registry.register(claimed)
        (name,) = registry.tool_names()
        assert registry.traits(name).effects == {Effect.NETWORK}
        assert (
            registry.explain(name, {"method": "POST", "url": here.url(), "headers-json": "{}"}).outcome is Outcome.RUNS
        )
        with pytest.raises(GuestError):
            registry.execute(name, {"method": "POST", "url": here.url(), "headers-json": "{}"})
        assert received == []


def test_a_writing_component_requires_approval_and_a_reading_one_does_not(requester: Requester) -> None:
    registry, here, _ = requester()
    params = {"method": "GET", "url": here.url(), "headers-json": "{}"}
    assert registry.explain("tool", params).outcome is Outcome.ASKS
    assert registry.read_only().explain("tool", params).outcome is Outcome.RUNS


def test_a_tool_invoked_by_a_read_only_call_is_read_only(counted: Counted) -> None:
    here, received = counted()
    with WasmToolRuntime(WasmRuntimeConfig(network=here.network, isolation="in-process")) as runtime:
        runtime.prepare("inner", agent_http("").component(), here.grant())
        outer = only_tool(runtime, agent_invoke("").component(), Capabilities.none().with_tool_invoke({"in": "inner"}))
        registry = ToolRegistry(runtime, policy=ALLOWING)
        registry.register(outer)
        assert Effect.EXTERNAL_WRITE in registry.traits("tool").effects
        params = {"alias": "in", "params-json": '{"method": "POST", "url": "%s", "headers-json": "{}"}' % here.url()}  # noqa: UP031
        registry.execute("tool", params)
        assert len(received) == 1
        with pytest.raises(ToolError):
            registry.read_only().execute("tool", params)
        assert len(received) == 1


def test_a_denied_tool_cannot_be_invoked_by_another_tool(counted: Counted) -> None:
    here, received = counted()
    with WasmToolRuntime(WasmRuntimeConfig(network=here.network, isolation="in-process")) as runtime:
        inner = runtime.prepare("inner", agent_http("").component(), here.grant())
        outer = only_tool(runtime, agent_invoke("").component(), Capabilities.none().with_tool_invoke({"in": "inner"}))
        allow = ToolRule(tool="*", permission=Permission.ALLOW)
        registry = ToolRegistry(
            runtime, policy=ToolPolicy(rules=(allow, ToolRule(tool="inner*", permission=Permission.DENY)))
        )
        registry.register(outer)
        registry.register(inner)
        params = {"alias": "in", "params-json": '{"method": "GET", "url": "%s", "headers-json": "{}"}' % here.url()}  # noqa: UP031
        with pytest.raises(GuestError) as caught:
            registry.execute("tool", params)
        assert any(each.reason is Reason.DENIED_BY_RULE for each in caught.value.decisions)
        assert received == []


@pytest.mark.parametrize("registered", [True, False])
def test_an_alias_does_not_bypass_a_rule(counted: Counted, registered: bool) -> None:
    here, received = counted()
    component = agent_http("").component()
    with WasmToolRuntime(WasmRuntimeConfig(network=here.network, isolation="in-process")) as runtime:
        own = only_tool(runtime, component, here.grant())
        spec = ToolSpec(own.tools[0].name, "Asks.", own.schema, capability_id="pack.ask")
        runtime.prepare("pack", component, here.grant(), tools=[spec])
        outer = only_tool(runtime, agent_invoke("").component(), Capabilities.none().with_tool_invoke({"in": "pack"}))
        rules = (
            ToolRule(tool="tool", permission=Permission.ALLOW),
            ToolRule(tool="pack.*", permission=Permission.DENY),
        )
        registry = ToolRegistry(runtime, policy=ToolPolicy(rules=rules))
        registry.register(outer)
        if registered:
            registry.register(runtime.prepared("pack"))  # type: ignore[arg-type]
        params = {"alias": "in", "params-json": POST % here.url()}
        with pytest.raises(GuestError):
            registry.execute("tool", params)
        assert received == []


# -- functions with actions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [..., None, 7, ["list"], "open"])
def test_a_call_without_a_valid_action_never_reaches_the_tool(
    registry: ToolRegistry, notebook: Notebook, action: Any
) -> None:
    params = {} if action is ... else {"action": action}
    with pytest.raises(ToolError):
        registry.read_only().execute("issues", params)
    assert notebook.done == []


def test_a_read_only_view_allows_read_only_actions_only(registry: ToolRegistry, notebook: Notebook) -> None:
    view = registry.read_only()
    (shown,) = (each for each in view.definitions("mcp") if each["name"] == "issues")
    assert shown["inputSchema"]["properties"]["action"]["enum"] == ["list", "get"]
    assert "action" in shown["inputSchema"]["required"]
    assert shown["description"] == "Work with issues. Actions here: get, list."
    assert shown["annotations"]["readOnlyHint"] is True
    assert view.execute("issues", {"action": "get", "number": 3}).result == "get 3"
    with pytest.raises(NotAuthorizedError) as caught:
        view.execute("issues", {"action": "close"})
    assert caught.value.code == "action-not-allowed"
    assert notebook.done == ["get 3"]


def test_a_view_excludes_functions_whose_effects_it_cannot_enforce(registry: ToolRegistry, notebook: Notebook) -> None:
    view = registry.read_only()
    assert view.tool_names() == ["issues", "read_note"]
    assert "write_note" not in view
    with pytest.raises(NotInstalledError, match="this view has no tool named 'write_note': the"):
        view.get("write_note")
    with pytest.raises(NotAuthorizedError):
        view.execute("write_note", {"name": "a"})
    assert notebook.done == []


def test_a_sub_agent_has_read_only_parts_of_tools_only(registry: ToolRegistry) -> None:
    view = registry.for_subagent()
    assert view.tool_names() == ["issues", "read_note"]
    assert view.execute("issues", {"action": "list"}).result == "list 0"
    assert view.explain("issues", {"action": "close"}).decision.reason is Reason.ACTION_NOT_ALLOWED
    assert view.explain("anything", {}).decision.reason is Reason.SUBAGENT_DENIED


def test_the_exfiltration_guard_denies_sending_tools_unless_allowed(
    registry: ToolRegistry,
) -> None:
    assert registry.without_network().tool_names() == ["read_note", "write_note"]
    assert registry.without_network(allow=["issues"]).tool_names() == ["issues", "read_note", "write_note"]
    assert registry.without_network(allow=["issues"]).without_network().tool_names() == ["read_note", "write_note"]
    denied = registry.without_network().explain("issues", {"action": "list"}).decision
    assert denied.capability == "tool.exfiltration_guard"


SITE = EndpointPattern.host("api.example.com")


@pytest.mark.parametrize(
    ("grant", "offered"),
    [
        (Capabilities.none(), True),
        (Capabilities.none().with_http([SITE.with_methods("GET")]), True),
        (Capabilities.none().with_http([SITE.with_methods("GET", "POST")]), True),
        (Capabilities.none().with_http([SITE.with_methods("POST")]), False),
        (Capabilities.none().with_http([SITE.with_methods("POST", "DELETE")]).with_workspace_read(["notes/"]), True),
        (Capabilities.none().with_workspace_write(["notes/"]), False),
        (Capabilities.none().with_workspace_read(["notes/"]).with_workspace_write(["notes/"]), True),
    ],
)
def test_a_view_for_reading_excludes_components_whose_calls_could_only_fail(grant: Capabilities, offered: bool) -> None:
    with WasmToolRuntime(WasmRuntimeConfig(isolation="in-process")) as runtime:
        registry = ToolRegistry(runtime, policy=ALLOWING)
        registry.register(only_tool(runtime, agent_http("").component(), grant))
        assert registry.tool_names() == ["tool"]
        for view in (registry.read_only(), registry.for_subagent()):
            assert ("tool" in view) is offered
            if not offered:
                with pytest.raises(NotAuthorizedError) as caught:
                    view.execute("tool", {"method": "POST", "url": "https://api.example.com/", "headers-json": "{}"})
                assert caught.value.hint


def test_definitions_are_limited_to_the_view(registry: ToolRegistry) -> None:
    assert registry.definitions("openai", for_="subagent") == registry.for_subagent().definitions("openai")
    assert registry.definitions("openai", for_="read-only") == registry.read_only().definitions("openai")


def test_changing_a_definition_does_not_change_the_registry(registry: ToolRegistry) -> None:
    registry.definitions("openai")[0]["function"]["parameters"]["properties"].clear()
    assert registry.definitions("openai")[0]["function"]["parameters"]["properties"]


# -- properties ------------------------------------------------------------------------------------------------------

_effects = st.frozensets(st.sampled_from(list(Effect)), max_size=4)
_steps = st.lists(
    st.sampled_from(["read_only", "for_subagent", "without_network", "shut", "open", "few"]), min_size=1, max_size=3
)
_PRESETS = {
    "shut": Preset(name="shut", tools=("*",)),
    "open": Preset(name="open", tools=("*",), allow_network=True),
    "few": Preset(name="few", tools=("t0", "t1"), allow_network=True, read_only=True),
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150), deadline=None)
@given(
    tools=st.lists(st.tuples(st.none() | _effects, st.booleans(), st.sampled_from(ToolSource)), min_size=1, max_size=4),
    steps=_steps,
    filter_=st.builds(ExternalFilter, allow_external=st.booleans(), external_allow_list=st.sampled_from([(), ("t0",)])),
    params=st.sampled_from([{}, {"action": "read"}, {"action": "write"}, {"action": 3}]),
)
def test_a_view_never_allows_more_than_its_registry(
    tools: list[Any], steps: list[str], filter_: ExternalFilter, params: dict[str, Any]
) -> None:
    registry = _registry(tools, filter_)
    view: Any = registry
    for step in steps:
        view = view.under(step) if step in _PRESETS else getattr(view, step)()
        for name in (f"t{number}" for number in range(len(tools))):
            order = [Outcome.REFUSED, Outcome.ASKS, Outcome.RUNS]
            outer, inner = registry.explain(name, params), view.explain(name, params)
            if outer.outcome is Outcome.REFUSED:
                assert inner.outcome is Outcome.REFUSED
            if inner.outcome is not Outcome.REFUSED:
                assert view.traits(name).effects <= registry.traits(name).effects
                assert order.index(inner.outcome) >= 1
        assert set(view.tool_names()) <= set(registry.tool_names())


def _registry(tools: list[Any], filter_: ExternalFilter) -> ToolRegistry:
    registry = ToolRegistry(policy=ToolPolicy(filter=filter_, presets=_PRESETS))
    for number, (effects, by_action, source) in enumerate(tools):

        def plain(x: int = 0) -> int:
            return x

        def acting(action: Literal["read", "write"] = "write") -> str:
            return action

        if by_action:
            actions = {"read": ["read-filesystem"], "write": list(effects or [Effect.FINANCIAL])}
            made: Any = tool(name=f"t{number}", description="Act.", actions=actions)(acting)
        else:
            made = tool(name=f"t{number}", description="Act.", effects=effects)(plain)
        registry.register(made, source=source)
    return registry


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(150), deadline=None)
@given(
    tools=st.lists(st.tuples(st.none() | _effects, st.booleans(), st.sampled_from(ToolSource)), min_size=1, max_size=3),
    steps=st.lists(st.sampled_from(["read_only", "for_subagent", "without_network", "shut", "few"]), max_size=2),
    permission=st.none() | st.sampled_from(Permission),
    params=st.sampled_from([{}, {"action": "read"}, {"action": "write"}, {"action": 3}, {"y": 1}, "{", None]),
    approves=st.booleans(),
)
def test_explain_agrees_with_execute(
    tools: list[Any], steps: list[str], permission: Permission | None, params: Any, approves: bool
) -> None:
    from wasmrt import Approvals, CallbackApprover

    asked: list[Any] = []
    view: Any = _registry(tools, ExternalFilter(allow_external=True))
    system = view._services
    system.policy = ToolPolicy(
        filter=ExternalFilter(allow_external=True), presets=_PRESETS,
        rules=() if permission is None else (ToolRule(tool="t0", permission=permission),),
    )  # fmt: skip
    system.approvals = Approvals(CallbackApprover(lambda request: asked.append(request) or approves))
    for step in steps:
        view = view.under(step) if step in _PRESETS else getattr(view, step)()
    for name in ("t0", "t1", "nothing"):
        asked.clear()
        explained = view.explain(name, params)
        assert asked == []
        answer = view.answer(ToolCall("1", name, params))
        assert bool(asked) == (explained.outcome is Outcome.ASKS)
        assert answer.ok == (explained.outcome is Outcome.RUNS or (explained.outcome is Outcome.ASKS and approves))
        if explained.outcome is Outcome.REFUSED and answer.decisions:
            assert answer.decisions[-1].reason is explained.decision.reason
