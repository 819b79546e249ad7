"""Tests of `wasmrt tools` and `wasmrt policy`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.agent.first_party.names import SHIPPED
from wasmrt.catalog.bundled import HOST_TOOLS, SHELL_ALIASES, SHELL_NAME
from wasmrt.core.limits import MAX_CODE_BYTES

Run = Callable[..., Result]


@pytest.fixture
def configure(home: Path) -> Callable[[str], None]:
    """Writes the configuration file."""

    def write(text: str) -> None:
        (home / "data").mkdir(parents=True, exist_ok=True)
        (home / "data/config.toml").write_text(text)

    return write


def listed(wasmrt: Run, *options: str) -> list[str]:
    return [row["name"] for row in json.loads(wasmrt("tools", "list", "--json", *options).stdout)]


def test_bundled_tools_are_listed_described_and_run(wasmrt: Run) -> None:
    assert listed(wasmrt) == SHIPPED
    assert "read-only" in wasmrt("tools", "list").stdout
    data = json.loads(wasmrt("tools", "describe", "echo", "--json").stdout)
    assert (data["name"], data["tier"], data["effects"]) == ("echo", "read-only", [])
    assert "message (string)" in wasmrt("tools", "describe", "echo").stdout
    assert json.loads(wasmrt("tools", "run", "echo", '{"message": "hi"}').stdout) == "hi"
    output = json.loads(wasmrt("tools", "run", "echo", '{"message": "hi"}', "--json").stdout)
    assert output["result"] == "hi"


def test_as_model_prints_the_result_for_models(wasmrt: Run) -> None:
    said = wasmrt("tools", "run", "echo", '{"message": "</tool_output>"}', "--as-model").stdout
    assert said == '<tool_output name="echo" sanitized="true">\n&lt;/tool_output>\n</tool_output>\n'
    message = json.loads(wasmrt("tools", "run", "echo", "{", "--as-model", "--json", code=2).stdout)
    assert message["role"] == "tool"
    assert "Tool execution failed" in message["content"]
    for more in (["--logs"], ["--token", "t"]):
        refused = wasmrt("tools", "run", "echo", '{"message": "hi"}', "--as-model", *more, code=2)
        assert "--as-model only prints the result" in refused.stderr


def test_an_installed_tool_is_offered_by_consent_or_by_the_filter(
    wasmrt: Run, tool_file: Callable[..., Path], configure: Callable[[str], None]
) -> None:
    wasmrt("install", tool_file("parrot"), "--yes", "--no-offer")
    assert listed(wasmrt) == SHIPPED
    told = "parrot cannot be called here: the tool is not offered to agents; offer it: wasmrt grant parrot --offer"
    assert told in wasmrt("tools", "list").stderr
    assert json.loads(wasmrt("tools", "run", "parrot", '{"message": "hi"}').stdout) == "hi"  # its user typed the name
    wasmrt("grant", "parrot", "--offer", "--yes")
    assert "parrot" in listed(wasmrt)
    wasmrt("grant", "parrot", "--no-offer")
    configure("[tools.filter]\nallow_external = false\n")
    for command in (["tools", "run"], ["run"]):
        refused = wasmrt(*command, "parrot", '{"message": "hi"}', code=3)
        assert "external tools are denied" in refused.stderr
    configure("[tools.filter]\nallow_external = true\n")
    assert "parrot" in listed(wasmrt)
    assert json.loads(wasmrt("tools", "run", "parrot", '{"message": "hi"}').stdout) == "hi"


def test_a_preset_narrows_what_is_listed_and_called(wasmrt: Run, configure: Callable[[str], None]) -> None:
    configure('[presets.small]\ntools = ["time"]\n[presets.dev]\ntools = ["time", "echo"]\n[tools]\npreset = "dev"\n')
    assert listed(wasmrt) == ["echo", "time"]
    assert listed(wasmrt, "--preset", "small") == ["time"]
    wasmrt("tools", "run", "echo", '{"message": "hi"}', "--preset", "small", code=3)


@pytest.mark.parametrize(
    ("arguments", "code", "outcome", "stopped_at"),
    [
        (["echo", '{"message": "hi"}'], 0, "runs", None),
        (["echo", '{"message": 1}'], 1, "refused", "schema"),
        (["echo", "{"], 1, "refused", "arguments"),
        (["parrot", "{}"], 1, "refused", "lookup"),
        (["json", '{"operation": "parse", "data": "1"}'], 0, "asks", "approval"),
    ],
)
def test_policy_explain_names_the_stopping_step(
    wasmrt: Run, configure: Callable[[str], None], arguments: list[str], code: int, outcome: str, stopped_at: str | None
) -> None:
    configure('[tools.rules.json]\npermission = "ask"\n')
    found: dict[str, Any] = json.loads(wasmrt("policy", "explain", *arguments, "--json", code=code).stdout)
    assert (found["outcome"], found["stopped_at"]) == (outcome, stopped_at)
    words = {"runs": "would run", "asks": "would require approval", "refused": f"denied at the step {stopped_at}"}
    assert words[outcome] in wasmrt("policy", "explain", *arguments, code=code).stdout


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *((name, "--workspace DIR") for name in (SHELL_NAME, *SHELL_ALIASES)),
        *((name, "wasmrt config set memory.enabled true") for name in HOST_TOOLS),
    ],
)
def test_missing_tool_error_suggests_how_to_get_it(
    wasmrt: Run, configure: Callable[[str], None], name: str, step: str
) -> None:
    configure("[memory]\nenabled = false\n")
    assert step in wasmrt("tools", "run", name, code=2).stderr
    told = wasmrt("tools", "describe", name, code=2).stderr
    assert "cannot be used here" in told and step in told


def test_call_that_needs_approval_is_denied_without_a_terminal(wasmrt: Run, configure: Callable[[str], None]) -> None:
    configure('[tools.rules.echo]\npermission = "ask"\n')
    assert "was not approved" in wasmrt("tools", "run", "echo", '{"message": "hi"}', code=3).stderr


def test_the_policy_is_checked_and_shown(wasmrt: Run, configure: Callable[[str], None]) -> None:
    configure('[tools.filter]\nallow_external = true\nexternal_allow_list = ["echo"]\n[presets.dev]\ntools = ["*"]\n')
    checked = wasmrt("policy", "check")
    assert "which is built in" in checked.stderr
    assert json.loads(wasmrt("policy", "check", "--json").stdout)["warnings"]
    shown = json.loads(wasmrt("policy", "show", "--json").stdout)
    assert shown["presets"]["dev"]["tools"] == ["*"]
    assert "dev" in wasmrt("policy", "show").stdout


def test_rule_for_a_disabled_bundled_tool_is_known(wasmrt: Run, configure: Callable[[str], None]) -> None:
    named = ("shell", "run_code", "memory_write", "tool_install", "clipboard.read", "web_search")
    configure("".join(f'[tools.rules."{name}"]\npermission = "ask"\n' for name in (*named, "shel")))
    (warning,) = json.loads(wasmrt("policy", "check", "--json").stdout)["warnings"]
    assert warning == "tools.rules contains 'shel', which matches no tool; did you mean shell?"


def test_policy_error_has_its_line(wasmrt: Run, configure: Callable[[str], None]) -> None:
    configure("[tools]\nprest = 'dev'\n")
    said = wasmrt("policy", "check", code=2).stderr
    assert "tools.prest is not known (line 2)" in said
    assert "did you mean preset?" in said


def test_preparing_the_interpreter_shows_a_status(
    wasmrt: Run, configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[str] = []
    monkeypatch.setattr("wasmrt.cli.use.registered.prepare", lambda runtime, name, component: prepared.append(name))
    code = json.dumps({"code": "x" * (MAX_CODE_BYTES + 1)})  # denied before the interpreter runs
    assert "enable code mode" in wasmrt("tools", "run", "run_code", code, code=2).stderr
    assert not prepared
    configure("[code_mode]\nenabled = true\n")
    assert "split it" in wasmrt("tools", "run", "run_code", code, code=3).stderr
    assert prepared == ["run_code"]
