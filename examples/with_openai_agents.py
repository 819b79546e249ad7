"""OpenAI Agents SDK: a call that requires approval interrupts the run, which is resumed with the answer."""

from collections.abc import Callable
from typing import Any

from agents import Agent, Runner
from agents.models.interface import Model
from wasmrt.adapters.openai_agents import tools_for

from wasmrt import ToolRegistry, tool


@tool(effects=["external-write"])
def send(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {text} to {to}"


async def answer(model: Model, prompt: str, person: Callable[[str, str | None], bool]) -> Any:
    """Run the agent, and request an approval for each call that requires one."""
    registry = ToolRegistry()
    registry.register(send)
    agent = Agent("helper", model=model, tools=[*tools_for(registry, user="ann")])
    result = await Runner.run(agent, prompt)
    while result.interruptions:
        state = result.to_state()
        for each in result.interruptions:
            (state.approve if person(each.name or "", each.arguments) else state.reject)(each)
        result = await Runner.run(agent, state)
    return result.final_output
