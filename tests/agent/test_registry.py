"""Names of tools in a registry: protected names, taken names, and lookup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import wasmtime

from wasmrt import PreparedTool, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.agent.registry import PROTECTED_TOOL_NAMES
from wasmrt.core.errors import InvalidNameError, NotInstalledError

ONE = bytes(
    wasmtime.wat2wasm("""(component
  (core module $main (func (export "one") (result i32) (i32.const 1)))
  (core instance $main (instantiate $main))
  (func (export "one") (result u32) (canon lift (core func $main "one"))))""")
)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WasmToolRuntime]:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        yield runtime


def named(runtime: WasmToolRuntime, name: str) -> PreparedTool:
    return runtime.prepare(name, ONE)


@pytest.mark.parametrize(
    "name",
    [
        "shell", "SHELL", "read_file", "read-file", "Read-File", "READ_FILE", "memory-search", "tool_install",
        "\u0435cho", "ec\u04bb\u043e", "\u0421ancel_job", "\uff25\uff23\uff28\uff2f", "t\u0131me", "htt\u03c1",
    ],
)  # fmt: skip
def test_a_protected_name_is_rejected_in_every_spelling(runtime: WasmToolRuntime, name: str) -> None:
    registry = ToolRegistry()
    with pytest.raises(InvalidNameError) as caught:
        registry.register(named(runtime, name))
    assert caught.value.code == "protected-name"
    assert name not in registry
    assert len(registry) == 0


# Names of built-in tools. A third-party tool with such a name could be confused with a built-in tool.
PROTECTED = [
    "echo",
    "time",
    "json",
    "http",
    "shell",
    "read_file",
    "write_file",
    "list_dir",
    "apply_patch",
    "memory_search",
    "memory_write",
    "memory_read",
    "memory_tree",
    "create_job",
    "list_jobs",
    "job_status",
    "cancel_job",
    "job_events",
    "job_prompt",
    "propose_plan",
    "tool_search",
    "tool_install",
    "tool_auth",
    "tool_activate",
    "tool_list",
    "tool_remove",
    "skill_list",
    "skill_search",
    "skill_install",
    "skill_remove",
    "routine_create",
    "routine_list",
    "routine_update",
    "routine_delete",
    "routine_history",
    "build_software",
    "run_code",
    "search_tools",
]


@pytest.mark.parametrize("name", PROTECTED)
def test_every_protected_name_is_rejected_for_third_party_tools(runtime: WasmToolRuntime, name: str) -> None:
    tool = named(runtime, name.replace("_", "-").title())
    with pytest.raises(InvalidNameError):
        ToolRegistry().register(tool)


def test_other_names_are_not_protected() -> None:
    assert sorted(PROTECTED_TOOL_NAMES) == sorted(PROTECTED)


def test_one_built_in_tool_may_have_a_protected_name(runtime: WasmToolRuntime) -> None:
    registry = ToolRegistry()
    registry.register(named(runtime, "read_file"), builtin=True)
    with pytest.raises(InvalidNameError) as caught:
        registry.register(named(runtime, "READ-FILE"), builtin=True)
    assert caught.value.code == "name-taken"
    assert [tool.name for tool in registry] == ["read_file"]


def test_a_name_that_is_easily_confused_with_a_registered_one_is_taken(runtime: WasmToolRuntime) -> None:
    registry = ToolRegistry()
    registry.register(named(runtime, "Find-Flights"))
    for name in ("find_flights", "FIND-FLIGHTS", "Find-Flights"):
        assert name in registry
        with pytest.raises(InvalidNameError, match="already registered"):
            registry.register(named(runtime, name))
    registry.register(named(runtime, "find-flight"))
    assert len(registry) == 2
    for other in ("flights", "", None, 3):
        assert other not in registry


def test_a_tool_is_found_until_it_is_removed(runtime: WasmToolRuntime) -> None:
    registry = ToolRegistry()
    tool = named(runtime, "weather")
    registry.register(tool)
    assert registry.get("weather") is tool
    with pytest.raises(NotInstalledError) as caught:
        registry.get("wether")
    assert caught.value.hint == "registered: weather"
    registry.remove("weather")
    assert "weather" not in registry
    with pytest.raises(NotInstalledError):
        registry.remove("weather")
    with pytest.raises(NotInstalledError) as caught:
        registry.get("weather")
    assert caught.value.hint == "registered: none"
    registry.register(tool)
