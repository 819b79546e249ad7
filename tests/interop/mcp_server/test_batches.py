"""Batches are accepted from clients of 2025-03-26 only, over both transports."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.mcp_server.site import Site, events
from tests.interop.mcp_server.world import META, Line, World
from wasmrt.interop.mcp.server.protocol import _wire as wire

BATCH = "2025-03-26"
OTHERS = ["2025-11-25", "2025-06-18", "2024-11-05"]


def request(number: Any, method: str = "ping", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def add(number: Any, a: int) -> dict[str, Any]:
    return request(number, "tools/call", name="add", arguments={"a": a, "b": 1})


@pytest.fixture
def old(line: Line) -> Line:
    line.initialize(BATCH)
    return line


def by_id(answers: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    assert all(each["jsonrpc"] == "2.0" for each in answers)
    return {each["id"]: each for each in answers}


def texts(answers: dict[Any, dict[str, Any]], *numbers: Any) -> list[str]:
    return [answers[number]["result"]["content"][0]["text"] for number in numbers]


def test_a_batch_gets_one_array_of_responses(world: World, old: Line) -> None:
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}
    old.send([add(1, 1), told, add("1", 2), request(3, "tools/call", name="wait"), request(4)])
    assert world.started.wait(20)
    world.go.set()
    answers: Any = old.read()
    assert texts(by_id(answers), 1, "1", 3) == ["2", "3", "waited"] and by_id(answers)[4]["result"] == {}
    assert len(answers) == 4
    old.works()


def test_messages_of_a_batch_are_refused_individually(world: World, old: Line) -> None:
    begin = request(5, "initialize", protocolVersion="2025-11-25", capabilities={})
    old.send([
        add(1, 1), 7, [], {"jsonrpc": "2.0"}, request(None), add(1, 9), begin, request(6, "tools/list", _meta=META),
        request(8, "nothing"), request(9, "tools/call", name="nothing"), request("x" * 300),
    ])  # fmt: skip
    answers: Any = old.read()
    found = by_id([each for each in answers if each["id"] is not None])
    assert texts(found, 1) == ["2"]
    assert {number: found[number]["error"]["code"] for number in (5, 6, 8, 9)} == {
        5: -32600, 6: -32600, 8: -32601, 9: -32602,
    }  # fmt: skip
    assert [each["error"]["code"] for each in answers if each["id"] is None] == [-32600] * 6
    assert len(answers) == 11
    assert old.legacy("ping") == {}


@pytest.mark.parametrize("size", [0, wire.MAX_BATCH + 1])
def test_an_empty_or_oversized_batch_is_one_error(world: World, old: Line, size: int) -> None:
    old.send([add(number, 1) for number in range(size)])
    answer = old.read()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert [receipt.outcome for receipt in world.receipts] == ["no-message"]
    old.send([add(number, 1) for number in range(wire.MAX_BATCH)])
    assert len(old.read()) == wire.MAX_BATCH


def test_a_batch_of_notifications_is_not_answered(old: Line) -> None:
    old.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 3)
    old.send([request(1)])
    answers: Any = old.read()
    assert [each["id"] for each in answers] == [1]


def test_one_request_of_a_batch_can_be_cancelled(world: World, old: Line) -> None:
    old.send([request(1, "tools/call", name="wait"), add(2, 1)])
    assert world.started.wait(20)
    old.send([{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}])
    answers: Any = old.read()
    assert [each["id"] for each in answers] == [2] and world.ended.wait(20)


def test_every_request_of_a_batch_counts(world: World, old: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    from wasmrt.interop.mcp.server.protocol import _connection

    monkeypatch.setattr(_connection, "MAX_IN_FLIGHT", 2)
    old.send([request(number, "tools/call", name="wait") for number in range(3)])
    assert world.started.wait(20)
    world.go.set()
    answers: Any = old.read()
    assert [each.get("error", {}).get("code") for each in answers] == [-32603, None, None]


@pytest.mark.parametrize("version", [None, *OTHERS])
def test_no_other_revision_has_batches(world: World, line: Line, version: str | None) -> None:
    if version is not None:
        line.initialize(version)
    line.send([add(1, 1)])
    answer = line.read()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600) and BATCH in answer["error"]["message"]
    line.works()


# -- over HTTP ---------------------------------------------------------------------------------------------------------


def test_a_batch_over_http_gets_one_array(site: Site) -> None:
    for headers in ({}, {"mcp_protocol_version": BATCH}):
        found = site.post([add(1, 1), request(2), add(3, 5), 7], **headers)
        assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
        answers = by_id(found.json())
        assert texts(answers, 1, 3) == ["2", "6"] and answers[None]["error"]["code"] == -32600


def test_a_batch_with_progress_is_a_stream_that_ends_with_the_array(site: Site) -> None:
    steps = request(1, "tools/call", name="steps", arguments={"count": 2}, _meta={"progressToken": "p"})
    told: list[Any] = list(events(site.post([steps, add(2, 1)])))
    assert [each["params"]["progress"] for each in told[:-1]] == [1, 2] and texts(by_id(told[-1]), 1, 2) == [
        "done",
        "2",
    ]


def test_a_batch_without_requests_is_accepted_without_a_body(site: Site) -> None:
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    found = site.post([told, told])
    assert (found.status_code, found.content) == (202, b"")
    found = site.post([told, {"jsonrpc": "2.0", "id": "wasmrt-1", "result": {}}])
    assert found.status_code == 400 and [each["error"]["code"] for each in found.json()] == [-32600]


def test_other_revisions_refuse_batches_over_http(site: Site) -> None:
    for version in (*OTHERS, "2026-07-28"):
        found = site.post([add(1, 1)], mcp_protocol_version=version)
        assert (found.status_code, found.json()["error"]["code"]) == (400, -32600)
    params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    session = site.post(site.message("initialize", params)).headers["mcp-session-id"]
    assert site.post([add(1, 1)], mcp_session_id=session).status_code == 400
    assert site.post([add(1, 1)], mcp_session_id="made-up").status_code == 404


def test_a_batch_over_http_counts_against_the_request_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from wasmrt.interop.mcp.server.http import _endpoint

    assert site.post([request(number) for number in range(wire.MAX_BATCH + 1)]).status_code == 400
    monkeypatch.setattr(_endpoint, "MAX_REQUESTS", 2)
    found = site.post([request(number) for number in range(3)])
    assert (found.status_code, found.json()["error"]["code"]) == (429, -32603)
    assert site.post([request(number) for number in range(2)]).status_code == 200


def test_a_disconnected_client_cancels_its_whole_batch(site: Site) -> None:
    waits = request(2, "tools/call", name="begin", _meta={"progressToken": "p"})
    with site.client.stream("POST", site.url, json=[add(1, 1), waits], headers=site.headers()) as stream:
        assert next(events(stream))["method"] == "notifications/progress"
    assert site.world.ended.wait(20)
    site.works()
