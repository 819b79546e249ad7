"""The example plugin, built from one source as a native program and as a WASI component."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.programs.build import echo_plugin
from wasmrt.agent.builtin.plugins import Plugins, PluginTool
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, LimitError, ToolError
from wasmrt.runtime.context import ToolContext

pytestmark = pytest.mark.ci("toolchain")


def test_echo_plugin_returns_its_message(echo: PluginTool) -> None:
    output = echo.execute({"text": "hello ü"})
    assert output.result == {"text": "hello ü"}
    assert json.loads(output.raw or "") == output.result
    assert echo.execute('{"text": "as JSON"}').result == {"text": "as JSON"}
    assert output.usage.params_bytes == len('{"text":"hello ü"}')


def test_tool_has_the_name_and_description_of_its_manifest(echo: PluginTool) -> None:
    assert (echo.name, echo.description, echo.timeout_seconds) == ("echo", "Echo back a text field", 2.0)
    assert echo.schema == {
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 1024}},
        "required": ["text"],
        "additionalProperties": False,
    }
    assert len(echo.digest) == 64


def test_effects_follow_from_the_grants(echo: PluginTool) -> None:
    if echo.kind == "wasi":
        assert echo.effects == {Effect.READ_FILESYSTEM}
    else:
        assert echo.effects == {Effect.READ_FILESYSTEM, Effect.SPAWN_PROCESS, Effect.EXECUTE_CODE}


def test_request_has_protocol_version_0(echo: PluginTool, workspace: Path) -> None:
    output = echo.execute({"text": "@request"})
    request: dict[str, Any] = output.result
    # SECURITY: a guest does not receive host paths.
    place = "/workspace" if echo.kind == "wasi" else str(workspace)
    assert request == {
        "protocol_version": 0,
        "request_id": output.call_id,
        "tool": "echo",
        "args_json": '{"text":"@request"}',
        "cwd": place,
        "mounts": [{"host_path": place, "guest_path": "/workspace", "read_only": True}],
    }


def test_workspace_can_be_read_but_not_written(echo: PluginTool, workspace: Path) -> None:
    root = "/workspace" if echo.kind == "wasi" else str(workspace)
    assert echo.execute({"text": f"@read {root}/notes/one.txt"}).result == {"done": "a note\n"}
    for path in (f"{root}/notes/one.txt", f"{root}/new.txt"):
        assert "failed" in echo.execute({"text": f"@write {path}"}).result
    assert (workspace / "notes/one.txt").read_text() == "a note\n"
    assert sorted(path.name for path in workspace.iterdir()) == ["notes"]


def test_wasi_plugin_writes_only_granted_folders(
    write: Callable[..., None], load: Callable[..., Plugins], workspace: Path
) -> None:
    (workspace / "out").mkdir()
    write("echo", program=echo_plugin("wasm32-wasip2"))
    echo = load(workspace=workspace, write_paths=[workspace / "out"])["echo"]
    assert echo.execute({"text": "@request"}).result["mounts"] == [
        {"host_path": "/workspace", "guest_path": "/workspace", "read_only": True},
        {"host_path": "/write/out", "guest_path": "/write/out", "read_only": False},
    ]
    assert {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM} <= echo.effects
    assert echo.execute({"text": "@write /write/out/new.txt"}).result == {"done": "written"}
    assert echo.execute({"text": "@read /workspace/out/new.txt"}).result == {"done": "written"}
    for path in ("/workspace/out/x", "/workspace/notes/one.txt", "/write/x", "/write/out/../x", "/write/out/SOUL.md"):
        assert "failed" in echo.execute({"text": f"@write {path}"}).result, path
    assert sorted(path.name for path in (workspace / "out").iterdir()) == ["new.txt"]
    assert sorted(path.name for path in workspace.iterdir()) == ["notes", "out"]
    held = echo.execute({"text": "@write /write/out/y"}, ToolContext(effects=frozenset({Effect.READ_FILESYSTEM})))
    assert "failed" in held.result


@pytest.mark.parametrize("place", ["plugins", "outside"])
def test_loading_refuses_write_paths_outside_the_workspace(
    write: Callable[..., None], load: Callable[..., Plugins], workspace: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "outside").mkdir()
    write("echo", program=echo_plugin("wasm32-wasip2"))
    if place == "plugins":
        with pytest.raises(ConfigurationError, match="files that control their permissions"):
            load(workspace=tmp_path, write_paths=[tmp_path])
        return
    refused = load(workspace=workspace, write_paths=[tmp_path / "outside"]).refused["echo"]
    assert refused.code == "no-wasi-writing"


@pytest.mark.parametrize(("text", "setting"), [("@spin", "max_runtime_ms"), ("@flood", "max_stdout_bytes")])
def test_manifest_limits_time_and_output(echo: PluginTool, text: str, setting: str) -> None:
    with pytest.raises(LimitError) as caught:
        echo.execute({"text": text})
    assert caught.value.setting == setting
    assert caught.value.hint == f"if necessary, raise {setting} in its manifest"
    assert echo.execute({"text": "again"}).result == {"text": "again"}


def test_each_request_has_a_different_id(echo: PluginTool) -> None:
    assert echo.execute({"text": ""}).call_id != echo.execute({"text": ""}).call_id


@pytest.mark.parametrize(
    "params",
    [{}, {"text": "x" * 1025}, {"text": None}, {"text": "a", "more": 1}, [], "no JSON", None, {"text": {"a": 1}}],
)
def test_args_are_validated_before_the_program_runs(echo: PluginTool, params: Any) -> None:
    with pytest.raises(InvalidParametersError):
        echo.execute(params)


def test_digest_depends_on_the_manifest_and_the_program(
    write: Callable[..., None], load: Callable[..., Plugins]
) -> None:
    def digest() -> str:
        return load()["echo"].digest

    write("echo", program=echo_plugin("wasm32-wasip2"))
    first = digest()
    assert digest() == first
    write("echo", program=echo_plugin("wasm32-wasip2"), manifest="max_runtime_ms = 2001")
    assert digest() != first


def test_without_a_workspace_the_request_has_no_mounts(
    write: Callable[..., None], load: Callable[..., Plugins]
) -> None:
    write("echo", program=echo_plugin("wasm32-wasip2"))
    tool = load()["echo"]
    assert tool.effects == frozenset()
    assert tool.execute({"text": "@request"}).result["mounts"] == []
    assert "failed" in tool.execute({"text": "@read /workspace/notes/one.txt"}).result


def test_wasi_plugin_obeys_the_limits_of_its_manifest(write: Callable[..., None], load: Callable[..., Plugins]) -> None:
    write("echo", program=echo_plugin("wasm32-wasip2"), manifest="max_stdout_bytes = 200")
    tool = load()["echo"]
    assert tool.execute({"text": "short"}).result == {"text": "short"}
    with pytest.raises(ToolError) as caught:
        tool.execute({"text": "x" * 1000})
    assert caught.value.code == "output-too-large"
