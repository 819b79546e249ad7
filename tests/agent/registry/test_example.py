"""The example agent, run with a scripted model that makes mistakes, is corrected, and waits for approval."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from examples.agent import answer
from tests.agent.plugins.conftest import ANSWER, MANIFEST, confined  # noqa: F401  a fixture
from wasmrt.agent.approvals import ApprovalRequest
from wasmrt.cli import cli
from wasmrt.core.places import find_places
from wasmrt.runtime.audit import read_keys
from wasmrt.runtime.audit.verify import verify

Script = list[list[tuple[str, str]]]
SCRIPT: Script = [
    [("echo", '{"message": "hi"'), ("json", '{"operation": "parse", "data": "[1"}')],  # truncated, and malformed
    [("echo", '{"mesage": "hi"}'), ("time", '{"operation": "now"}')],  # a misspelt param
    [("echo", '{"message": "hi"}'), ("read_note", '{"name": "plan"}'), ("shout", '{"text": "now"}')],
    [("write_note", '{"name": "secret", "text": "no"}'), ("write_note", '{"name": "plan", "text": "fly"}')],
    [("read_note", '{"name": "plan"}'), ("delete_all", "{}")],
]


class Model:
    """Plays a script, and records the messages it receives."""

    def __init__(self) -> None:
        self.turns = iter(SCRIPT)
        self.offered: list[str] = []

    def __call__(self, messages: list[dict[str, Any]], definitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the calls of the next turn. A turn without calls ends the conversation."""
        self.offered = [definition["function"]["name"] for definition in definitions]
        return [
            {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(next(self.turns, []))
        ]


def test_the_example_has_at_most_forty_lines() -> None:
    source = (Path(__file__).parents[3] / "examples/agent.py").read_text()
    ast.parse(source)
    assert len([line for line in source.splitlines() if line.strip()]) <= 40


@pytest.mark.usefixtures("confined")
def test_a_model_is_corrected_waits_for_approval_and_continues(tmp_path: Path) -> None:
    _plugin(tmp_path / "plugins")
    asked: list[ApprovalRequest] = []

    def ask(request: ApprovalRequest) -> bool:
        asked.append(request)
        return request.params.get("name", "plan") == "plan"

    model = Model()
    told = [message["content"] for message in answer(model, tmp_path, ask)]
    assert model.offered == ["echo", "time", "json", "read_note", "write_note", "shout"]
    assert "line 1 column" in told[0]
    assert "did you mean message?" in told[2]
    assert told[4] == '<tool_output name="echo" sanitized="true">\nhi\n</tool_output>'
    assert "there is no such note" in told[5]
    assert "NOW" in told[6]
    assert "the call requires approval" in told[7]
    assert "wrote 3 characters" in told[8]
    assert "fly" in told[9]
    assert "there is no tool 'delete_all'" in told[10]
    assert sorted(request.tool for request in asked) == ["shout", "write_note", "write_note"]
    receipts = _receipts(tmp_path / "receipts")
    assert [(each["tool"], each["outcome"]) for each in receipts if each["tool"] == "write_note"] == [
        ("write_note", "approval-denied"),
        ("write_note", "ok"),
    ]
    assert len(receipts) == sum(map(len, SCRIPT))
    assert {each["trace_id"] for each in receipts} == {"conversation-1"}
    assert receipts[-1]["outcome"] in ("ok", "unknown-tool")
    assert verify(tmp_path / "receipts", read_keys(find_places().receipts_key)).broken is None
    said = CliRunner().invoke(cli, ["audit", "verify", str(tmp_path / "receipts")])
    assert said.exit_code == 0, said.output


def _plugin(folder: Path) -> None:
    folder.mkdir()
    (folder / "shout.toml").write_text(MANIFEST.format(name="shout", more="native = true\n"))
    (folder / "shout").write_text(ANSWER + "answer(text.upper())\n")
    (folder / "shout").chmod(0o755)


def _receipts(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [line for line in lines if line.get("type") == "receipt"]
