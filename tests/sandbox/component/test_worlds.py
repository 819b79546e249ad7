"""The host binds the functions of the table of worlds."""

from __future__ import annotations

import pytest

from wasmrt.capabilities import find_capabilities
from wasmrt.sandbox.component import worlds
from wasmrt.sandbox.guest.worlds import interfaces


def test_the_first_exported_world_is_chosen() -> None:
    assert worlds.exported_world(["near:agent/tool@0.4.1", "wasmrt:tool/provider@0.1.0"]) is worlds.TOOL_WORLD
    assert worlds.exported_world(["near:agent/tool@0.4.1", "near:agent/tool"]) is worlds.AGENT_WORLDS[0]
    assert worlds.exported_world(["near:agent/tool@0.9.0", "run"]) is None


@pytest.mark.parametrize(
    ("interface", "offered"),
    [
        ("near:agent/host", True),
        ("near:agent/host@0.4.1", True),
        ("near:agent/host@0.5.0", False),
        ("near:agent/tool@0.4.1", False),
        ("wasmrt:tool/types@0.1.0", True),
        ("wasmrt:tool/http@0.1.0", True),
        ("wasmrt:tool/provider@0.1.0", False),
        ("wasi:io/streams@0.2.6", True),
        ("wasi:io/streams@0.3.0", False),
        ("wasi:nn/tensor@0.2.0", False),
        ("wasi:io/streams@0.2.6\n", False),
    ],
)
def test_the_host_offers_imports_of_the_worlds_and_wasi(interface: str, offered: bool) -> None:
    assert worlds.is_offered(interface) is offered


def test_other_versions_of_a_tool_package_are_recognised() -> None:
    assert worlds.is_tool_package("near:agent/tool@9.0.0")
    assert not worlds.is_tool_package("near:agents/tool@0.3.0")


def test_typed_failures_include_every_kind() -> None:
    kinds = f"enum {{ {', '.join(worlds.FailureKind)} }}"
    for world in worlds.ALL_WORLDS:
        texts = [*worlds.signatures(world.export).values()]
        assert any(kinds in text for text in texts) is world.has_typed_failures


def test_every_capability_is_available_in_each_world() -> None:
    free = {"log", "now-millis", "now", "monotonic", "report"}
    for world in worlds.ALL_WORLDS:
        functions = [f"{name}#{function}" for name in world.imports for function in worlds.signatures(name)]
        writes = {"workspace_write"} if world is worlds.TOOL_WORLD else set()
        assert find_capabilities(functions).keys() == {"http", "workspace", "secrets", "tool_invoke"} | writes
        assert {name.partition("#")[2] for name in functions if not find_capabilities([name])} <= free


def test_the_host_binds_all_imports_of_the_worlds() -> None:
    bound = {interface.name: set(interface.functions) for interface in interfaces()}
    assert bound == {name: set(worlds.signatures(name)) for world in worlds.ALL_WORLDS for name in world.imports}
