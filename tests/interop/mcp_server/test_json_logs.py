"""Tests of `wasmrt serve --log-format json` as a process."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_server.processes import lines, served, wasmrt
from tests.interop.mcp_server.world import META
from wasmrt import ToolRegistry, tool
from wasmrt.core.errors import InvalidParametersError, UnknownToolError
from wasmrt.interop.mcp.server.http import UserTokens

_PRIVATE = "not-a-real-" + "value-4711"


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": META}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.ci("slow")
def test_each_call_and_message_is_one_json_object_without_content(home: Path) -> None:
    good, bad, unknown = (
        call(1, "echo", message=_PRIVATE), call(2, "echo", wrong=_PRIVATE), call(3, f"tool-{_PRIVATE}")
    )  # fmt: skip
    sent = lines(good, bad, unknown, {"id": _PRIVATE})
    done = wasmrt("serve", "--log-format", "json", stdin=sent)
    assert _PRIVATE.encode() in done.stdout and _PRIVATE.encode() not in done.stderr
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert all(datetime.fromisoformat(each["time"]).tzinfo and each["level"] == "info" for each in events)
    assert "to offer them, pass --manage" in next(each["message"] for each in events if each["event"] == "message")
    calls = {each.get("error", ""): each for each in events if each["event"] == "call"}
    assert calls[""].keys() == {"time", "level", "event", "tool", "call_id", "outcome", "seconds"}
    assert calls[""]["tool"] == calls["invalid-parameters"]["tool"] == "echo"
    assert "tool" not in calls["unknown-tool"] and calls["unknown-tool"]["outcome"] == "failed"
    assert len({each["call_id"] for each in calls.values()}) == 3


@pytest.mark.ci("slow")
def test_json_logs_of_an_http_server_contain_neither_its_token_nor_the_link_to_the_approvals(home: Path) -> None:
    with served("--log-format", "json") as (url, said):
        assert url.startswith("http://127.0.0.1:")
    messages = [json.loads(line)["message"] for line in said]
    assert not any("opens once" in message or "shown only once" in message for message in messages)
    assert "wasmrt serve --new-token USER" in messages[-1]
    assert not UserTokens(home / "data/mcp-tokens.json").has("local"), "a token that was not shown is of no use"


@pytest.mark.ci("slow")
def test_an_error_that_ends_the_server_is_an_event_with_its_level(home: Path) -> None:
    done = wasmrt("serve", "--log-format", "json", "--preset", "nothing", code=2)
    [error] = [each for each in map(json.loads, done.stderr.splitlines()) if each["level"] == "error"]
    assert error["message"] == "error: unknown preset: 'nothing'"


def test_calls_of_a_registry_are_logged_with_names_and_codes_only(caplog: pytest.LogCaptureFixture) -> None:
    @tool(effects=[])
    def shout(text: str) -> str:
        """Return the text in capital letters."""
        return text.upper()

    with caplog.at_level(logging.INFO, "wasmrt.calls"), ToolRegistry() as registry:
        registry.register(shout)
        registry.execute("shout", {"text": _PRIVATE})
        with pytest.raises(InvalidParametersError):
            registry.execute("shout", {"text": 7, _PRIVATE: 1})
        with pytest.raises(UnknownToolError):
            registry.execute(_PRIVATE)
    first, second, third = [record.getMessage() for record in caplog.records if record.name == "wasmrt.calls"]
    assert first.endswith("of shout: ok") and second.endswith("of shout: failed")
    assert third.endswith("of : failed")
    assert _PRIVATE not in caplog.text.lower()
