"""Serve the tools that the official conformance suite calls: `python -m tests.interop.mcp_server.conformance`.

Images, errors and progress come from functions in a registry. The suite also requests elicitation that is not about
approvals; these requests are made here.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import Any

from wasmrt import ToolContext, ToolRegistry, tool
from wasmrt.agent.approvals import params_digest
from wasmrt.interop.mcp.server.http import PATH, Entrance, UserTokens, serve_http
from wasmrt.interop.mcp.server.protocol import (
    MISSING_CAPABILITY,
    Caller,
    Channel,
    RefusedMessages,
    Request,
    RpcError,
    Server,
)
from wasmrt.interop.mcp.server.tools import ServedTools
from wasmrt.interop.mcp.server.tools._state import Sealer, State, new_nonce

_PICTURE = {"type": "image", "data": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), "mimeType": "image/png"}
_SOUND = {"type": "audio", "data": base64.b64encode(b"RIFF\0\0\0\0WAVE").decode(), "mimeType": "audio/wav"}
_RESOURCE = {"type": "resource", "resource": {"uri": "test://embedded", "mimeType": "text/plain", "text": "embedded"}}


@tool(effects=[])
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool(effects=[])
def test_image_content() -> Any:
    """Return an image."""
    return {"content": [_PICTURE]}


@tool(effects=[])
def test_audio_content() -> Any:
    """Return audio."""
    return {"content": [_SOUND]}


@tool(effects=[])
def test_embedded_resource() -> Any:
    """Return a resource."""
    return {"content": [_RESOURCE]}


@tool(effects=[])
def test_multiple_content_types() -> Any:
    """Return a text, an image and a resource."""
    return {"content": [{"type": "text", "text": "Multiple content types test:"}, _PICTURE, _RESOURCE]}


@tool(effects=[])
def test_tool_with_progress(context: ToolContext) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        if context.on_progress is not None:
            context.on_progress(done, 100, f"{done} of 100")
    return "done"


@tool(effects=[])
def test_error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@tool(effects=[])
def test_logging_tool() -> str:
    """Log nothing."""
    return "nothing was logged"


FUNCTIONS = (
    test_simple_text, test_image_content, test_audio_content, test_embedded_resource, test_multiple_content_types,
    test_tool_with_progress, test_error_handling, test_logging_tool,
)  # fmt: skip


def _form(message: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"mode": "form", "message": message, "requestedSchema": schema}


_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
LEGACY_FORMS = {
    "test_elicitation": _form("Tell something", response={"type": "string"}),
    "test_elicitation_sep1034_defaults": _form(
        "Defaults",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    ),
    "test_elicitation_sep1330_enums": _form(
        "Choices",
        untitledSingle={"type": "string", "enum": _OPTIONS},
        titledSingle={"type": "string", "oneOf": _TITLED},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        titledMulti={"type": "array", "items": {"anyOf": _TITLED}},
    ),
}
_NAME = ("user_name", _form("What is your name?", name={"type": "string"}))
_PREFIX = "test_input_required_result_"
ROUNDS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    f"{_PREFIX}elicitation": [_NAME],
    f"{_PREFIX}request_state": [("confirm", _form("Please confirm", ok={"type": "boolean"}))],
    f"{_PREFIX}multi_round": [
        ("step1", _form("Step 1: What is your name?", name={"type": "string"})),
        ("step2", _form("Step 2: What is your favorite color?", color={"type": "string"})),
    ],
    f"{_PREFIX}tampered_state": [_NAME],
    "test_streaming_elicitation": [_NAME],
}
_OTHERS = (*LEGACY_FORMS, *ROUNDS, "test_missing_capability", "test_trigger_tool_change")


class Fixtures:
    """The tools of the suite: those of a registry, and those that request elicitation."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._registry = ToolRegistry()
        for each in FUNCTIONS:
            self._registry.register(each)
        for name in _OTHERS:
            self._registry.register(_placeholder(name))
        self._served = ServedTools(self._registry)
        self._sealer = Sealer()

    def page(self, cursor: object, version: str) -> dict[str, Any]:
        return self._served.page(cursor, version)

    def refused(self, messages: RefusedMessages) -> None:
        self._served.refused(messages)

    async def call(self, request: Request, caller: Caller, channel: Channel) -> dict[str, Any]:
        name = request.params.get("name")
        if name in LEGACY_FORMS and not caller.modern:
            said = await channel.elicit(LEGACY_FORMS[name]) or {}
            return _text(f"action={said.get('action')}, content={json.dumps(said.get('content'))}")
        if name in ROUNDS and caller.modern:
            return self._round(name, request)
        if name == "test_missing_capability":
            raise RpcError(MISSING_CAPABILITY, "sampling is needed", {"requiredCapabilities": {"sampling": {}}})
        if name == "test_trigger_tool_change":
            self._server.tools_changed()
        return await self._served.call(request, caller, channel)

    def _round(self, name: str, request: Request) -> dict[str, Any]:
        digest, rounds, reached = params_digest(request.params.get("arguments", {})), ROUNDS[name], 0
        responses = request.params.get("inputResponses") or {}
        if (given := request.params.get("requestState")) is not None:
            reached = int(self._sealer.open(given, tool=name, params=digest, user="local").request)
        key = rounds[reached][0]
        answer = responses.get(key) if isinstance(responses, dict) else None
        content = answer.get("content") if isinstance(answer, dict) else None
        if isinstance(content, dict) and rounds[reached][1]["requestedSchema"]["required"][0] in content:
            reached += 1
        if reached == len(rounds):
            return _text(f"state-ok: Hello, {', '.join(map(str, content.values()))}!")
        key, form = rounds[reached]
        state = State(str(reached), new_nonce(), name, digest, "local", round((time.time() + 600) * 1000))
        asked = {key: {"method": "elicitation/create", "params": form}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": self._sealer.seal(state)}


class Anybody(Entrance):
    """Treat every request as one user's: the suite sends no token."""

    def __init__(self) -> None:
        super().__init__(UserTokens(Path("/nonexistent")))

    async def user_of(self, web: Any) -> str:
        return "local"


def _placeholder(name: str) -> Any:
    def nothing(message: str = "") -> str:
        return "nothing"

    return tool(name=name, description="Ask the client.", effects=[])(nothing)


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False}


async def main() -> None:
    """Serve until the process is killed; print the address first."""
    server = Server(version="1")
    server.open(Fixtures(server))
    print_url = lambda url: print(f"{url}{PATH}", flush=True)  # noqa: E731
    await serve_http(server, Anybody(), host="127.0.0.1", port=0, ended=asyncio.Event(), started=print_url)


if __name__ == "__main__":
    asyncio.run(main())
