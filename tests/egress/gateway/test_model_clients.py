"""The OpenAI and Anthropic clients through the transports, against a server with their protocol."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from wasmrt.capabilities import CredentialLocation, CredentialMapping

from .clients import SECRET, bearer, both_families, guarded, guarded_async
from .test_streaming import HEAD, chunk
from .world import HOST, MakeWorld, World

WORDS = ("Otters ", "hold ", "hands.")
JSON = (("Content-Type", "application/json"),)


def completion(**choice: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk" if "delta" in choice else "chat.completion",
        "created": 1,
        "model": "a-model",
        "choices": [{"index": 0, "finish_reason": None if "delta" in choice else "stop"} | choice],
    }


def openai_server(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    assert (request.method, request.target) == ("POST", "/v1/chat/completions")
    if not json.loads(request.body).get("stream"):
        message = {"role": "assistant", "content": "".join(WORDS)}
        return http_response(json.dumps(completion(message=message)).encode(), headers=JSON)
    connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    for word in WORDS:
        connection.send(chunk(f"data: {json.dumps(completion(delta={'content': word}))}\n\n".encode()))
    return chunk(b"data: [DONE]\n\n") + chunk(b"")


def anthropic_server(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    assert (request.method, request.target) == ("POST", "/v1/messages")
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "a-model",
        "content": [{"type": "text", "text": "".join(WORDS)}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 3},
    }
    if not json.loads(request.body).get("stream"):
        return http_response(json.dumps(message).encode(), headers=JSON)
    text = {"type": "text", "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"content": []}},
        {"type": "content_block_start", "index": 0, "content_block": text},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in WORDS),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    for event in events:
        connection.send(chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()))
    return chunk(b"")


def api_key() -> CredentialMapping:
    place = CredentialLocation.header("X-Api-Key")
    return CredentialMapping(secret_name="token", location=place, host_patterns=(HOST,))


ASKED: list[Any] = [{"role": "user", "content": "otters?"}]


def ask_openai(client: openai.OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(model="a-model", messages=ASKED, **more)


def ask_anthropic(client: anthropic.Anthropic, **more: Any) -> Any:
    return client.messages.create(model="a-model", max_tokens=10, messages=ASKED, **more)


def openai_client(w: World, family: Any, *credentials: CredentialMapping, **http: Any) -> openai.OpenAI:
    client = family.Client(transport=guarded(w, *credentials, **http))
    return openai.OpenAI(base_url=w.url("/v1"), api_key="unused", http_client=client)


def anthropic_client(w: World, *credentials: CredentialMapping, **http: Any) -> anthropic.Anthropic:
    client = httpx2.Client(transport=guarded(w, *credentials, **http))
    return anthropic.Anthropic(base_url=w.url(""), api_key="unused", http_client=client)


@both_families
def test_openai_gets_a_response_with_the_capabilitys_key(world: MakeWorld, family: Any) -> None:
    w = world(openai_server)
    with openai_client(w, family, bearer()) as client:
        assert ask_openai(client).choices[0].message.content == "".join(WORDS)
        streamed = [piece.choices[0].delta.content for piece in ask_openai(client, stream=True)]
    assert streamed == list(WORDS)
    assert {request.header("Authorization") for request in w.server.requests} == {f"Bearer {SECRET}"}
    assert w.server.connections == 1


@both_families
def test_openai_reports_a_denial_at_once_with_its_reason(world: MakeWorld, family: Any) -> None:
    w = world(openai_server)
    with openai_client(w, family, hosts=("elsewhere.example.com",)) as client:
        with pytest.raises(openai.PermissionDeniedError) as caught:
            ask_openai(client)
        assert caught.value.code == "host-not-allowed" and "add to http.allowlist" in str(caught.value)
    assert w.server.connections == 0


def test_anthropic_gets_a_response_with_the_capabilitys_key(world: MakeWorld) -> None:
    w = world(anthropic_server)
    with anthropic_client(w, api_key()) as client:
        assert ask_anthropic(client).content[0].text == "".join(WORDS)
        with client.messages.stream(model="a-model", max_tokens=10, messages=ASKED) as stream:
            assert list(stream.text_stream) == list(WORDS)
    assert {request.header("X-Api-Key") for request in w.server.requests} == {SECRET}


def test_anthropic_reports_a_denial_at_once_with_its_reason(world: MakeWorld) -> None:
    w = world(anthropic_server)
    with (
        anthropic_client(w, hosts=("elsewhere.example.com",)) as client,
        pytest.raises(anthropic.PermissionDeniedError, match=r"add to http\.allowlist"),
    ):
        ask_anthropic(client)
    assert w.server.connections == 0


@both_families
def test_an_asynchronous_openai_client_can_stream(world: MakeWorld, family: Any) -> None:
    w = world(openai_server)

    async def main() -> None:
        http = family.AsyncClient(transport=guarded_async(w, bearer()))
        async with openai.AsyncOpenAI(base_url=w.url("/v1"), api_key="unused", http_client=http) as client:
            stream = await client.chat.completions.create(model="a-model", messages=ASKED, stream=True)
            assert [piece.choices[0].delta.content async for piece in stream] == list(WORDS)

    asyncio.run(main())


def test_an_asynchronous_anthropic_client_can_stream(world: MakeWorld) -> None:
    w = world(anthropic_server)

    async def main() -> None:
        http = httpx2.AsyncClient(transport=guarded_async(w, api_key()))
        async with (
            anthropic.AsyncAnthropic(base_url=w.url(""), api_key="unused", http_client=http) as client,
            client.messages.stream(model="a-model", max_tokens=10, messages=ASKED) as stream,
        ):
            assert [text async for text in stream.text_stream] == list(WORDS)

    asyncio.run(main())


def test_a_timeout_is_the_clients_own_exception_and_is_retried(world: MakeWorld) -> None:
    def silent(request: ReceivedRequest, connection: ServerConnection) -> None:
        connection.closing.wait(30)

    w = world(silent)
    http = httpx.Client(transport=guarded(w))
    with (
        openai.OpenAI(base_url=w.url("/v1"), api_key="unused", http_client=http, timeout=0.2, max_retries=1) as client,
        pytest.raises(openai.APITimeoutError),
    ):
        ask_openai(client)
    assert len(w.server.requests) == 2
