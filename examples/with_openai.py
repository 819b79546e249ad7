"""OpenAI's client without a framework: a chat whose model calls a registry's tools."""

from typing import Any

from openai import OpenAI
from wasmrt.adapters.openai import run

from wasmrt import CallbackApprover, ToolRegistry, tool


@tool(effects=["external-write"])
def send(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {text} to {to}"


def answer(client: OpenAI, prompt: str, approver: CallbackApprover) -> tuple[str | None, dict[str, Any]]:
    """Run the tool loop until the model stops calling tools; return its reply and the token counts."""
    registry = ToolRegistry(approver=approver)
    registry.register(send)
    messages = [{"role": "user", "content": prompt}]
    held = run(client, registry, messages, user="ann", trace="conversation-1", model="a-model")
    return held.reply.choices[0].message.content, held.tokens
