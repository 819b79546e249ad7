"""Plugins as tools of an agent: external tools, with traits derived from their grants."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.plugins.conftest import ANSWER
from tests.sandbox.programs.build import echo_plugin
from wasmrt import CallbackApprover, ToolPolicy, ToolRegistry
from wasmrt.agent.builtin.plugins import Plugins, PluginTool
from wasmrt.agent.policy import ExternalFilter
from wasmrt.agent.registry import Tool, ToolSource
from wasmrt.core.effects import Effect
from wasmrt.core.errors import CancelledError, DeadlineExceededError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.traits import SafetyTier
from wasmrt.runtime.context import ToolContext

Native = Callable[..., PluginTool]
LET_IN = ToolPolicy(filter=ExternalFilter(allow_external=True))


@pytest.fixture
def repeat(write: Callable[..., None], load: Callable[..., Plugins], workspace: Path) -> PluginTool:
    write("repeat", program=echo_plugin("wasm32-wasip2"))
    return load(workspace=workspace)["repeat"]


@pytest.mark.ci("toolchain")
def test_plugin_is_a_tool_of_the_registry(repeat: PluginTool) -> None:
    assert isinstance(repeat, Tool)
    registry = ToolRegistry(policy=LET_IN)
    registry.register(repeat)
    assert registry.source("repeat") is ToolSource.PLUGIN
    assert registry.execute("repeat", {"text": "hello"}).result == {"text": "hello"}
    (definition,) = registry.definitions("openai")
    assert definition["function"]["parameters"]["properties"]["text"]["maxLength"] == 1024


@pytest.mark.ci("toolchain")
def test_plugin_is_hidden_unless_external_tools_are_allowed(repeat: PluginTool) -> None:
    registry = ToolRegistry()
    registry.register(repeat)
    with pytest.raises(ToolError) as caught:
        registry.execute("repeat", {"text": "hello"})
    assert any(decision.capability == "tool.external_filter" for decision in caught.value.decisions)


@pytest.mark.ci("toolchain")
def test_wasi_plugin_is_read_only_and_native_plugin_is_privileged(repeat: PluginTool, native: Native) -> None:
    assert repeat.traits.tier() is SafetyTier.READ_ONLY
    assert repeat.traits.enforced
    other = native(ANSWER + "answer(1)\n")
    assert other.traits.tier() is SafetyTier.PRIVILEGED
    assert not other.traits.enforced


def test_effects_of_a_native_plugin_include_its_grants(native: Native, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    network = "requires_network = true"
    without = native(ANSWER, manifest=network).effects
    assert not without & {Effect.NETWORK, Effect.WRITE_FILESYSTEM}
    with_both = native(ANSWER, manifest=network, write_paths=[tmp_path / "out"], allow_network=True)
    assert with_both.effects - without == {
        Effect.NETWORK, Effect.EXTERNAL_WRITE, Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM,
    }  # fmt: skip
    assert repr(with_both) == f"<PluginTool 'plugin', native, {with_both.digest[:12]}>"


@pytest.mark.parametrize("swap", ["write", "rename", "link", "remove"])
def test_program_replaced_during_its_approval_does_not_run(
    native: Native, folder: Path, tmp_path: Path, swap: str
) -> None:
    tool = native(ANSWER + "answer(1)\n")
    other = tmp_path / "other"
    other.write_text(ANSWER + "answer(2)\n")
    other.chmod(0o755)

    def approve_after_the_swap(request: object) -> bool:
        program = folder / "plugin"
        if swap == "write":
            program.write_text(other.read_text())
        elif swap == "rename":
            other.replace(program)
        else:
            program.unlink()
        if swap == "link":
            program.symlink_to(other)
        return True

    registry = ToolRegistry(policy=LET_IN, approver=CallbackApprover(approve_after_the_swap))
    registry.register(tool)
    with pytest.raises(ToolError) as caught:
        registry.execute("plugin", {"text": "x"})
    assert caught.value.code == "changed"


@pytest.mark.ci("toolchain")
def test_component_of_a_plugin_replaced_after_loading_does_not_run(repeat: PluginTool, folder: Path) -> None:
    registry = ToolRegistry(policy=LET_IN)
    registry.register(repeat)
    (folder / "repeat.wasm").write_bytes(b"\0asm\r\0\1\0")
    (folder / "repeat.toml").write_text('tool_name = "repeat"\nrequires_network = true\n')
    assert registry.execute("repeat", {"text": "hello"}).result == {"text": "hello"}


def test_cancelling_a_plugin_call_ends_the_program(native: Native) -> None:
    tool = native("#!/bin/sh\nexec sleep 100\n", manifest="max_runtime_ms = 60000")
    lifetime = Lifetime(60)
    timer = threading.Timer(0.3, lifetime.cancel)
    timer.start()
    with pytest.raises(CancelledError):
        tool.execute({"text": "x"}, ToolContext(lifetime=lifetime))
    timer.join()


@pytest.mark.ci("toolchain")
def test_inner_call_ends_at_the_deadline_of_the_outer_call(native: Native, repeat: PluginTool) -> None:
    late = native("#!/bin/sh\nexec sleep 100\n", manifest="max_runtime_ms = 60000")
    for tool, text in ((late, "x"), (repeat, "@spin")):
        with pytest.raises(DeadlineExceededError):
            tool.execute({"text": text}, ToolContext(lifetime=Lifetime(0.3)))
