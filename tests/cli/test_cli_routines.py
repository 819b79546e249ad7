"""Tests of `wasmrt routines`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from wasmrt.agent.routines import RoutineStore, read_definition

Run = Callable[..., Result]


@pytest.fixture
def store(home: Path) -> RoutineStore:
    store = RoutineStore(home / "data/routines.sqlite3")
    params = {"name": "report", "trigger_type": "cron", "schedule": "0 9 * * 1", "prompt": "Summarize the week."}
    store.create("local", read_definition(params))
    store.create("ann", read_definition(params | {"name": "secret plan"}))
    return store


def test_routines_are_listed_for_one_user(wasmrt: Run, store: RoutineStore) -> None:
    shown = wasmrt("routines", "list").stdout
    assert "report  cron 0 9 * * 1 (UTC)" in shown and "secret plan" not in shown
    listed = json.loads(wasmrt("routines", "list", "--json").stdout)
    assert [(each["name"], each["status"]) for each in listed] == [("report", "unverified")]
    assert "secret plan" in wasmrt("routines", "list", "--user", "ann").stdout


def test_without_routines_the_list_names_the_tool_that_creates_them(wasmrt: Run) -> None:
    assert "routine_create" in wasmrt("routines", "list").stderr
    assert json.loads(wasmrt("routines", "list", "--json").stdout) == []


def test_a_routine_is_paused_and_resumed(wasmrt: Run, store: RoutineStore) -> None:
    assert "report is disabled" in wasmrt("routines", "pause", "report").stderr
    assert json.loads(wasmrt("routines", "list", "--json").stdout)[0]["status"] == "disabled"
    resumed = json.loads(wasmrt("routines", "resume", "report", "--json").stdout)
    assert resumed["enabled"] and resumed["next_fire_at"].endswith("T09:00:00Z")


def test_a_routine_is_removed_after_confirmation(wasmrt: Run, store: RoutineStore) -> None:
    refused = wasmrt("routines", "remove", "report", code=2)
    assert "to confirm, run: wasmrt routines remove report --user local --yes" in refused.stderr
    assert json.loads(wasmrt("routines", "remove", "report", "--yes", "--json").stdout) == {"removed": "report"}
    assert store.routines("local") == []


@pytest.mark.parametrize("command", ["run", "pause", "resume", "remove"])
def test_a_routine_of_another_user_is_not_found_by_a_command(wasmrt: Run, store: RoutineStore, command: str) -> None:
    assert "routine 'secret plan' not found" in wasmrt("routines", command, "secret plan", code=1).stderr


@pytest.mark.parametrize("arguments", [("run", "report"), ("serve",)])
def test_without_a_program_the_error_names_its_setting(
    wasmrt: Run, store: RoutineStore, arguments: tuple[str, ...]
) -> None:
    assert "wasmrt config set jobs.command" in wasmrt("routines", *arguments, code=2).stderr
