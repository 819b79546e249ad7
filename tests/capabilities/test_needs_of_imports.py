"""The table of imports and the capabilities that they need, with the names in the WIT files."""

from __future__ import annotations

import re

import pytest

from wasmrt.capabilities._imports import find_capabilities, import_example, uses_section
from wasmrt.sandbox.component import worlds
from wasmrt.sandbox.guest.wasi import interfaces

NEEDS = {
    "wasmrt:tool/http@0.1.0#fetch": "http",
    "wasmrt:tool/workspace@0.1.0#read": "workspace",
    "wasmrt:tool/workspace@0.1.0#read-text": "workspace",
    "wasmrt:tool/workspace@0.1.0#read-text-part": "workspace",
    "wasmrt:tool/workspace@0.1.0#list": "workspace",
    "wasmrt:tool/workspace@0.1.0#stat": "workspace",
    "wasmrt:tool/workspace@0.1.0#write": "workspace_write",
    "wasmrt:tool/workspace@0.1.0#write-text": "workspace_write",
    "wasmrt:tool/workspace@0.1.0#copy": "workspace_write",
    "wasmrt:tool/workspace@0.1.0#make-directory": "workspace_write",
    "wasmrt:tool/workspace@0.1.0#remove": "workspace_write",
    "wasmrt:tool/workspace@0.1.0#rename": "workspace_write",
    "wasmrt:tool/secrets@0.1.0#exists": "secrets",
    "wasmrt:tool/tools@0.1.0#invoke": "tool_invoke",
    "wasi:http/outgoing-handler@0.2.3#handle": "http",
    "wasi:config/store@0.2.0#get": "config_store",
    "wasi:filesystem/preopens@0.2.0#get-directories": "workspace",
    "wasi:sockets/tcp-create-socket@0.2.0#create-tcp-socket": "sockets",
    "wasi:sockets/udp-create-socket@0.2.0#create-udp-socket": "sockets",
    "wasi:sockets/ip-name-lookup@0.2.0#resolve-addresses": "sockets",
    "near:agent/host#http-request": "http",
    "near:agent/host@0.3.0#workspace-read": "workspace",
    "near:agent/host@0.4.1#secret-exists": "secrets",
    "near:agent/host#tool-invoke": "tool_invoke",
}
FREE = {
    "wasmrt:tool/types", "wasmrt:tool/log#log", "wasmrt:tool/clock#now", "wasmrt:tool/clock#monotonic",
    "wasmrt:tool/progress#report", "near:agent/host#log", "near:agent/host#now-millis",
}  # fmt: skip


def unversioned(name: str) -> str:
    return re.sub("@[0-9.]+", "", name)


@pytest.mark.parametrize(("name", "capability"), sorted(NEEDS.items()))
def test_an_import_needs_one_capability_in_every_version(name: str, capability: str) -> None:
    assert find_capabilities([name]) == {capability: name}
    assert find_capabilities([unversioned(name)]) == {capability: unversioned(name)}


def test_every_function_of_the_tool_worlds_needs_a_capability_or_is_always_available() -> None:
    for world in worlds.ALL_WORLDS:
        for interface in world.imports:
            bare = unversioned(interface)
            for function in worlds.signatures(interface):
                name = f"{bare}#{function}"
                assert bool(find_capabilities([name])) != (name in FREE), name


@pytest.mark.parametrize("name", sorted(FREE))
def test_imports_for_every_tool_need_no_capability(name: str) -> None:
    assert find_capabilities([name]) == {}


def test_a_whole_interface_needs_at_least_what_its_functions_need() -> None:
    assert find_capabilities(["wasmrt:tool/workspace@0.1.0"]) == {"workspace": "wasmrt:tool/workspace@0.1.0"}
    assert find_capabilities(["wasmrt:tool/http", "wasi:http/outgoing-handler@0.2.3"]) == {
        "http": "wasi:http/outgoing-handler@0.2.3"
    }


def test_no_other_wasi_interface_needs_a_capability() -> None:
    needing = {name.partition("@")[0] for name in NEEDS if name.startswith("wasi:")}
    for interface in interfaces():
        bare = interface.name.partition("@")[0]
        assert bool(find_capabilities([interface.name])) is (bare in needing), bare


@pytest.mark.parametrize("capability", ["http", "workspace", "workspace_write", "secrets", "tool_invoke"])
def test_the_example_import_of_a_capability_can_use_it(capability: str) -> None:
    example = import_example(capability)
    if capability == "workspace_write":
        assert example == "wasi:filesystem/preopens"
    else:
        assert list(find_capabilities([example])) == [capability]


@pytest.mark.parametrize(
    ("section", "imports", "used"),
    [
        ("workspace_write", ["wasi:filesystem/preopens@0.2.0"], True),
        ("workspace_write", ["wasi:filesystem/preopens@0.2.0#get-directories"], True),
        ("workspace_write", ["wasmrt:tool/workspace@0.1.0#write"], True),
        ("workspace_write", ["wasmrt:tool/workspace@0.1.0#read"], False),
        ("workspace_write", ["wasi:http/outgoing-handler@0.2.0"], False),
        ("workspace", ["wasi:filesystem/preopens@0.2.0"], True),
        ("http", ["wasi:filesystem/preopens@0.2.0"], False),
        ("http", ["wasi:http/outgoing-handler@0.2.0"], True),
        ("secrets", [], False),
    ],
)
def test_a_section_is_usable_if_the_component_imports_a_matching_function(
    section: str, imports: list[str], used: bool
) -> None:
    assert uses_section(section, imports) is used
