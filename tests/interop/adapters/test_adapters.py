"""Registries in every framework: names and schemas, results, failures, usage, approvals and cancellation."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import pytest
from agents import Agent, Runner
from pydantic import Field
from pydantic_ai import Agent as PydanticAgent
from wasmrt.adapters import langchain, openai_agents
from wasmrt.adapters.pydantic_ai import RegistryToolset
from wasmrt.testing.attacks import Body
from wasmrt.testing.attacks import tool as wat_tool

from wasmrt import CallbackApprover, ResourceLimits, ToolPolicy, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, tool
from wasmrt.agent.policy import ApproverKind, Permission, ToolRule
from wasmrt.capabilities import RateLimitConfig
from wasmrt.runtime.audit import Receipt
from wasmrt.sandbox.guest.engine import wat2wasm

from .drive import ALL, ASKING, PLAIN, Drive
from .models import AgentsModel, pydantic_model

every_framework = pytest.mark.parametrize("drive", ALL.values(), ids=ALL)
asking_frameworks = pytest.mark.parametrize("drive", ASKING.values(), ids=ASKING)
plain_frameworks = pytest.mark.parametrize("drive", PLAIN.values(), ids=PLAIN)


ALLOWED = ToolPolicy(rules=(ToolRule(tool="*", permission=Permission.ALLOW),))


class Desk:
    """A registry whose tools record their calls."""

    def __init__(self, **settings: Any) -> None:
        self.done: list[Any] = []
        self.asked: list[Any] = []
        self.receipts: list[Receipt] = []
        self.registry = ToolRegistry(receipts=self.receipts.append, **settings)

        @tool(effects=["external-write"])
        def write_it(to: str, self_: Annotated[int, Field(ge=0)] = 0, config: str = "", callbacks: str = "") -> str:
            """Write a letter."""
            self.done.append((to, self_, config, callbacks))
            return f"wrote to {to}"

        @tool(effects=["read-filesystem"])
        def look(what: Literal["up", "down"], run_manager: str = "") -> dict[str, Any]:
            """Look."""
            if run_manager == "break":
                raise OSError("the disk is gone")
            self.done.append(what)
            return {"seen": what}

        self.registry.register(write_it)
        self.registry.register(look, aliases=["look.around"])

    def yes(self, question: Any) -> bool:
        self.asked.append(question)
        return True

    def no(self, question: Any) -> bool:
        self.asked.append(question)
        return False


def nobody(question: Any) -> bool:
    raise AssertionError("no approval should be requested")


@every_framework
def test_frameworks_get_the_names_schemas_and_results_of_the_registry(drive: Drive) -> None:
    desk = Desk()
    told = asyncio.run(drive(desk.registry, [[("look", {"what": "up"})], "done"], nobody))
    assert sorted(told.declared) == ["look", "write_it"]
    assert told.declared["look"]["properties"]["what"]["enum"] == ["up", "down"]
    assert told.declared["look"]["properties"].keys() == {"what", "run_manager"}
    assert told.results == ['<tool_output name="look" sanitized="true">\n{"seen": "up"}\n</tool_output>']
    assert told.failed[0] in (False, None) and desk.done == ["up"]
    [receipt] = desk.receipts
    assert (receipt.tool, receipt.user, receipt.trace_id, receipt.outcome) == ("look", "ann", "t", "ok")


@every_framework
def test_parameters_may_have_names_that_the_framework_uses(drive: Drive) -> None:
    desk = Desk(policy=ALLOWED)
    params = {"to": "bob", "self_": 1, "config": "c", "callbacks": "b"}
    turns = [[("write_it", params), ("look", {"what": "up", "run_manager": "r"})], "done"]
    told = asyncio.run(drive(desk.registry, turns, nobody))
    assert len(told.results) == 2 and sorted(map(str, desk.done)) == ["('bob', 1, 'c', 'b')", "up"]


@every_framework
def test_model_can_correct_invalid_arguments(drive: Drive) -> None:
    desk = Desk()
    turns = [[("look", {"what": "left"})], [("look", {"what": "down"})], "done"]
    told = asyncio.run(drive(desk.registry, turns, nobody))
    assert "what" in told.results[0] and "up" in told.results[0] and told.failed[0] in (True, None)
    assert desk.done == ["down"] and [each.outcome for each in desk.receipts] == ["invalid-parameters", "ok"]


@every_framework
def test_tool_failure_is_reported_to_the_model_and_the_run_continues(drive: Drive) -> None:
    desk = Desk()
    turns = [[("look", {"what": "up", "run_manager": "break"})], "done"]
    told = asyncio.run(drive(desk.registry, turns, nobody))
    assert "the disk is gone" in told.results[0] and told.failed[0] in (True, None)


@every_framework
def test_policy_refusal_is_reported_to_the_model(drive: Drive) -> None:
    desk = Desk(policy=ToolPolicy(rules=(ToolRule(tool="look", rate=RateLimitConfig(1, 1)),)))
    turns = [[("look", {"what": "up"})], [("look", {"what": "up"})], "done"]
    told = asyncio.run(drive(desk.registry, turns, nobody))
    assert "seen" in told.results[0] and "try again in" in told.results[1]
    assert desk.done == ["up"]


@asking_frameworks
def test_approved_call_runs_once_and_its_receipt_names_the_approver(drive: Drive) -> None:
    desk = Desk()
    told = asyncio.run(drive(desk.registry, [[("write_it", {"to": "bob"})], "done"], desk.yes))
    assert "wrote to bob" in told.results[0]
    assert desk.done == [("bob", 0, "", "")] and len(desk.asked) == 1
    [receipt] = desk.receipts
    assert receipt.approval is not None and receipt.approval[0] == "framework"
    assert receipt.approval[1] in ASKING


@asking_frameworks
def test_denied_call_does_not_run(drive: Drive) -> None:
    desk = Desk()
    told = asyncio.run(drive(desk.registry, [[("write_it", {"to": "bob"})], "done"], desk.no))
    assert "wrote" not in told.results[0] and desk.done == [] and len(desk.asked) == 1


@asking_frameworks
def test_two_calls_of_one_turn_get_separate_answers(drive: Drive) -> None:
    desk = Desk()
    turns = [[("write_it", {"to": "ann"}), ("write_it", {"to": "bob"}), ("look", {"what": "up"})], "done"]
    told = asyncio.run(drive(desk.registry, turns, lambda asked: "bob" in str(asked) and desk.yes(asked)))
    assert desk.done.count(("bob", 0, "", "")) == 1 and ("ann", 0, "", "") not in desk.done
    assert sum("wrote to bob" in each for each in told.results) == 1


@asking_frameworks
def test_tool_replaced_during_approval_does_not_run(drive: Drive) -> None:
    desk = Desk()
    ran = []

    @tool(effects=["external-write", "financial"])
    def write_it(to: str) -> str:
        """Write a letter, for money."""
        ran.append(to)
        return "paid"

    asked: list[Any] = []

    def exchange(question: Any) -> bool:
        asked.append(question)
        if len(asked) == 1:
            desk.registry.replace(write_it)
            return True
        return False

    told = asyncio.run(drive(desk.registry, [[("write_it", {"to": "bob"})], "done"], exchange))
    assert ran == [] and desk.done == []
    assert "paid" not in told.results[-1] and "wrote" not in told.results[-1]


@asking_frameworks
def test_remembered_approval_needs_no_question(drive: Drive) -> None:
    desk = Desk(policy=ALLOWED)
    asyncio.run(drive(desk.registry, [[("write_it", {"to": "bob"})], "done"], nobody))
    assert len(desk.done) == 1


@asking_frameworks
def test_configured_approver_replaces_the_frameworks_users(drive: Drive) -> None:
    asked: list[Any] = []
    policy = ToolPolicy(approver=ApproverKind.QUEUE)
    desk = Desk(policy=policy, approver=CallbackApprover(lambda request: bool(asked.append(request))))
    told = asyncio.run(drive(desk.registry, [[("write_it", {"to": "bob"})], "done"], nobody))
    assert len(asked) == 1 and desk.done == []
    assert "was not approved" in told.results[0]


@plain_frameworks
def test_without_an_approver_the_model_gets_an_approval_error(drive: Drive) -> None:
    desk = Desk()
    told = asyncio.run(drive(desk.registry, [[("write_it", {"to": "bob"})], "done"], nobody))
    assert "the call requires approval" in told.results[0] and told.failed[0] in (True, None)
    assert desk.done == []


@plain_frameworks
def test_approver_of_the_registry_decides(drive: Drive) -> None:
    desk = Desk(approver=CallbackApprover(lambda request: request.params["to"] == "bob"))
    turns = [[("write_it", {"to": "bob"}), ("write_it", {"to": "eve"})], "done"]
    told = asyncio.run(drive(desk.registry, turns, nobody))
    assert "wrote to bob" in told.results[0] and "was not approved" in told.results[1]


@pytest.fixture
def runtime() -> Any:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation="in-process")) as made:
        yield made


@every_framework
def test_usage_of_a_component_is_in_the_frameworks_metadata(drive: Drive, runtime: WasmToolRuntime) -> None:
    registry = ToolRegistry(runtime)
    registry.register(runtime.prepare_installed("echo"), builtin=True)
    told = asyncio.run(drive(registry, [[("echo", {"message": "hi"})], "done"], nobody))
    [data] = told.data
    if drive is not ALL["anthropic-runner"]:  # this framework has no field for it
        assert data["usage"]["fuel"] > 0 and data["outcome"] == "ok"


@every_framework
def test_cancelling_the_conversation_ends_the_guest(drive: Drive, runtime: WasmToolRuntime) -> None:
    limits = ResourceLimits(timeout_seconds=120, fuel=2**60)
    spin = runtime.prepare("spin", wat2wasm(wat_tool(Body(execute="(loop (br 0)) (unreachable)"))), limits=limits)
    receipts: list[Any] = []
    registry = ToolRegistry(runtime, receipts=receipts.append)
    registry.register(spin)

    async def cancelled() -> None:
        talk = asyncio.ensure_future(drive(registry, [[("spin", {})], "done"], nobody))
        while not runtime.pipeline.admission.running:
            assert not talk.done(), talk.result()
            await asyncio.sleep(0.001)
        talk.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talk
        while runtime.pipeline.admission.running:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(cancelled(), 60))
    assert [each.outcome for each in receipts] == ["cancelled"]


def test_user_and_trace_can_come_from_the_framework_context() -> None:
    desk = Desk()
    turns = [[("look", {"what": "up"})], "done"]
    toolset = RegistryToolset(desk.registry, user=lambda ctx: ctx.deps, trace=lambda ctx: f"of-{ctx.deps}")
    asyncio.run(PydanticAgent(pydantic_model(turns), toolsets=[toolset], deps_type=str).run("go", deps="bob"))
    tools = openai_agents.tools_for(desk.registry, user=lambda wrapper: wrapper.context)
    asyncio.run(Runner.run(Agent("helper", model=AgentsModel(turns), tools=[*tools]), "go", context="eve"))
    [look, _] = langchain.tools_for(desk.registry, user=lambda config: config["configurable"]["user"])
    look.invoke({"what": "up"}, {"configurable": {"user": "dan"}})
    assert (desk.receipts[0].user, desk.receipts[0].trace_id) == ("bob", "of-bob")
    assert [each.user for each in desk.receipts] == ["bob", "eve", "dan"]
