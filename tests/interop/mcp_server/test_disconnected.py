"""Clients that disconnect: their pending requests are withdrawn, and other clients are not affected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.interop.mcp_server.processes import configure, serving, wasmrt
from tests.interop.mcp_server.site import Site
from tests.interop.mcp_server.world import META, World
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalScope, State, request_lines
from wasmrt.interop.mcp.server.tools import _approver

NAME = {"name": "a"}
CLIENT = "io.modelcontextprotocol/clientInfo"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_approver, "QUEUE_SECONDS", 0.05)


def test_the_requests_of_a_client_are_withdrawn_when_its_input_ends(world: World) -> None:
    with world.serve() as line, world.serve() as other:
        line.call("write_note", NAME)
        other.call("write_note", NAME)
        first, second = world.pending()
        line.end_input()
        line.wait_for_end()
        assert world.pending() == [second]
        ended = world.store.get(first)
        assert ended is not None and (ended.state, ended.note) == (State.WITHDRAWN, "its client has disconnected")
        world.store.answer(second, ApprovalAnswer(approved=True, by="ann"), user="local")
        assert other.call("write_note", NAME)["content"][0]["text"] == "wrote a"


def test_a_waiting_form_is_withdrawn_when_the_input_of_its_client_ends(world: World) -> None:
    with world.serve() as line:
        line.initialize(elicitation={})
        line.request("tools/call", {"name": "write_note", "arguments": NAME})
        assert line.read()["method"] == "elicitation/create"
        assert len(world.pending()) == 1
        line.end_input()
        line.wait_for_end()
        assert world.pending() == [] and world.done == []


def begin(site: Site, name: str) -> str:
    """Start a session of an older revision, and return its ID."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "2"}}
    return str(site.post(site.message("initialize", params)).headers["mcp-session-id"])


def call(site: Site, session: str) -> dict[str, Any]:
    message = site.message("tools/call", {"name": "write_note", "arguments": NAME})
    return dict(site.post(message, mcp_session_id=session).json()["result"])


def test_deleting_an_http_session_withdraws_only_its_requests(site: Site) -> None:
    one, other = begin(site, "one"), begin(site, "other")
    call(site, one)
    call(site, other)
    assert sorted(each.client for each in site.world.store.pending()) == ["one 2", "other 2"]
    assert site.client.delete(site.url, headers=site.headers(mcp_session_id=one)).status_code == 204
    assert [each.client for each in site.world.store.pending()] == ["other 2"]


def test_an_answer_for_the_session_of_one_client_does_not_apply_to_another(site: Site) -> None:
    one, other = begin(site, "same"), begin(site, "same")
    tool = {"name": "jot", "arguments": NAME}
    site.post(site.message("tools/call", tool), mcp_session_id=one)
    (waiting,) = site.world.pending()
    answer = ApprovalAnswer(approved=True, scope=ApprovalScope.SESSION, by="ann")
    site.world.store.answer(waiting, answer, user="local")
    for session, failed in ((one, False), (one, False), (other, True)):
        found = site.post(site.message("tools/call", tool), mcp_session_id=session).json()["result"]
        assert found["isError"] is failed


def test_clients_without_a_session_do_not_share_requests(site: Site) -> None:
    for name in ("one", "other", "other"):
        site.call("write_note", NAME, _meta=META | {CLIENT: {"name": name, "version": "1"}})
    assert sorted(each.client for each in site.world.store.pending()) == ["one 1", "other 1"]


def test_a_clients_name_is_shown_as_a_claim_and_cleaned(world: World) -> None:
    names = {"editor": "editor 1", "x" * 500: "x" * 64, "a\u202e\x1b[2J\nb\u200b": "a[2Jb 1", "": "1"}
    with world.serve() as line:
        for name, shown in names.items():
            line.call("write_note", {"name": shown}, meta=META | {CLIENT: {"name": name, "version": "1"}})
            waiting = world.store.pending()[-1]
            assert waiting.client.strip() == shown
            assert f'  client: "{waiting.client}" (the name that it gave)' in request_lines(waiting.request)[0]
            assert world.receipts[-1].client == waiting.client
        line.call("write_note", {"name": "z"}, meta=META | {CLIENT: 7})
        assert world.store.pending()[-1].client == "an unnamed client"


@pytest.mark.ci("slow")
def test_the_requests_of_a_killed_server_are_withdrawn_by_the_next_reader(home: Any) -> None:
    configure(home, '[tools.rules.echo]\npermission = "ask"\n')
    with serving() as (line, process):
        line.call("echo", {"message": "hi"})
        (waiting,) = json.loads(wasmrt("approvals", "list", "--json").stdout)["pending"]
        assert waiting["client"] == "tester 1"
        assert b"tester 1" in wasmrt("approvals", "list").stdout
        process.kill()
        process.wait()
        assert json.loads(wasmrt("approvals", "list", "--json").stdout)["pending"] == []
    ended = wasmrt("approvals", "list", "--decided").stdout
    assert b"withdrawn (the process that served its client has ended)" in ended
    assert b"tester 1" in wasmrt("audit", "tail").stdout
