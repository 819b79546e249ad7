"""Access requests over MCP: the call ends with the request's ID, and the repeated call uses the answer."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

from tests.agent.access.conftest import Agent, Program, install
from tests.interop.mcp_server.world import World
from tests.sandbox.border.relays import agent_read
from wasmrt.agent.access import AccessChoice, AccessScope, format_access

PATH = {"path": "notes/a.md"}


def test_a_repeated_call_uses_the_answer_to_its_request(agent: Agent, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.registry = agent.registry
    with world.serve() as line:
        waits = line.call("reader", PATH)
        request = agent.only()
        said = waits["content"][0]["text"]
        assert waits["isError"] is True and f"wasmrt approvals approve {request.id}`" in said
        assert "Access is pending" in said and "notes" not in said
        assert line.call("reader", PATH)["isError"] is True
        assert agent.only().asked == 2
        agent.answered(AccessChoice(granted=True), user="local")
        read = line.call("reader", PATH)
        assert b64decode(read["content"][0]["text"]) == b"notes/a.md"
        assert line.call("reader", PATH)["isError"] is True


def test_a_session_belongs_to_one_client(agent: Agent, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.registry = agent.registry
    with world.serve() as line:
        line.call("reader", PATH)
        agent.answered(AccessChoice(granted=True, scope=AccessScope.SESSION), user="local")
        assert not line.call("reader", PATH)["isError"]
    with world.serve() as other:
        assert other.call("reader", PATH)["isError"]


def test_a_partly_denied_answer_contains_a_note(program: Program, tmp_path: Path) -> None:
    install(component=agent_read("@0.4.1").component())
    agent, world = program(), World(tmp_path)
    world.registry = agent.registry
    with world.serve() as line:
        answer = line.call("reader", PATH)
        assert not answer["isError"]
        assert agent.only().id in answer["content"][-1]["text"]


def test_access_requests_show_their_client_and_are_withdrawn_when_it_disconnects(agent: Agent, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.registry = agent.registry
    with world.serve() as line, world.serve() as other:
        line.call("reader", PATH)
        other.call("reader", PATH)
        first, second = agent.store.pending()
        assert '  client: "tester 1" (the name that it gave)' in format_access(first)[0]
        line.end_input()
        line.wait_for_end()
        assert [each.id for each in agent.store.pending()] == [second.id]
        (ended,) = agent.store.decided()
        assert (ended.id, ended.note) == (first.id, "its client has disconnected")
    assert agent.store.pending() == []
