"""LangChain: a model that calls a registry's tools. Approvals are requested from the registry's approver."""

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from wasmrt.adapters.langchain import tools_for

from wasmrt import CallbackApprover, ToolRegistry, tool


@tool(effects=["external-write"])
def send(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {text} to {to}"


def answer(model: BaseChatModel, prompt: str, approver: CallbackApprover) -> list[BaseMessage]:
    """Run the tool loop until the model stops calling tools, and return the conversation."""
    registry = ToolRegistry(approver=approver)
    registry.register(send)
    tools = {each.name: each for each in tools_for(registry, user="ann")}
    bound = model.bind_tools(list(tools.values()))
    messages: list[BaseMessage] = [HumanMessage(prompt)]
    messages.append(bound.invoke(messages))
    while calls := messages[-1].tool_calls:
        messages += [tools[call["name"]].invoke(call) for call in calls]
        messages.append(bound.invoke(messages))
    return messages
