"""Anthropic's tool runner with a registry's tools. Approvals are requested from its approver."""

from anthropic import Anthropic
from wasmrt.adapters.anthropic_runner import tools_for

from wasmrt import CallbackApprover, ToolRegistry, tool


@tool(effects=["external-write"])
def send(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {text} to {to}"


def answer(client: Anthropic, prompt: str, approver: CallbackApprover) -> str:
    """Run the tool loop until the model stops calling tools, and return its reply."""
    registry = ToolRegistry(approver=approver)
    registry.register(send)
    runner = client.beta.messages.tool_runner(
        model="a-model", max_tokens=1000, tools=tools_for(registry, user="ann"),
        messages=[{"role": "user", "content": prompt}],
    )  # fmt: skip
    return "".join(block.text for block in runner.until_done().content if block.type == "text")
