"""Answers that are late, repeated, changed, from a different process, or for a different question."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from agents import Agent, Runner, RunState
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved
from wasmrt.adapters import langgraph, openai_agents
from wasmrt.adapters._questions import Question, QuestionsShown
from wasmrt.adapters.pydantic_ai import RegistryToolset

from wasmrt import ToolRegistry, tool
from wasmrt.agent.approvals import ApprovalRequest
from wasmrt.agent.registry import preview_approval
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Decision, Reason

from .models import AgentsModel, chat_model, pydantic_model
from .test_adapters import Desk

TO_BOB = [("write_it", {"to": "bob"})]


class Graph:
    """An interrupted graph with one checkpoint."""

    def __init__(self, *turns: Any) -> None:
        self.saver = InMemorySaver()
        self.model = chat_model([*turns, "done"])

    def go(self, desk: Desk, value: Any, trace: str = "") -> Any:
        """Run or resume it with newly created tools."""
        tools = langgraph.tools_for(desk.registry, user="ann", trace=trace)
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda state: {"messages": self.model.invoke(state["messages"])})
        graph.add_node("tools", ToolNode(tools))
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge(START, "model").add_edge("tools", "model")
        return graph.compile(checkpointer=self.saver).invoke(value, {"configurable": {"thread_id": "1"}})

    def asked(self, state: Any) -> Any:
        """Return the value of the interrupt."""
        [found] = state["__interrupt__"]
        return found.value


def test_graph_resumes_in_a_different_process() -> None:
    graph, here, there = Graph(TO_BOB), Desk(), Desk()
    asked = graph.asked(graph.go(here, {"messages": "go"}))
    graph.go(there, Command(resume={"question": asked["question"], "approved": True}))
    assert here.done == [] and there.done == [("bob", 0, "", "")]


@pytest.mark.parametrize(
    "answer",
    [True, "yes", {"approved": True}, {"approved": True, "question": "1-0"}, {"approved": True, "question": 7}],
)
def test_answer_without_its_question_approves_nothing(answer: Any) -> None:
    graph, desk = Graph(TO_BOB), Desk()
    graph.go(desk, {"messages": "go"})
    again = graph.go(desk, Command(resume=answer))
    assert graph.asked(again)["tool"] == "write_it" and desk.done == []


def test_only_true_approves_a_call() -> None:
    graph, desk = Graph(TO_BOB), Desk()
    asked = graph.asked(graph.go(desk, {"messages": "go"}))
    graph.go(desk, Command(resume={"question": asked["question"], "approved": "false", "by": "ann", "note": "no"}))
    assert desk.done == [] and [each.outcome for each in desk.receipts] == ["approval-denied"]
    assert desk.receipts[0].approval == ("denied", "ann", "once")


def test_user_can_edit_parameters_in_a_graph() -> None:
    graph, desk = Graph(TO_BOB), Desk()
    asked = graph.asked(graph.go(desk, {"messages": "go"}))
    answer = {"question": asked["question"], "approved": True, "parameters": {"to": "eve"}}
    state = graph.go(desk, Command(resume=answer))
    assert desk.done == [("eve", 0, "", "")]
    assert "the approver edited the parameters" in state["messages"][2].content


def test_graph_tools_outside_a_graph_raise_a_clear_error() -> None:
    tool = next(each for each in langgraph.tools_for(Desk().registry) if each.name == "write_it")
    with pytest.raises(ConfigurationError, match="an approval interrupts a LangGraph graph"):
        tool.invoke({"to": "bob"})


def test_a_question_has_the_full_text_of_a_long_request() -> None:
    request = preview_approval(Desk().registry, "write_it", {"to": "x" * 300 + "; rm -rf src"})
    assert request is not None
    assert "; rm -rf src" in "\n".join(Question.of(request, "c1").as_dict()["lines"])


def test_question_expires() -> None:
    request = preview_approval(Desk().registry, "write_it", {"to": "bob"})
    assert request is not None
    open_, old = Question.of(request, "c1"), Question.of(request, "c1", expires_ms=1)
    assert open_.is_meant_by(open_.token) and not old.is_meant_by(old.token)
    assert not Question.of(request, "c2").is_meant_by(open_.token)
    shown = QuestionsShown()
    shown.add(old)
    assert not shown.has(old)
    shown.add(open_)
    assert shown.take(open_) and not shown.take(open_)


def test_no_question_for_a_call_that_would_be_refused() -> None:
    registry = Desk().registry
    assert preview_approval(registry, "write_it", {"to": 7, "more": 1}) is None
    assert preview_approval(registry, "nothing", {}) is None
    assert preview_approval(registry.read_only(), "write_it", {"to": "bob"}) is None
    assert preview_approval(registry, "look", {"what": "up"}) is None


def _agent(desk: Desk, *turns: Any) -> PydanticAgent[None, Any]:
    return PydanticAgent(
        pydantic_model([*turns, "done"]), toolsets=[RegistryToolset(desk.registry, user="ann")],
        output_type=[str, DeferredToolRequests],
    )  # fmt: skip


async def _asked(desk: Desk, *turns: Any) -> tuple[Any, Any]:
    agent = _agent(desk, *turns)
    return agent, await agent.run("go")


def test_deferred_call_continues_in_a_different_process_with_its_metadata() -> None:
    here, there = Desk(), Desk()

    async def main() -> None:
        _, run = await _asked(here, TO_BOB)
        agent = _agent(there, TO_BOB)
        results = run.output.build_results(approve_all=True)
        bare = await agent.run(message_history=run.all_messages(), deferred_tool_results=results)
        assert (
            isinstance(bare.output, DeferredToolRequests) and there.done == []
        )  # its question was not shown in this process
        results.metadata = run.output.metadata
        await agent.run(message_history=run.all_messages(), deferred_tool_results=results)

    asyncio.run(main())
    assert here.done == [] and there.done == [("bob", 0, "", "")]


def test_approval_of_a_deferred_call_is_used_once() -> None:
    desk = Desk()

    async def main() -> None:
        agent, run = await _asked(desk, TO_BOB)
        results = run.output.build_results(approve_all=True)
        for _ in range(2):
            last = await agent.run(message_history=run.all_messages(), deferred_tool_results=results)
        assert isinstance(last.output, DeferredToolRequests)

    asyncio.run(main())
    assert desk.done == [("bob", 0, "", "")]


def test_user_can_edit_the_arguments_of_a_deferred_call() -> None:
    desk = Desk()

    async def main() -> None:
        agent, run = await _asked(desk, TO_BOB)
        [call] = run.output.approvals
        results = DeferredToolResults(approvals={call.tool_call_id: ToolApproved(override_args={"to": "eve"})})
        assert (await agent.run(message_history=run.all_messages(), deferred_tool_results=results)).output == "done"

    asyncio.run(main())
    assert desk.done == [("eve", 0, "", "")]
    [receipt] = desk.receipts
    assert receipt.approval == ("framework, edited", "pydantic-ai", "once")


def test_stored_run_state_continues_in_this_process() -> None:
    desk = Desk()

    async def main() -> None:
        model = AgentsModel([TO_BOB, "done"])
        agent = Agent("helper", model=model, tools=[*openai_agents.tools_for(desk.registry, user="ann")])
        stored = (await Runner.run(agent, "go")).to_state().to_string()
        again = Agent("helper", model=model, tools=[*openai_agents.tools_for(desk.registry, user="ann")])
        state = await RunState.from_string(again, stored)
        [item] = state.get_interruptions()
        state.approve(item)
        assert (await Runner.run(again, state)).final_output == "done"

    asyncio.run(main())
    assert desk.done == [("bob", 0, "", "")]


def test_approval_of_a_question_of_a_different_process_runs_nothing() -> None:
    here, there = Desk(), Desk()

    async def main() -> None:
        model = AgentsModel([TO_BOB, "done"])
        agent = Agent("helper", model=model, tools=[*openai_agents.tools_for(here.registry)])
        stored = (await Runner.run(agent, "go")).to_state().to_string()
        other = Agent("helper", model=model, tools=[*openai_agents.tools_for(there.registry)])
        state = await RunState.from_string(other, stored)
        [item] = state.get_interruptions()
        state.approve(item)
        await Runner.run(other, state)
        assert "the call requires approval" in str(model.seen[-1])

    asyncio.run(main())
    assert here.done == [] and there.done == []
    assert [each.outcome for each in there.receipts] == ["approval-denied"]


@tool(effects=["external-write"])
def post(text: str) -> str:
    """Post a text."""
    return f"posted {text}"


@tool(effects=["external-write", "financial"])
def post_for_money(text: str) -> str:
    """Post a text."""
    return f"paid for {text}"


def test_always_approval_covers_only_the_shown_destinations() -> None:
    request = ApprovalRequest(
        id="1", tool="mail", digest="d", grant="g", params={"to": "ann@example.com"}, effects=(), risk="high",
        why=Decision(False, Reason.APPROVAL_REQUIRED, "flows.untrusted-destination"), user="ann", trace="", call="1",
        destinations=("to = ann@example.com",), created_ms=0, expires_ms=2**45,
    )  # fmt: skip
    other = replace(request, params={"to": "eve@evil.example"}, destinations=("to = eve@evil.example",))
    questions = QuestionsShown()
    questions.add(Question.of(request, "1"))

    assert questions.take(Question.of(request, "1"))
    assert questions.was_answered(Question.of(request, "2"))
    assert not questions.was_answered(Question.of(other, "2"))


@pytest.mark.parametrize("exchanged", [False, True])
def test_always_approval_covers_only_the_shown_tool_version(exchanged: bool) -> None:
    registry = ToolRegistry()
    registry.register(post)
    post_for_money.name = "post"

    async def main() -> None:
        model = AgentsModel([[("post", {"text": "a"})], [("post", {"text": "b"})], "done"])
        agent = Agent("helper", model=model, tools=[*openai_agents.tools_for(registry)])
        state = (await Runner.run(agent, "go")).to_state()
        [item] = state.get_interruptions()
        state.approve(item, always_approve=True)
        speak = model.get_response

        async def exchange(*args: Any, **settings: Any) -> Any:
            if exchanged and model.number == 1:
                registry.replace(post_for_money)
            return await speak(*args, **settings)

        model.get_response = exchange  # type: ignore[method-assign]
        await Runner.run(agent, state)
        told = str(model.seen[-1])
        assert "posted a" in told and ("posted b" in told) is not exchanged and "paid" not in told

    asyncio.run(main())


def test_calls_of_a_repeated_step_run_once() -> None:
    calls = [("look", {"what": "up"}), ("write_it", {"to": "ann"}), ("write_it", {"to": "bob"})]
    graph, desk = Graph(calls), Desk()
    state, rounds = graph.go(desk, {"messages": "go"}), 0
    while "__interrupt__" in state:
        rounds += 1
        asked = state["__interrupt__"][0].value
        state = graph.go(desk, Command(resume={"question": asked["question"], "approved": True}))
    assert (
        2 <= rounds <= 6
    )  # the calls of a step run concurrently, and one may receive the other's answer and pass it on
    assert sorted(map(str, desk.done)) == ["('ann', 0, '', '')", "('bob', 0, '', '')", "up"]
    assert [each.content.count("wrote") for each in state["messages"][2:5]] == [0, 1, 1]


def test_always_approval_needs_a_tool_with_a_digest() -> None:
    desk = Desk()

    async def main() -> None:
        model = AgentsModel([TO_BOB, [("write_it", {"to": "eve"})], "done"])
        agent = Agent("helper", model=model, tools=[*openai_agents.tools_for(desk.registry)])
        state = (await Runner.run(agent, "go")).to_state()
        [item] = state.get_interruptions()
        state.approve(item, always_approve=True)
        await Runner.run(agent, state)

    asyncio.run(main())
    assert desk.done == [("bob", 0, "", "")]
    assert [each.outcome for each in desk.receipts] == ["ok", "approval-denied"]
