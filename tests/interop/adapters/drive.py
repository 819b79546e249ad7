"""Run one scripted conversation in each framework, and collect the results that the model received."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from agents import Agent, Runner, ToolCallOutputItem
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import RetryPromptPart, ToolReturnPart
from wasmrt.adapters import anthropic, anthropic_runner, langchain, langgraph, openai, openai_agents
from wasmrt.adapters.pydantic_ai import RegistryToolset

from wasmrt import ToolView

from .models import (
    AgentsModel,
    Turn,
    async_anthropic_client,
    async_openai_client,
    async_openai_responses_client,
    chat_model,
    pydantic_model,
)

Says = Callable[[Any], bool]


class Received(NamedTuple):
    """The results of the calls in order, as the model and the program received them."""

    results: list[str]
    failed: list[bool | None]
    """None if the framework's results have no failure flag."""
    data: list[Any]
    """The metadata of each call that the framework provides to the program; None if it provides none."""
    declared: dict[str, Any]
    """The schemas of the tools by name."""


async def with_pydantic_ai(view: ToolView, turns: Sequence[Turn], says: Says) -> Received:
    seen: list[Any] = []
    agent = PydanticAgent(
        pydantic_model(turns, seen),
        toolsets=[RegistryToolset(view, user="ann", trace="t")],
        output_type=[str, DeferredToolRequests],
    )
    run = await agent.run("go")
    while isinstance(asked := run.output, DeferredToolRequests):
        said = {call.tool_call_id: says(asked.metadata[call.tool_call_id]) for call in asked.approvals}
        results = asked.build_results(approvals=said)
        run = await agent.run(message_history=run.all_messages(), deferred_tool_results=results)
    parts = [part for message in run.all_messages() for part in message.parts]
    told = [part for part in parts if isinstance(part, (ToolReturnPart, RetryPromptPart))]
    return Received(
        [str(part.content) for part in told],
        [isinstance(part, RetryPromptPart) or part.outcome != "success" for part in told],
        [getattr(part, "metadata", None) for part in told],
        {each.name: each.parameters_json_schema for each in seen[0][1]},
    )


async def with_openai_agents(view: ToolView, turns: Sequence[Turn], says: Says) -> Received:
    model = AgentsModel(turns)
    agent = Agent("helper", model=model, tools=[*openai_agents.tools_for(view, user="ann", trace="t")])
    result = await Runner.run(agent, "go")
    while result.interruptions:
        state = result.to_state()
        for each in result.interruptions:
            (state.approve if says(each) else state.reject)(each)
        result = await Runner.run(agent, state)
    told = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    return Received(
        [str(item.output) for item in told],
        [None] * len(told),
        [item.custom_data for item in told],
        {each.name: each.params_json_schema for each in model.tools},
    )


async def with_langchain(view: ToolView, turns: Sequence[Turn], says: Says) -> Received:
    tools = {each.name: each for each in langchain.tools_for(view, user="ann", trace="t")}
    model = chat_model(turns).bind_tools(list(tools.values()))
    messages: list[Any] = [HumanMessage("go")]
    messages.append(await model.ainvoke(messages))
    while calls := messages[-1].tool_calls:
        messages += [await tools[call["name"]].ainvoke(call) for call in calls]
        messages.append(await model.ainvoke(messages))
    return _of_messages(messages, tools)


async def with_langgraph(view: ToolView, turns: Sequence[Turn], says: Says) -> Received:
    tools = langgraph.tools_for(view, user="ann", trace="t")
    model = chat_model(turns).bind_tools(tools)

    async def speak(state: MessagesState) -> Any:
        return {"messages": await model.ainvoke(state["messages"])}

    graph = StateGraph(MessagesState)
    graph.add_node("model", speak)
    graph.add_node("tools", ToolNode(tools))
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge(START, "model").add_edge("tools", "model")
    app, thread = graph.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    state = await app.ainvoke({"messages": "go"}, thread)
    while asked := state.get("__interrupt__"):
        said = {each.id: {"question": each.value["question"], "approved": says(each.value)} for each in asked}
        state = await app.ainvoke(Command(resume=said), thread)
    return _of_messages(state["messages"], {each.name: each for each in tools})


