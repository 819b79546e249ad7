"""Scripted models for the test kit of each framework. A turn is a list of tool calls, or the final text."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anthropic
import httpx2
import openai
from agents import ModelResponse, Usage
from agents.models.interface import Model
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart
from pydantic_ai.messages import ModelResponse as PydanticResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel

Turn = Sequence[tuple[str, Any]] | str
"""The calls of a turn, each with its name and arguments; or the final text."""
SEND = [("send", {"to": "bob@example.com", "text": "hi"})]


def pydantic_model(turns: Sequence[Turn], seen: list[Any] | None = None) -> FunctionModel:
    """Return a `FunctionModel` that appends the messages and tools of each request to `seen`."""

    def speak(messages: list[ModelMessage], info: AgentInfo) -> PydanticResponse:
        if seen is not None:
            seen.append((messages, info.function_tools))
        number = sum(isinstance(message, PydanticResponse) for message in messages)
        turn = turns[number]
        if isinstance(turn, str):
            return PydanticResponse([TextPart(turn)])
        return PydanticResponse(
            [ToolCallPart(name, args, tool_call_id=f"c{number}-{place}") for place, (name, args) in enumerate(turn)]
        )

    return FunctionModel(speak)


class AgentsModel(Model):
    """A `Model` of the OpenAI Agents SDK."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = iter(turns)
        self.seen: list[Any] = []
        self.tools: list[Any] = []
        self.number = 0

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *_: Any, **__: Any
    ) -> ModelResponse:
        self.seen.append(input)
        self.tools = tools
        self.number += 1
        turn = next(self.turns)
        if isinstance(turn, str):
            text = ResponseOutputText(type="output_text", text=turn, annotations=[])
            output: list[Any] = [
                ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
            ]
        else:
            output = [
                ResponseFunctionToolCall(
                    type="function_call", call_id=f"c{self.number}-{place}", name=name,
                    arguments=args if isinstance(args, str) else json.dumps(args),
                )
                for place, (name, args) in enumerate(turn)
            ]  # fmt: skip
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


class ChatModel(FakeMessagesListChatModel):
    """LangChain's fake chat model, which also takes tools."""

    bound: Any = None

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Record the tools."""
        self.bound = list(tools)
        return self


def chat_model(turns: Sequence[Turn]) -> ChatModel:
    """Return a fake LangChain chat model."""
    said = [
        AIMessage(turn)
        if isinstance(turn, str)
        else AIMessage(
            "",
            tool_calls=[
                {"id": f"c{number}-{place}", "name": name, "args": args, "type": "tool_call"}
                for place, (name, args) in enumerate(turn)
            ],
        )
        for number, turn in enumerate(turns)
    ]
    return ChatModel(responses=said)


def _anthropic_reply(turn: Turn, number: int) -> dict[str, Any]:
    content = [{"type": "text", "text": turn}] if isinstance(turn, str) else [
        {"type": "tool_use", "id": f"c{number}-{place}", "name": name, "input": args}
        for place, (name, args) in enumerate(turn)
    ]  # fmt: skip
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "a-model", "content": content,
        "stop_reason": "end_turn" if isinstance(turn, str) else "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }  # fmt: skip


def _openai_reply(turn: Turn, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
    if not isinstance(turn, str):
        message["tool_calls"] = [
            {"id": f"c{number}-{place}", "type": "function",
             "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)}}
            for place, (name, args) in enumerate(turn)
        ]  # fmt: skip
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "a-model",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }  # fmt: skip


def _chunks(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a completion in chunks: one for each letter of the text and of each call's arguments."""
    [choice] = reply["choices"]
    message = choice["message"]
    calls = message.get("tool_calls", [])
    deltas = [{"role": "assistant", "content": None}, *({"content": letter} for letter in message["content"] or "")]
    for place, call in enumerate(calls):
        deltas.append({"tool_calls": [call | {"index": place, "function": call["function"] | {"arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": place, "function": {"arguments": letter}}]}
            for letter in call["function"]["arguments"]
        ]
    common = {"id": reply["id"], "object": "chat.completion.chunk", "created": 1, "model": reply["model"]}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas] + [[end]]
    return [*(common | {"choices": each} for each in choices), common | {"choices": [], "usage": reply["usage"]}]


