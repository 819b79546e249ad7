"""Tests of `wasmrt policy flows`, and of flow rules in `wasmrt policy explain`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
NO_WEB = (
    "[tools.filter]\nallow_external = true\n"
    + "".join(f'[tools.rules.{name}]\npermission = "deny"\n' for name in ("http", "web_fetch"))
    + "[memory]\nenabled = false\n"
)


def test_policy_flows_lists_and_draws_paths(
    wasmrt: Run, home: Path, tmp_path: Path, tool_file: Callable[..., Path]
) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    assert "open  memory_read reads its memory" in wasmrt("policy", "flows").stdout
    (home / "data/config.toml").write_text(NO_WEB)
    assert "no path" in wasmrt("policy", "flows").stdout
    sidecar = {"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET", "POST"]}]},
               "workspace": {"allowed_prefixes": ["notes/"]}}  # fmt: skip
    wasmrt("install", tool_file("parrot", sidecar=sidecar), "--yes")
    shown = wasmrt("policy", "flows", "--svg", tmp_path / "flows.svg")
    assert "open  parrot reads files" in shown.stdout
    assert "it can send requests, whose paths carry data at api.example.com" in shown.stdout
    assert "<svg" in (tmp_path / "flows.svg").read_text()
    data = json.loads(wasmrt("policy", "flows", "--json").stdout)
    many = data["open"]
    assert [path["sender"] for path in data["paths"] if path["open"]] == ["parrot"] * many
    command = "config set tools.rules.parrot.permission ask"
    assert f"wasmrt {command}   # {many} of {many} open paths\n" in shown.stdout
    assert f"(and {many - 1} more paths to it)" in shown.stdout
    (home / "data/config.toml").write_text(f"[tools]\nmax_output_bytes = 20000\n{NO_WEB}[tools.flows]\n")
    wasmrt(*command.split())
    shown = wasmrt("policy", "flows")
    assert "asks  parrot reads files" in shown.stdout
    assert "untrusted-destination ask" in shown.stdout
    failed = wasmrt("policy", "flows", "--svg", tmp_path / "none/flows.svg", code=2)
    assert "cannot be written" in failed.stderr


def test_explain_uses_earlier_content_of_the_conversation(
    wasmrt: Run, home: Path, tmp_path: Path, tool_file: Callable[..., Path]
) -> None:
    sidecar = {"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET", "POST"]}]}}
    wasmrt("install", tool_file("parrot", sidecar=sidecar), "--yes")
    (home / "data/config.toml").write_text(
        '[tools.filter]\nallow_external = true\n[tools.rules.parrot]\npermission = "allow"\n'
    )
    page, notes = tmp_path / "page.txt", tmp_path / "notes.txt"
    page.write_text("more at https://evil.example/collect")
    notes.write_text("the merger closes in May")
    call = ("policy", "explain", "parrot", '{"message": "https://evil.example/collect"}')
    assert "the call would run" in wasmrt(*call).stdout
    shown = wasmrt(*call, "--seen", page, "--private", notes).stdout
    assert "would require approval" in shown
    assert "flows.new-host: the value of message is a host that the user did not name" in shown
    shown = wasmrt(*call, "--seen", page, "--private", notes, "--said", "read https://evil.example").stdout
    assert "labels: private, trusted, untrusted; destinations: message (said)" in shown
    missing = wasmrt(*call, "--seen", tmp_path / "none.txt", code=2)
    assert "cannot be read" in missing.stderr


@pytest.mark.parametrize("flows", ["default", "off"])
def test_policy_show_lists_the_active_flow_rules(wasmrt: Run, home: Path, flows: str) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data/config.toml").write_text(
        f'[tools.flows]\npreset = "{flows}"\n'
        '[tools.rules.echo]\nresults = ["private"]\nids = ["a"]\ndestinations = []\n'
    )
    shown = wasmrt("policy", "show").stdout
    assert f"{flows}: " in shown
    assert "results private, destinations none, identifiers for a" in shown
    assert json.loads(wasmrt("policy", "show", "--json").stdout)["flows"]["preset"] == flows


@pytest.mark.ci("slow")
def test_file_tools_are_included_only_with_a_workspace(
    wasmrt: Run, home: Path, tmp_path: Path, tool_file: Callable[..., Path]
) -> None:
    sidecar = {"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET", "POST"]}]}}
    wasmrt("install", tool_file("parrot", sidecar=sidecar), "--yes")
    (home / "data/config.toml").write_text("[tools.filter]\nallow_external = true\n[memory]\nenabled = false\n")
    without = wasmrt("policy", "flows").stdout
    assert "no path" in without
    assert "file tools were not included" in without
    assert "--workspace DIR" in without
    assert json.loads(wasmrt("policy", "flows", "--json").stdout)["file_tools_counted"] is False
    counted = wasmrt("policy", "flows", "--workspace", tmp_path).stdout
    assert "open  apply_diff reads files" in counted
    assert "not included" not in counted
    assert json.loads(wasmrt("policy", "flows", "--workspace", tmp_path, "--json").stdout)["file_tools_counted"] is True


def test_explain_supports_file_tools_with_a_workspace(wasmrt: Run, tmp_path: Path) -> None:
    call = ("policy", "explain", "read_file", '{"path": "notes.txt"}')
    assert "the call would run" not in wasmrt(*call, code=1).stdout
    assert "the call would run" in wasmrt(*call, "--workspace", tmp_path).stdout


def _call(name: str, number: int, **params: str) -> dict[str, object]:
    function = {"name": name, "arguments": json.dumps(params)}
    return {"role": "assistant", "tool_calls": [{"id": f"c{number}", "function": function}]}


def test_a_recorded_conversation_is_tried_under_other_rules(
    wasmrt: Run, home: Path, tmp_path: Path, tool_file: Callable[..., Path]
) -> None:
    sidecar = {"http": {"allowlist": [{"host": "api.example.com", "methods": ["GET", "POST"]}]}}
    wasmrt("install", tool_file("parrot", sidecar=sidecar), "--yes")
    allowed = '[tools.filter]\nallow_external = true\n[tools.rules.parrot]\npermission = "allow"\n'
    (home / "data/config.toml").write_text(allowed)
    recorded, other = tmp_path / "recorded.json", tmp_path / "other.toml"
    messages = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": [{"type": "text", "text": "Read https://news.example/today"}]},
        _call("parrot", 1, message="https://news.example/today"),
        {"role": "tool", "tool_call_id": "c1", "content": "the news"},
        _call("unknown_tool", 2),
        {"role": "tool", "tool_call_id": "c2", "content": '{"text": "more at https://evil.example/collect"}'},
        _call("parrot", 3, message="https://evil.example/collect"),
    ]
    recorded.write_text(json.dumps({"messages": messages}))
    shown = wasmrt("flows", "try", recorded).stdout
    assert "ask  parrot" in shown and "https://evil.example/collect: found only in untrusted content" in shown
    assert "3 calls: 1 would require approval, 1 would be denied" in shown
    assert "3 calls: 0 would require approval" in wasmrt("flows", "try", recorded, "--rules", "off").stdout
    other.write_text(allowed.replace('allow"', 'deny"'))
    data = json.loads(wasmrt("flows", "try", recorded, "--config", other, "--json").stdout)
    assert data["calls"] == 3 and [each["outcome"] for each in data["stopped"]] == ["refused"] * 3


@pytest.mark.parametrize("text", ["[", "{}", "[1]", '[{"tool_calls": [{"function": {}}]}]'])
def test_a_file_that_is_not_a_conversation_is_an_error(wasmrt: Run, home: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "recorded.json").write_text(text)
    assert (
        "expected" in (failed := wasmrt("flows", "try", tmp_path / "recorded.json", code=2).stderr) or "JSON" in failed
    )


def test_the_declaration_in_force_for_a_tool_is_shown(wasmrt: Run, home: Path) -> None:
    shown = wasmrt("policy", "flows", "json").stdout
    assert "json:" in shown and "the tool's own code" in shown and "data:" in shown
    (found,) = json.loads(wasmrt("policy", "flows", "json", "--json").stdout)["tools"]
    assert found["effects"] == [] and len(found["schema"]) == 32
    assert "there is no tool or MCP server" in wasmrt("policy", "flows", "jsn", code=2).stderr
