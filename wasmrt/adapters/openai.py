"""OpenAI's client without a framework: the loop of a chat whose model calls a registry's tools.

    said = run(OpenAI(), registry, [{"role": "user", "content": "hello"}], model="gpt-5").reply

A call that needs a person asks the registry's approver; without an answer the model is told so, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from wasmrt.adapters._bridge import Declared, missing
from wasmrt.adapters._loop import Provider, Turn, function_from
from wasmrt.errors import ConfigurationError
from wasmrt.tools import SchemaTool, ToolAnswer, ToolCall

try:
    from openai import AsyncOpenAI, OpenAI
    from openai.types.chat import ChatCompletion
except ImportError as error:
    raise missing("openai>=2") from error


def _read(reply: ChatCompletion) -> Turn:
    said = reply.choices[0].message
    called = [call.model_dump(exclude_unset=True) for call in said.tool_calls or ()]
    message: dict[str, Any] = {"role": "assistant", "content": said.content}
    tokens = {} if reply.usage is None else reply.usage.model_dump()
    return Turn(message | ({"tool_calls": called} if called else {}), [_call(each) for each in called], tokens)


def _call(call: Mapping[str, Any]) -> ToolCall:
    """Return a call; one of another kind than a function's is a call of a tool that is not there."""
    function = call.get("function") or call.get(str(call.get("type"))) or {}
    return ToolCall(call["id"], function.get("name") or "", function.get("arguments", "{}"))


def _results(answers: list[ToolAnswer]) -> list[dict[str, Any]]:
    return [answer.message("openai") for answer in answers]


_CHAT: Provider[OpenAI, AsyncOpenAI, ChatCompletion] = Provider(
    "openai", lambda client: client.chat.completions.create, _read, _results
)
run, arun = _CHAT.run, _CHAT.arun


def tool_from(definition: Mapping[str, Any], function: Callable[..., Any], **declared: Unpack[Declared]) -> SchemaTool:
    """Return a function and its entry of `tools`, of chats or of responses, as a tool for a registry.

    Without `effects` it is taken to have every one. The function is called with the params as keyword arguments.

    Raises:
        ConfigurationError: the definition is no function's.
    """
    if not isinstance(definition, Mapping) or definition.get("type") != "function":
        raise ConfigurationError("this is no function's definition", hint='it has "type": "function"')
    inner = definition.get("function", definition)
    found = inner if isinstance(inner, Mapping) else {}
    schema = found.get("parameters") or {}
    return function_from(found.get("name"), found.get("description"), schema, function, **declared)
