"""`wasmrt caps explain` decides one use for each tool of a component."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Run = Callable[..., Result]
PLACE = {"host": "api.example.com", "path_prefix": "/v1/"}
TICKETS = {"host": "api.example.com", "path": "/v1/tickets/*", "methods": ["GET"]}
URL = "https://api.example.com/v1/tickets/7"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    file = tmp_path / "desk.capabilities.json"
    tools: dict[str, Any] = {"list": {"http": {"allowlist": [TICKETS]}}, "count": {}, "clear": {}}
    file.write_text(json.dumps({"http": {"allowlist": [PLACE]}, "tools": tools}))
    return file


def test_a_url_is_decided_for_each_tool(wasmrt: Run, desk: Path) -> None:
    shown = wasmrt("caps", "explain", desk, "--url", URL).stdout

    assert f"allowed for list: GET {URL}" in shown
    assert f"denied for clear, count: GET {URL}" in shown


def test_a_url_that_every_tool_refuses_is_denied_although_the_component_allows_it(wasmrt: Run, desk: Path) -> None:
    shown = wasmrt("caps", "explain", desk, "--url", "https://api.example.com/v1/users", code=3).stdout

    assert "allowed for" not in shown and "denied for list:" in shown
    answer = json.loads(wasmrt("caps", "explain", desk, "--url", URL, "--method", "DELETE", "--json", code=3).stdout)
    assert answer["allowed"] is False
    assert {name: each["allowed"] for name, each in answer["tools"].items()} == dict.fromkeys(
        ("list", "count", "clear"), False
    )


def test_a_component_without_tool_sections_has_one_decision(wasmrt: Run, desk: Path) -> None:
    desk.write_text(json.dumps({"http": {"allowlist": [PLACE]}}))

    answer = json.loads(wasmrt("caps", "explain", desk, "--url", URL, "--json").stdout)
    assert answer["allowed"] is True and "tools" not in answer
