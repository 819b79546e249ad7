"""pydantic-ai: a call that requires approval ends the run, which is resumed with the answer."""

from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models import Model
from wasmrt.adapters.pydantic_ai import RegistryToolset

from wasmrt import ToolRegistry, tool


@tool(effects=["external-write"])
def send(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {text} to {to}"


async def answer(model: Model, prompt: str, person: Callable[[dict[str, Any]], bool]) -> str:
    """Run the agent, and request an approval for each call that requires one."""
    registry = ToolRegistry()
    registry.register(send)
    agent = Agent(model, toolsets=[RegistryToolset(registry, user="ann")], output_type=[str, DeferredToolRequests])
    run = await agent.run(prompt)
    while isinstance(asked := run.output, DeferredToolRequests):
        said = {call.tool_call_id: person(asked.metadata[call.tool_call_id]) for call in asked.approvals}
        results = asked.build_results(approvals=said, metadata=asked.metadata)
        run = await agent.run(message_history=run.all_messages(), deferred_tool_results=results)
    return run.output
