"""Anthropic's client without a framework: a conversation whose model calls a registry's tools."""

from typing import Any

from anthropic import Anthropic
from wasmrt.adapters.anthropic import run

from wasmrt import CallbackApprover, ToolRegistry, tool


@tool(effects=["external-write"])
def send(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {text} to {to}"


def answer(client: Anthropic, prompt: str, approver: CallbackApprover) -> tuple[str, dict[str, Any]]:
    """Run the tool loop until the model stops calling tools; return its reply and the token counts."""
    registry = ToolRegistry(approver=approver)
    registry.register(send)
    messages = [{"role": "user", "content": prompt}]
    held = run(client, registry, messages, user="ann", trace="conversation-1", model="a-model", max_tokens=1000)
    return "".join(block.text for block in held.reply.content if block.type == "text"), held.tokens
