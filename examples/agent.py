"""The tool system of an agent: components, functions and a plugin under one policy, for any model that calls tools."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wasmrt import (
    CallbackApprover,
    ToolPolicy,
    ToolRegistry,
    ToolSource,
    WasmRuntimeConfig,
    WasmToolRuntime,
    load_plugins,
    tool,
)
from wasmrt.agent.policy import ExternalFilter


def answer(model: Callable[..., list[dict[str, Any]]], folder: Path, ask: Callable[..., bool]) -> list[dict[str, Any]]:
    """Run the tool loop until the model stops calling tools, and return the conversation."""
    notes: dict[str, str] = {}

    @tool(effects=["read-filesystem"])
    def read_note(name: str) -> str:
        """Read a note by its name."""
        return notes.get(name, "there is no such note")

    @tool(effects=["write-filesystem"])
    def write_note(name: str, text: str) -> str:
        """Write a note."""
        notes[name] = text
        return f"wrote {len(text)} characters"

    policy = ToolPolicy(filter=ExternalFilter(allow_external=True, external_allow_list=("shout",)))
    with WasmToolRuntime(WasmRuntimeConfig(audit=folder / "receipts")) as runtime:
        tools = ToolRegistry(runtime, policy=policy, approver=CallbackApprover(ask))
        for name in ("echo", "time", "json"):
            tools.register(runtime.prepare_installed(name), builtin=True)
        for function in (read_note, write_note):
            tools.register(function)
        with load_plugins(folder / "plugins", unsafe_native_plugins=True) as plugins:
            tools.register(plugins["shout"], source=ToolSource.PLUGIN)
            messages: list[dict[str, Any]] = []
            while calls := model(messages, tools.definitions("openai")):
                messages += [each.message() for each in tools.execute_many(calls, trace="conversation-1")]
            return messages
