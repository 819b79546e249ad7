"""MCP servers in the agent's tools for tools: listed, approved, activated and removed with a user's approval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.agent.extensions.conftest import Agent, MakeAgent
from tests.interop.mcp_client.world import THING, hostile_server
from wasmrt.core.errors import ToolError
from wasmrt.core.places import find_places
from wasmrt.egress.secrets import Secret
from wasmrt.interop.mcp.client import (
    McpServerConfig,
    Trusted,
    add_configured_servers,
    keep_server,
    load_servers,
    trust_server,
    write_servers,
)

SITE = McpServerConfig(name="site", url="https://a.test/mcp", bearer="site_key")
PROGRAM = hostile_server("fine", name="prog")


@pytest.fixture
def kept(make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """Return an agent with two servers: an approved HTTP server, and a program without approval."""
    agent = make_agent(("good.test",))
    monkeypatch.setattr("wasmrt.agent.config.OperatorConfig.open_secrets", lambda self, **_: agent.secrets)
    places = find_places()
    keep_server(places, SITE, trust_server(SITE, [THING]))
    write_servers(places.mcp_servers, [SITE, PROGRAM])
    add_configured_servers(agent.registry)
    return agent


def expect_error(agent: Agent, tool: str, /, **params: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        agent.call(tool, **params)
    return caught.value


def test_servers_are_listed_and_found_with_their_approval(kept: Agent) -> None:
    rows = {row["name"]: row for row in kept.call("tool_list", kind="mcp")["tools"]}
    assert (rows["site"]["state"], rows["prog"]["state"]) == ("installed", "not approved")
    assert [row["name"] for row in kept.call("tool_search", query="site")["tools"]] == ["site"]


def test_server_is_used_after_its_whole_command_was_approved(kept: Agent) -> None:
    assert kept.call("tool_auth", name="prog")["commands"] == ["wasmrt mcp trust prog"]
    assert expect_error(kept, "tool_activate", name="prog").code == "mcp-consent"
    kept.asked.clear()
    assert kept.call("tool_install", name="prog", kind="mcp")["tools"] == ["get_thing"]
    shown = kept.asked[0].preview or ""
    assert all(repr(part) in shown for part in PROGRAM.command[1:]) and "it has no network" in shown
    assert kept.call("tool_activate", name="prog")["active"] == ["prog_get_thing"]
    assert kept.call("prog_get_thing", name="x") is not None
    kept.asked.clear()
    assert expect_error(kept, "tool_install", name="prog", kind="mcp").code == "installed"
    assert kept.asked == [], "changes of its tools have to be reviewed with wasmrt mcp trust"


def test_activating_a_server_again_does_not_interrupt_calls(kept: Agent) -> None:
    kept.call("tool_install", name="prog", kind="mcp")
    kept.call("tool_activate", name="prog")
    offered = kept.registry.get("prog_get_thing")
    kept.call("tool_activate", name="prog")

    assert kept.registry.get("prog_get_thing") is offered


def test_server_without_approval_is_neither_started_nor_stored(kept: Agent) -> None:
    kept.answer = lambda _: False
    error = expect_error(kept, "tool_install", name="prog", kind="mcp")
    assert "was not approved" in error.message
    assert load_servers(find_places())[1].get("prog", Trusted()).consent == ""


def test_missing_secrets_of_a_server_are_listed_without_values(kept: Agent) -> None:
    assert kept.call("tool_auth", name="site")["commands"] == ["wasmrt secret set site_key"]
    kept.secrets.set("local", "site_key", Secret("hunter2-hunter2"))
    assert kept.call("tool_auth", name="site")["state"] == "authorized"
    assert kept.call("tool_auth", user="bob", name="site")["commands"] == ["wasmrt secret set site_key --user bob"]


def test_removed_server_is_removed_with_its_tools(kept: Agent) -> None:
    assert "site_get_thing" in kept.registry
    assert kept.call("tool_remove", name="site") == {"removed": "site"}
    assert "site_get_thing" not in kept.registry and list(load_servers(find_places())[0]) == ["prog"]


def test_server_cannot_replace_another_or_use_a_host_that_is_not_allowed(kept: Agent) -> None:
    kept.asked.clear()
    assert expect_error(kept, "tool_install", name="site", kind="mcp", url="https://good.test/mcp").code == "name-taken"
    assert (
        expect_error(kept, "tool_install", name="new", kind="mcp", url="https://evil.test/mcp").code
        == "host-not-allowed"
    )
    assert expect_error(kept, "tool_install", name="unknown", kind="mcp").code == "not-installed"
    assert kept.asked == []
