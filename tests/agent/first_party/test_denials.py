"""Denials of real components: users see the setting that allows the call, and models see only the rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.agent.first_party.test_by_name import files, pages, wasmrt  # noqa: F401  fixtures
from tests.runtime.denials.lines import Tree, grant_of, in_capability_file
from wasmrt import CallbackApprover, PreparedTool, ToolCall, ToolRegistry, WasmToolRuntime
from wasmrt.agent.policy import Preset
from wasmrt.catalog.bundled import bundled_component, bundled_specs, bundled_tool
from wasmrt.core.errors import ToolError

OUT = {"allowed_prefixes": ["out/"]}
EVERYWHERE = {"allowed_prefixes": True}
NARROW: dict[str, tuple[str, dict[str, Any], Tree]] = {
    "reading elsewhere": ("read_file", {"path": "a.txt"}, {"workspace": OUT}),
    "listing": ("list_dir", {"path": "docs"}, {"workspace": OUT}),
    "writing": ("write_file", {"path": "b.txt", "content": "b"}, {"workspace": True}),
    "writing elsewhere": ("write_file", {"path": "b.txt", "content": "b"}, {"workspace": True, "workspace_write": OUT}),
    "a large file": (
        "write_file", {"path": "b.txt", "content": "b" * 99},
        {"workspace": True, "workspace_write": EVERYWHERE | {"max_file_bytes": 10}},
    ),
    "many bytes": (
        "write_file", {"path": "b.txt", "content": "b" * 99},
        {"workspace": True, "workspace_write": EVERYWHERE | {"max_bytes": 10}},
    ),
    "removing": ("file_delete", {"path": "a.txt"}, {"workspace": True, "workspace_write": EVERYWHERE}),
    "asking": ("web_fetch", {"url": "https://example.com/"}, {}),
    "asking elsewhere": (
        "web_fetch", {"url": "https://example.com/"}, {"http": {"allowlist": [{"host": "other.example"}]}},
    ),
    "asking otherwise": (
        "http", {"method": "POST", "url": "https://example.com/", "body": "x"},
        {"http": {"allowlist": [{"host": "example.com", "methods": ["GET"]}]}},
    ),
}  # fmt: skip


def steps(printed: str) -> list[str]:
    """Return the suggested fixes in a command's output, one per line."""
    return re.findall(r"^  (?:to allow it, |hint: )(.+?)(?:, and in tools\.\w+)?$", printed, re.MULTILINE)


@pytest.mark.parametrize(("name", "params", "document"), NARROW.values(), ids=NARROW)
def test_suggested_setting_allows_the_denied_call(
    name: str, params: dict[str, Any], document: Tree, files: Path, tmp_path: Path, wasmrt: Callable[..., Result]  # noqa: F811
) -> None:  # fmt: skip
    (files / "docs").mkdir()
    file = tmp_path / "narrow.json"
    call = ("run", name, json.dumps(params), "--workspace", files, "--capabilities", file)
    file.write_text(json.dumps(document))
    for step in steps(wasmrt(*call, code=3).stderr):
        document = in_capability_file(document, step)
    file.write_text(json.dumps(document))
    assert "denied" not in wasmrt(*call).stderr


@pytest.mark.parametrize(("name", "params", "document"), NARROW.values(), ids=NARROW)
def test_model_sees_the_rule_without_the_setting(
    name: str, params: dict[str, Any], document: Tree, files: Path, runtime: WasmToolRuntime  # noqa: F811
) -> None:  # fmt: skip
    shipped = bundled_tool(name)
    assert shipped is not None
    component = bundled_component(shipped).data
    prepared = runtime.prepare(f"narrow-{name}", component, grant_of(document), tools=bundled_specs(shipped))
    with ToolRegistry(runtime, approver=CallbackApprover(lambda request: True)) as registry:
        registry.register(prepared)
        answer = registry.answer(ToolCall("1", registry.tool_names()[0], params))
    runtime.forget(f"narrow-{name}")
    assert answer.error is not None
    denied = next(each for each in answer.decisions if not each.allowed)
    assert denied.hint and denied.hint in str(answer.error)
    assert denied.rule in answer.text and denied.hint not in answer.text


def test_denial_by_a_preset_names_its_entry(
    files: Path, runtime: WasmToolRuntime, prepared: Callable[[str], PreparedTool]  # noqa: F811
) -> None:  # fmt: skip
    preset = Preset(name="narrow", tools=("*",), allow_write_paths=("out",))
    params = {"path": "notes/b.txt", "content": "b"}
    (files / "notes").mkdir()
    with ToolRegistry(runtime, approver=CallbackApprover(lambda request: True)) as registry:
        registry.register(prepared("write_file"), builtin=True)
        with pytest.raises(ToolError) as caught:
            registry.under(preset).execute("write_file", params)
        denied = next(each for each in caught.value.decisions if not each.allowed)
        assert denied.hint == 'add "notes" to allow_write_paths of the preset'
        told = registry.under(preset).answer(ToolCall("1", "write_file", params)).text
        assert denied.rule in told and "allow_write_paths" not in told
        wider = Preset(name="narrow", tools=("*",), allow_write_paths=("out", "notes"))
        assert registry.under(wider).execute("write_file", params).result["bytes"] == 1