def _of_messages(messages: list[Any], tools: dict[str, Any]) -> Received:
    told = [message for message in messages if isinstance(message, ToolMessage)]
    return Received(
        [str(message.content) for message in told],
        [message.status == "error" for message in told],
        [message.artifact for message in told],
        {name: each.args_schema for name, each in tools.items()},
    )


async def with_anthropic_runner(view: ToolView, turns: Sequence[Turn], says: Says) -> Received:
    client, requests = async_anthropic_client(turns)
    async with client:
        tools = anthropic_runner.async_tools_for(view, user="ann", trace="t")
        runner = client.beta.messages.tool_runner(
            model="m", max_tokens=9, tools=tools, messages=[{"role": "user", "content": "go"}]
        )
        await runner.until_done()
    return _of_anthropic(requests)


async def with_anthropic(view: ToolView, turns: Sequence[Turn], says: Says) -> Received:
    client, requests = async_anthropic_client(turns)
    async with client:
        held = await anthropic.arun(
            client, view, [{"role": "user", "content": "go"}], user="ann", trace="t", model="m", max_tokens=9
        )
    return _of_anthropic(requests)._replace(data=[_used(answer) for answer in held.answers])


def _of_anthropic(requests: list[dict[str, Any]]) -> Received:
    by_id = {  # the runner sends only new messages
        block["tool_use_id"]: block
        for request in requests
        for message in request["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
    }
    blocks = list(by_id.values())
    return Received(
        [block["content"] if isinstance(block["content"], str) else block["content"][0]["text"] for block in blocks],
        [block.get("is_error", False) for block in blocks],
        [None] * len(blocks),
        {each["name"]: each["input_schema"] for each in requests[0]["tools"]},
    )


async def with_openai(view: ToolView, turns: Sequence[Turn], says: Says) -> Received:
    client, requests = async_openai_client(turns)
    async with client:
        held = await openai.arun(client, view, [{"role": "user", "content": "go"}], user="ann", trace="t", model="m")
    told = [message for message in requests[-1]["messages"] if message["role"] == "tool"]
    return Received(
        [message["content"] for message in told],
        [None] * len(told),
        [_used(answer) for answer in held.answers],
        {each["function"]["name"]: each["function"]["parameters"] for each in requests[0]["tools"]},
    )


async def with_openai_responses(view: ToolView, turns: Sequence[Turn], says: Says) -> Received:
    client, requests = async_openai_responses_client(turns)
    async with client:
        ask = [{"role": "user", "content": "go"}]
        held = await openai.arun_responses(client, view, ask, user="ann", trace="t", model="m")
    told = [item for item in requests[-1]["input"] if item.get("type") == "function_call_output"]
    return Received(
        [item["output"] for item in told],
        [None] * len(told),
        [_used(answer) for answer in held.answers],
        {each["name"]: each["parameters"] for each in requests[0]["tools"]},
    )


def _used(answer: Any) -> dict[str, Any]:
    done = answer.output or answer.error
    return {"usage": {} if done.usage is None else done.usage.as_dict(), "outcome": "ok" if answer.ok else done.code}


Drive = Callable[[ToolView, Sequence[Turn], Says], Awaitable[Received]]
ASKING: dict[str, Drive] = {
    "pydantic-ai": with_pydantic_ai, "openai-agents": with_openai_agents, "langgraph": with_langgraph,
}  # fmt: skip
"""Frameworks that request approval from their own users."""
PLAIN: dict[str, Drive] = {
    "langchain": with_langchain, "anthropic-runner": with_anthropic_runner, "anthropic": with_anthropic,
    "openai": with_openai, "openai-responses": with_openai_responses,
}  # fmt: skip
"""Frameworks in which the registry's approver decides."""
ALL = ASKING | PLAIN
