"""LangGraph: a call that requires approval interrupts the graph, which is resumed with the answer."""

from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command
from wasmrt.adapters.langgraph import tools_for

from wasmrt import ToolRegistry


def answer(registry: ToolRegistry, model: BaseChatModel, prompt: str, person: Callable[[Any], bool]) -> list[Any]:
    """Run the graph, request approvals, and return the conversation."""
    tools = tools_for(registry, user="ann")
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": model.bind_tools(tools).invoke(state["messages"])})
    graph.add_node("tools", ToolNode(tools))
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge(START, "model").add_edge("tools", "model")
    app, thread = graph.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    state = app.invoke({"messages": prompt}, thread)
    while asked := state.get("__interrupt__"):
        said = {each.id: {"question": each.value["question"], "approved": person(each.value)} for each in asked}
        state = app.invoke(Command(resume=said), thread)
    return state["messages"]
