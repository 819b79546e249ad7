"""Anthropic's client without a framework: a conversation loop in which the model calls a registry's tools.

    reply = run(Anthropic(), registry, [{"role": "user", "content": "hello"}], model="claude", max_tokens=1000).reply

The registry's approver decides about calls that require approval; without an answer the model receives an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from wasmrt.agent.registry import SchemaTool, ToolAnswer, ToolCall
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.adapters._bridge import ToolDeclaration, missing_framework_error
from wasmrt.interop.adapters._loop import Provider, Turn, function_from

try:
    from anthropic import Anthropic, AsyncAnthropic
    from anthropic.types import Message
except ImportError as error:
    raise missing_framework_error("anthropic>=1") from error


def _read(reply: Message) -> Turn:
    content = [block.model_dump(mode="json", exclude_unset=True) for block in reply.content]
    calls = [ToolCall(each["id"], each["name"], each["input"]) for each in content if each["type"] == "tool_use"]
    return Turn([{"role": "assistant", "content": content}], calls, reply.usage.model_dump())


def _list_results(answers: list[ToolAnswer]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [answer.message("anthropic") for answer in answers]}]


_MESSAGES: Provider[Anthropic, AsyncAnthropic, Message] = Provider(
    lambda view: view.definitions("anthropic"), lambda client: client.messages.create, _read, _list_results
)
run, arun = _MESSAGES.run, _MESSAGES.arun


def tool_from(
    definition: Mapping[str, Any], function: Callable[..., Any], **declared: Unpack[ToolDeclaration]
) -> SchemaTool:
    """Return a function and its entry of `tools` as a tool for a registry; without `effects` it has all effects.

    The function is called with the params as keyword arguments.

    Raises:
        ConfigurationError: the definition does not have an `input_schema`.
    """
    if not isinstance(definition, Mapping) or "input_schema" not in definition:
        hint = "pass a definition with name and input_schema"
        raise ConfigurationError(f"expected a tool definition, got {definition!r:.80}", hint=hint)
    schema = definition["input_schema"]
    return function_from(definition.get("name"), definition.get("description"), schema, function, **declared)
