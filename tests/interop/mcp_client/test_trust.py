"""Server tools in a registry: their names, their effects by trust level, and definitions refused before any call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_client.hostile import TOOL
from tests.interop.mcp_client.world import THING, World
from wasmrt.agent.policy import ExternalFilter, ToolPolicy
from wasmrt.agent.registry import ToolRegistry, ToolSource, preview_approval
from wasmrt.core.effects import EVERY_EFFECT, Effect
from wasmrt.core.errors import NotAuthorizedError
from wasmrt.core.traits import SubagentAccess
from wasmrt.egress.secrets import EnvironmentSecrets
from wasmrt.interop.mcp.client import (
    McpServerConfig,
    Trust,
    default_parts,
    list_differences,
    refused_tools,
    tool_name,
)
from wasmrt.interop.mcp.client._definition import (
    Definition,
    assigned_traits,
    declaration_line,
    find_flow_declaration,
    possible_effects,
    read_definition,
    remove_invisible,
)
from wasmrt.interop.mcp.packages import Package, Registry

SITE = McpServerConfig(name="site", url="https://a.test/mcp", trust=Trust.LOCAL)


def tool(
    name: str = "get_thing", description: str = "Gets.", schema: Any = None, out: Any = None, **hints: bool
) -> Definition:
    return read_definition(name, "", description, (schema or TOOL["inputSchema"], out), hints)


def at(trust: Trust, **more: Any) -> McpServerConfig:
    return McpServerConfig(**{"name": "site", "url": "https://a.test/mcp", "trust": trust} | more)


def program(**more: Any) -> McpServerConfig:
    return McpServerConfig(**{"name": "prog", "command": ("x",), "trust": Trust.LOCAL} | more)


NAVIGATE = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"],
            "$schema": "https://json-schema.org/draft/2020-12/schema", "additionalProperties": False}  # fmt: skip
PLAYWRIGHT = Package(registry=Registry.NPM, name="@playwright/mcp", version="1", digest="d", runner=("npx",))


def test_declarations_decide_effects_and_results_only_for_local_servers() -> None:
    known = {"name": "web", "command": ("x",), "package": PLAYWRIGHT, "network": True}
    navigate = tool("browser_navigate", schema=NAVIGATE)
    local = McpServerConfig(**known, trust=Trust.LOCAL)  # type: ignore[arg-type]
    declared = find_flow_declaration(local, navigate)
    assert declared is not None and declared.results == {"private", "untrusted"}
    assert assigned_traits(local, navigate, declared).effects == {Effect.NETWORK, Effect.EXTERNAL_WRITE}
    other = McpServerConfig(**known)  # type: ignore[arg-type]
    declared = find_flow_declaration(other, navigate)
    assert declared is not None and declared.results is None and declared.effects is None
    assert assigned_traits(other, navigate, declared).effects == possible_effects(other)


def test_a_declaration_adds_no_effect_that_the_server_was_not_granted() -> None:
    server = McpServerConfig(name="web", command=("x",), package=PLAYWRIGHT, trust=Trust.LOCAL)
    navigate = tool("browser_navigate", schema=NAVIGATE)
    assert assigned_traits(server, navigate, find_flow_declaration(server, navigate)).effects == frozenset()


def test_a_server_cannot_take_the_declarations_of_a_package_by_its_name_or_schemas() -> None:
    for server in (program(name="playwright"), McpServerConfig(name="web", url="https://a.test/@playwright/mcp")):
        assert find_flow_declaration(server, tool("browser_navigate", schema=NAVIGATE)) is None
        assert "are derived" in declaration_line(server)
    assert "npm+@playwright+mcp.toml declares" in declaration_line(program(package=PLAYWRIGHT))


def test_tool_names_use_characters_that_every_provider_accepts() -> None:
    assert tool_name("notion", "search") == "notion_search"
    assert tool_name("notion", "pages.list/all") == "notion_pages-list-all"
    assert len(tool_name("notion", "x" * 128)) == 64


@pytest.mark.parametrize("trust", [Trust.VERIFIED, Trust.COMMUNITY])
def test_annotations_are_ignored_without_local_trust(trust: Trust) -> None:
    traits = assigned_traits(at(trust), tool(readOnlyHint=True, destructiveHint=False, openWorldHint=False))
    assert traits.effects == {Effect.NETWORK, Effect.EXTERNAL_WRITE}
    assert traits.subagent_access is SubagentAccess.DENIED
    with World(at(trust), [tool(readOnlyHint=True)]) as world:
        assert world.registry.get("site_get_thing").requires_approval({})
        assert world.registry.source("site_get_thing") == ToolSource(f"mcp-{trust}")
        assert "site_get_thing" not in world.registry.for_subagent()


def test_a_read_only_tool_of_a_local_server_needs_no_approval() -> None:
    reads, writes, appends = tool(readOnlyHint=True), tool(), tool(destructiveHint=False)
    assert assigned_traits(SITE, reads).effects == {Effect.NETWORK}
    assert assigned_traits(SITE, writes).effects == {Effect.NETWORK, Effect.EXTERNAL_WRITE}
    assert assigned_traits(program(), reads).effects == {Effect.READ_FILESYSTEM}
    assert not assigned_traits(program(), appends).read_only
    with World(SITE, [tool("get_rid", destructiveHint=True)]) as world:
        assert world.registry.get("site_get_rid").requires_approval({}), "a rule does not lift what it says itself"
    with World(SITE, [reads]) as world:
        assert not world.registry.get("site_get_thing").requires_approval({})
        assert "site_get_thing" in world.registry.for_subagent()


def test_a_programs_effects_follow_from_its_grants() -> None:
    starting = {Effect.READ_FILESYSTEM, Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS}
    assert possible_effects(program()) == starting
    assert possible_effects(program(write=("/a",))) >= {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM}
    assert possible_effects(program(network=True)) >= {Effect.NETWORK, Effect.EXTERNAL_WRITE}
    assert Effect.USE_SECRET in possible_effects(program(secret_env={"A": "a"}))
    for server in (program(), program(network=True, write=("/a",)), SITE):
        assert assigned_traits(server, tool()).effects < EVERY_EFFECT


@pytest.mark.parametrize("name", ["get_thing", "describe_table", "delete", "research"])
def test_a_new_server_offers_tools_of_any_name_and_each_call_asks(name: str) -> None:
    with World(at(Trust.COMMUNITY), [tool(name, readOnlyHint=True), tool("other")]) as world:
        assert set(world.registry.all_names()) == {f"site_{name}", "site_other"}
        assert world.registry.problems == {}
        for called, claim in ((f"site_{name}", "; the server claims that it only reads"), ("site_other", "")):
            asked = preview_approval(world.registry, called, {})
            assert asked is not None, "a claim of the server approves nothing"
            assert asked.why.rule == f"every call of the MCP server site requires it{claim}"


DEEP: Any = {"type": "object"}
for _ in range(30):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


@pytest.mark.parametrize("bad", [
    tool(schema={"type": "object", "properties": {"a": {"$ref": "https://evil.test/schema.json"}}}),
    tool(schema={"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}),
    tool(schema={"type": "object", "$dynamicRef": "#x"}),
    tool(schema={"type": "array"}),
    tool(schema={"type": "object", "properties": {f"p{n}": {"description": "x" * 1000} for n in range(100)}}),
    tool(schema=DEEP),
    tool(schema={"type": "object", "properties": {"a": {"pattern": "(a)\\1"}}}),
    tool(out={"$ref": "https://evil.test/schema.json"}),
    tool(name=""),
    tool(name="get\u200bthing"),
    tool(name="get\nthing"),
    tool(name="x" * 200),
    tool(description="x" * 100_000),
    tool(description="use " + "gh" + "p_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"),
], ids=range(14))  # fmt: skip
def test_only_the_definition_that_exceeds_a_limit_is_refused(bad: Definition) -> None:
    good = tool("get_other")
    assert set(refused_tools(SITE, [bad, good])) == {bad.name}
    with World(SITE, [bad, good]) as world:
        assert world.registry.all_names() == ["site_get_other"]
        assert len(world.registry.problems) == 1


def test_confusable_tool_names_are_all_refused() -> None:
    assert set(refused_tools(SITE, [tool("get-it"), tool("get_it"), tool("Get.It"), tool("get_other")])) == {
        "get-it", "get_it", "Get.It",
    }  # fmt: skip


def test_a_server_tool_cannot_shadow_another_tool() -> None:
    with World(McpServerConfig(name="read", url="https://a.test/", trust=Trust.LOCAL), [tool("file")]) as world:
        assert world.registry.all_names() == []
        assert world.registry.problems["read_file"].code == "protected-name"
    registry = ToolRegistry(policy=ToolPolicy(filter=ExternalFilter(allow_external=True)))
    first = World(SITE, [tool()])
    registry.register(first.registry.get("site_get_thing"), source=ToolSource.MCP_LOCAL)
    first.registry.close()
    from wasmrt.interop.mcp.client import ClientParts, McpClient, offer_tools, trust_server

    second = McpServerConfig(name="site_get", url="https://b.test/", trust=Trust.LOCAL)
    client = McpClient(second, trust_server(second, [tool("thing")]), ClientParts())
    assert offer_tools(registry, client) == []
    assert registry.problems["site_get_thing"].code == "name-taken"


def test_the_digest_covers_the_definition_before_sanitizing() -> None:
    hidden = tool(description="Gets.\u200b\U000e0041")
    assert hidden.digest != tool().digest
    assert remove_invisible(hidden.description) == "Gets."
    with World(SITE, [hidden]) as world:
        assert world.registry.get("site_get_thing").description == "Gets."


def test_the_difference_shows_invisible_characters() -> None:
    lines = list_differences(tool(), tool(description="Gets.\u200b"))
    assert any(line.startswith("-") and "Gets." in line for line in lines)
    assert any(line.startswith("+") and "\\u200b" in line for line in lines)
    assert list_differences(THING, THING) == []


def test_every_part_of_a_definition_changes_its_digest() -> None:
    changed = [tool("get_thing2"), tool(description="x"), tool(schema={"type": "object"}), tool(out={"type": "object"}),
               tool(readOnlyHint=True), tool()._replace(title="x")]  # fmt: skip
    assert len({each.digest for each in [tool(), *changed]}) == len(changed) + 1


def test_server_tools_need_a_policy_that_allows_external_tools() -> None:
    with World(SITE, [tool(readOnlyHint=True)]) as world:
        closed = ToolRegistry(policy=ToolPolicy(), receipts=world.receipts.append)
        closed.register(world.registry.get("site_get_thing"), source=ToolSource.MCP_LOCAL)
        with pytest.raises(NotAuthorizedError) as failure:
            closed.execute("site_get_thing", {})
        assert failure.value.code == "external-tool"
        assert [receipt.source for receipt in world.receipts] == ["mcp-local"]


def test_secrets_come_from_the_configured_store(own_home: Path) -> None:
    (own_home / "data").mkdir(parents=True, exist_ok=True)
    (own_home / "data/config.toml").write_text('[secrets]\nbackend = "environment"\n')
    parts = default_parts()
    try:
        assert isinstance(parts.secrets, EnvironmentSecrets)
    finally:
        parts.loop.close()