def _responses_reply(turn: Turn, number: int) -> dict[str, Any]:
    said = {"type": "output_text", "text": turn, "annotations": []}
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": f"r{number}", "summary": []}]
    output += [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [said]}] if (
        isinstance(turn, str)
    ) else [
        {"type": "function_call", "id": f"f{number}-{place}", "call_id": f"c{number}-{place}", "name": name,
         "arguments": args if isinstance(args, str) else json.dumps(args), "status": "completed"}
        for place, (name, args) in enumerate(turn)
    ]  # fmt: skip
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "a-model", "output": output,
        "status": "completed", "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": {
            "input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip


def _response_events(reply: dict[str, Any]) -> list[dict[str, Any]]:
    begun = reply | {"output": [], "status": "in_progress", "usage": None}
    done = [
        {"type": "response.output_item.done", "output_index": place, "item": item}
        for place, item in enumerate(reply["output"])
    ]
    events = [{"type": "response.created", "response": begun}, *done, {"type": "response.completed", "response": reply}]
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


class _Server:
    """Answers requests by a script, and records them."""

    def __init__(self, turns: Sequence[Turn], reply: Any) -> None:
        self.turns = iter(enumerate(turns))
        self.reply = reply
        self.requests: list[dict[str, Any]] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(json.loads(request.content))
        number, turn = next(self.turns)
        reply = self.reply(turn, number)
        if not self.requests[-1].get("stream"):
            return httpx2.Response(200, json=reply)
        events = _response_events(reply) if reply["object"] == "response" else _chunks(reply)
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=f"{body}data: [DONE]\n\n")


def _before(client: Any, http: Any, reply: Any, turns: Sequence[Turn]) -> tuple[Any, list[dict[str, Any]]]:
    server = _Server(turns, reply)
    return client(api_key="unused", http_client=http(transport=httpx2.MockTransport(server))), server.requests


def anthropic_client(turns: Sequence[Turn]) -> tuple[anthropic.Anthropic, list[dict[str, Any]]]:
    """Return an Anthropic client of a scripted model, and the list of its requests."""
    return _before(anthropic.Anthropic, httpx2.Client, _anthropic_reply, turns)


def async_anthropic_client(turns: Sequence[Turn]) -> tuple[anthropic.AsyncAnthropic, list[dict[str, Any]]]:
    """Return an asynchronous Anthropic client of a scripted model."""
    return _before(anthropic.AsyncAnthropic, httpx2.AsyncClient, _anthropic_reply, turns)


def openai_client(turns: Sequence[Turn]) -> tuple[openai.OpenAI, list[dict[str, Any]]]:
    """Return an OpenAI client of a scripted model, and the list of its requests."""
    return _before(openai.OpenAI, httpx2.Client, _openai_reply, turns)


def async_openai_client(turns: Sequence[Turn]) -> tuple[openai.AsyncOpenAI, list[dict[str, Any]]]:
    """Return an asynchronous OpenAI client of a scripted model."""
    return _before(openai.AsyncOpenAI, httpx2.AsyncClient, _openai_reply, turns)


def openai_responses_client(turns: Sequence[Turn]) -> tuple[openai.OpenAI, list[dict[str, Any]]]:
    """Return an OpenAI client of a scripted model of the Responses API."""
    return _before(openai.OpenAI, httpx2.Client, _responses_reply, turns)


def async_openai_responses_client(turns: Sequence[Turn]) -> tuple[openai.AsyncOpenAI, list[dict[str, Any]]]:
    """Return an asynchronous OpenAI client of a scripted model of the Responses API."""
    return _before(openai.AsyncOpenAI, httpx2.AsyncClient, _responses_reply, turns)
