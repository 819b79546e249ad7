"""Hostile and broken clients: their messages have no effect, and the server continues to work."""

from __future__ import annotations

import json
import os
import select
from typing import Any

import pytest

from tests.interop.mcp_server.world import CAPABILITIES, META, VERSION, Line, World
from wasmrt.interop.mcp.server.protocol import MAX_MESSAGE_BYTES
from wasmrt.interop.mcp.server.protocol import _connection as connection

HUGE = "9" * 5000
DEEP = '{"jsonrpc":"2.0","id":1,"method":"ping","params":' + '{"a":' * 5000 + "1" + "}" * 5000 + "}"
LISTS = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + "[" * 100_000 + "]" * 100_000 + "}}"


def call(arguments: str, *, name: str = '"tell"', extra: str = "") -> str:
    """Return a call as text, in parts."""
    params = f'{{"name":{name},"arguments":{arguments},"_meta":{json.dumps(META)}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}{extra}}}'


UNREADABLE: dict[str, tuple[bytes | str, int]] = {
    "words": ("hello", -32700),
    "half an object": ('{"jsonrpc":"2.0","id":1,', -32700),
    "two objects": ('{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}', -32700),
    "not a number": (call('{"text":NaN}'), -32700),
    "infinity": (call('{"text":-Infinity}'), -32700),
    "a number that becomes infinite": (call('{"text":1e999}'), -32700),
    "a number of five thousand digits": (call(f'{{"text":{HUGE}}}'), -32700),
    "an id of five thousand digits": (f'{{"jsonrpc":"2.0","id":{HUGE},"method":"ping"}}', -32700),
    "bytes that are no text": (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', -32700),
    "text of UTF-16": ('{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"), -32700),
    "a mark before the text": ('\ufeff{"jsonrpc":"2.0","id":1,"method":"ping"}', -32700),
    "zero bytes": (b"\0" * 64, -32700),
    "half a pair of surrogates": (call(r'{"text":"\ud800"}'), -32700),
    "half a pair in a name": (call(r'{"\udc00":"x"}'), -32700),
    "a name twice": (call('{"text":"a","text":"b"}'), -32700),
    "an id twice": ('{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
    "objects five thousand deep": (DEEP, -32600),
    "lists a hundred thousand deep": (LISTS, -32600),
    "a great many objects": (call('{"text":[' + ",".join(["{}"] * 150_000) + "]}"), -32600),
    "a batch": ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    "an empty batch": ("[]", -32600),
    "a text": ('"ping"', -32600),
    "null": ("null", -32600),
    "another JSON-RPC": ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    "no JSON-RPC": ('{"id":1,"method":"ping"}', -32600),
    "no method": ('{"jsonrpc":"2.0","id":1}', -32600),
    "a method that is no text": ('{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    "an endless method": ('{"jsonrpc":"2.0","id":1,"method":"' + "x" * 10_000 + '"}', -32600),
    "an id of null": ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    "an id that is a fraction": ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
    "an id that is true": ('{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    "an id that is an object": ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    "an id beyond doubles": ('{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', -32600),
    "an endless id": ('{"jsonrpc":"2.0","id":"' + "x" * 10_000 + '","method":"ping"}', -32600),
    "params that are a list": ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
    "params that are null": ('{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', -32600),
    "result and error": ('{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600),
    "a response to nobody": ('{"jsonrpc":"2.0","id":[],"result":{}}', -32600),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_malformed_messages_get_an_error_and_change_nothing(world: World, line: Line, case: str) -> None:
    data, code = UNREADABLE[case]
    line.raw((data if isinstance(data, bytes) else data.encode()) + b"\n")
    answer = line.read()
    assert answer["error"]["code"] == code and answer["id"] in (None, 1)
    assert len(answer["error"]["message"]) <= 200
    (receipt,) = world.receipts
    assert (receipt.kind, receipt.outcome, receipt.user) == ("mcp-message", KINDS[code], "local")
    assert [decision.allowed for decision in receipt.decisions] == [False]
    line.works()


KINDS = {
    -32700: "not-json",
    -32600: "no-message",
    -32601: "unknown-method",
    -32602: "invalid-params",
    -32022: "unsupported-version",
}
REFUSED: dict[str, tuple[str, dict[str, Any], int]] = {
    "a modern request with a version that is no text": ("tools/list", {"_meta": META | {VERSION: 7}}, -32602),
    "capabilities that are no object": ("tools/list", {"_meta": META | {CAPABILITIES: []}}, -32602),
    "metadata that is a text": ("tools/list", {"_meta": "x"}, -32602),
    "an old version in modern metadata": ("tools/list", {"_meta": META | {VERSION: "2025-11-25"}}, -32022),
    "an endless version": ("tools/list", {"_meta": META | {VERSION: "x" * 100_000}}, -32022),
    "discover without metadata": ("server/discover", {}, -32602),
    "listen without metadata": ("subscriptions/listen", {"notifications": {}}, -32602),
    "listen to nothing named": ("subscriptions/listen", {"_meta": META}, -32602),
    "initialize without a version": ("initialize", {"capabilities": {}}, -32602),
    "initialize with a version that is a list": ("initialize", {"protocolVersion": [], "capabilities": {}}, -32602),
    "initialize with capabilities of null": (
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": None},
        -32602,
    ),
    "a call without a name": ("tools/call", {"_meta": META}, -32602),
    "a call of a list": ("tools/call", {"_meta": META, "name": ["add"]}, -32602),
    "a path for a name": ("tools/call", {"_meta": META, "name": "../../add"}, -32602),
    "a name that only looks like one": ("tools/call", {"_meta": META, "name": "аdd"}, -32602),
    "arguments that are a text": ("tools/call", {"_meta": META, "name": "add", "arguments": "{}"}, -32602),
    "responses that are a list": (
        "tools/call",
        {"_meta": META, "name": "add", "inputResponses": [], "requestState": "a.b"},
        -32602,
    ),
    "a method with a line end": ("tools/list\n", {"_meta": META}, -32601),
    "a method of the server's": ("elicitation/create", {"_meta": META}, -32601),
    "a method of our own objects": ("__init__", {"_meta": META}, -32601),
}


# Calls of a tool are refused by the registry.
RECEIPTS = {
    "a path for a name": "unknown-tool",
    "a name that only looks like one": "unknown-tool",
    "responses that are a list": "approval-denied",
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_requests_are_refused(world: World, line: Line, case: str) -> None:
    method, params, code = REFUSED[case]
    error = line.error(method, params)
    assert error["code"] == code and len(json.dumps(error)) < 2000
    assert world.done == []
    assert [receipt.outcome for receipt in world.receipts] == [RECEIPTS.get(case, KINDS[code])]
    line.works()


def test_a_64_mib_line_is_refused_once_and_not_stored(world: World, line: Line) -> None:
    block = b"x" * (1 << 20)
    for _ in range(64):
        line.raw(block)
    line.raw(b"\n")
    answer = line.read()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert [receipt.outcome for receipt in world.receipts] == ["no-message"]
    line.works()


@pytest.mark.parametrize("over", [0, 1])
def test_the_message_size_limit_is_exact(line: Line, over: int) -> None:
    message = b'{"jsonrpc":"2.0","id":5,"method":"ping"'
    line.raw(message + b" " * (MAX_MESSAGE_BYTES - len(message) - 1 + over) + b"}\n")
    assert ("error" in line.read()) is bool(over)
    line.works()


def test_the_id_of_a_running_request_cannot_be_reused(world: World, line: Line) -> None:
    line.request("tools/call", {"name": "wait", "_meta": META}, number="same")
    assert world.started.wait(20)
    line.request("ping", number="same")
    assert (line.read())["id"] is None
    world.go.set()
    assert line.until("same")["result"]["structuredContent"] == "waited"
    assert line.until(line.request("ping", number="same"))["result"] == {}


def test_a_number_and_a_string_are_different_ids(world: World, line: Line) -> None:
    line.request("tools/call", {"name": "wait", "_meta": META}, number=7)
    assert world.started.wait(20)
    line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "7"}})
    assert line.until(line.request("ping", number="7"))["id"] == "7"
    world.go.set()
    assert line.until(7)["result"]["structuredContent"] == "waited"


def test_pending_requests_are_limited(world: World, line: Line) -> None:
    for _ in range(connection.MAX_IN_FLIGHT + 5):
        line.request("tools/call", {"name": "wait", "_meta": META})
    refused = [line.read() for _ in range(5)]
    assert {each["error"]["code"] for each in refused} == {-32603}
    world.go.set()
    answered = [line.read() for _ in range(connection.MAX_IN_FLIGHT)]
    assert all("result" in each for each in answered)
    line.works()


def test_calls_run_concurrently(world: World, line: Line) -> None:
    number = line.request("tools/call", {"name": "wait", "_meta": META})
    assert world.started.wait(20)
    line.works()
    world.go.set()
    line.until(number)


def test_subscriptions_are_limited(line: Line) -> None:
    wanted = {"notifications": {"toolsListChanged": True}, "_meta": META}
    for _ in range(20):
        line.request("subscriptions/listen", wanted)
    answers = [line.read() for _ in range(20)]
    assert sum("error" in each for each in answers) == 4
    line.works()


@pytest.mark.ci("slow")
def test_reading_stops_while_responses_are_unread(line: Line) -> None:
    """Send 24 MiB: the server reads only as many as may be pending, and the rest after they are answered."""
    count, taken = 6000, 0
    request = json.dumps({"jsonrpc": "2.0", "id": "n", "method": "tools/list", "params": {"_meta": META}})
    os.set_blocking(line.sink, False)
    left = b""
    while taken < count:
        left = left or request.replace('"n"', f'"n{taken}"').ljust(4095).encode() + b"\n"
        try:
            left = left[os.write(line.sink, left) :]
        except BlockingIOError:
            if not select.select([], [line.sink], [], 1.0)[1]:
                break
        taken += not left
    assert taken < 4000, "the server reads on, however much of its answers is left unread"
    os.set_blocking(line.sink, True)
    assert {line.read()["id"] for _ in range(taken)} == {f"n{number}" for number in range(taken)}
    line.raw(left or b"\n")
    line.works()


def test_the_server_exits_if_the_client_leaves_during_a_response(world: World) -> None:
    with world.serve() as line:
        line.request("tools/call", {"name": "wait", "_meta": META})
        assert world.started.wait(20)
        os.close(line.source)
        line.source = os.open(os.devnull, os.O_RDONLY)
        line.request("ping")
        assert world.ended.wait(20), "what ran for it is ended"
        assert world.server_ended.wait(20)


def test_hostile_client_names_are_shortened_to_one_line(world: World, line: Line) -> None:
    name = {"name": "evil\n\x1b[31m" + "x" * 5000, "version": ["1"]}
    line.until(
        line.request(
            "initialize", {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": name}
        )
    )
    line.request("tools/call", {"name": "write_note", "arguments": {"name": "a"}})
    asked = line.read()
    line.send(
        {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"answer": "allow once"}}}
    )
    line.read()
    approval = world.receipts[-1].approval
    assert approval is not None and approval.by.isprintable() and len(approval.by) <= 64


def test_call_parameters_cannot_imitate_wasmrt_in_a_form(world: World, line: Line) -> None:
    line.initialize(elicitation={})
    line.request("tools/call", {"name": "write_note", "arguments": {"name": 'a"}\napproval x: harmless\u202e\x1b[2J'}})
    asked = line.read()
    line.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
    message = asked["params"]["message"]
    assert "\napproval x" not in message and "\x1b" not in message and "\u202e" not in message
