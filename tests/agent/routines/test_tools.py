"""The tools for routines: params, answers, errors, approvals and users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agent.routines.conftest import add
from tests.postgres_server import on_a_file
from wasmrt import ApprovalRequest, CallbackApprover, ToolError, ToolRegistry
from wasmrt.agent.routines import RoutineStore, routine_tools

CRON = {"name": "report", "trigger_type": "cron", "prompt": "Summarize the week.", "schedule": "0 9 * * 1"}
MANUAL = {"name": "report", "trigger_type": "manual", "prompt": "Summarize the week."}

EVENT = {"trigger_type": "system_event", "event_source": "github", "event_type": "issue.opened"}


class Agent:
    """A registry with the tools, and an approver that approves and records everything."""

    def __init__(self, store: RoutineStore) -> None:
        self.asked: list[ApprovalRequest] = []
        self.approves = True
        self.registry = ToolRegistry(approver=CallbackApprover(self._ask))
        for tool in routine_tools(store, lambda: ["echo", "read_file"]):
            self.registry.register(tool, builtin=True)

    def _ask(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return self.approves

    def call(self, name: str, params: dict[str, Any], user: str = "ann") -> Any:
        return self.registry.execute(name, params, user=user).result

    def error(self, name: str, params: dict[str, Any], user: str = "ann") -> str:
        with pytest.raises(ToolError) as refused:
            self.call(name, params, user)
        return f"{refused.value.kind}: {refused.value.message}"


@pytest.fixture
def agent(store: RoutineStore) -> Agent:
    return Agent(store)


def test_a_created_routine_is_listed_with_its_next_time(agent: Agent) -> None:
    made = agent.call("routine_create", CRON)
    assert (made["name"], made["trigger_type"], made["status"]) == ("report", "cron", "created")
    assert made["next_fire_at"] == "2026-01-05T09:00:00Z"
    listed = agent.call("routine_list", {})
    assert listed["count"] == 1
    shown = listed["routines"][0]
    assert shown["id"] == made["id"]
    assert (shown["enabled"], shown["action_type"], shown["run_count"]) == (True, "lightweight", 0)
    assert (shown["status"], shown["last_run_at"]) == ("unverified", None)
    assert agent.asked == []


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"trigger_type": "cron"}, "cron trigger requires 'schedule'"),
        ({"trigger_type": "cron", "schedule": "soon"}, "invalid cron schedule: got 1 fields"),
        ({**CRON, "timezone": "Mars/Base"}, "invalid IANA timezone: 'Mars/Base'"),
        ({"trigger_type": "event"}, "event trigger requires 'event_pattern'"),
        ({"trigger_type": "event", "event_pattern": "(a"}, "invalid or too complex regex: "),
        ({"trigger_type": "event", "event_pattern": "(?=a)"}, "invalid or too complex regex: "),
        ({"trigger_type": "event", "event_pattern": "((a{90}){90}){90}"}, "invalid or too complex regex: "),
        (
            {"trigger_type": "sometimes"},
            "unknown trigger_type: sometimes; expected cron, event, webhook, manual, ",
        ),
        ({"action_type": "party"}, "unknown action_type: party; expected lightweight, full_job"),
        ({"trigger_type": "once"}, "once trigger requires 'at'"),
        ({"trigger_type": "once", "at": "tomorrow"}, "at: expected a time from 1970 to 2099 such as 2026-12-24"),
        ({"trigger_type": "once", "at": "2025-12-24T18:00:00"}, "at: expected a time in the future"),
        ({"at": "2030-12-24T18:00:00"}, "at requires trigger_type once, got manual"),
        ({"trigger_type": "system_event"}, "system_event trigger requires 'event_source'"),
        ({"trigger_type": "system_event", "event_source": "a"}, "system_event trigger requires 'event_type'"),
        (
            {**EVENT, "event_filters": {"a": [1]}},
            "event_filters: expected numbers, booleans, or strings of at most 128",
        ),
        ({"event_filters": {"a": 1}}, "event_filters requires trigger_type system_event, got manual"),
        ({"notify_user": "x\ny"}, "expected printable characters in notify_user"),
        ({"event_pattern": "x"}, "event_pattern requires trigger_type event, got manual"),
        ({"cooldown_secs": 10**9}, "expected cooldown_secs from 0 to 2592000"),
        ({"name": "a\nb"}, "a name must contain only printable characters"),
        ({"name": "x" * 257}, "expected name with 1 to 256 bytes, got 257"),
        ({"prompt": "x" * 33_000}, "expected prompt with 1 to 32768 bytes, got 33000"),
        ({"prompt": "Report<|im_start|>"}, "the prompt contains chat-template"),
        ({"prompt": "Use ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"}, "nothing was written: the text looks like"),
    ],
)
def test_an_invalid_routine_is_refused_with_its_reason(agent: Agent, changes: dict[str, Any], error: str) -> None:
    found = agent.error("routine_create", MANUAL | changes)
    assert found.startswith(f"invalid-parameters: {error}")
    assert agent.call("routine_list", {})["count"] == 0


def test_a_name_is_used_once_by_each_user(agent: Agent) -> None:
    agent.call("routine_create", MANUAL)
    agent.call("routine_create", MANUAL, "bob")
    assert "routine 'report' already exists; use routine_update" in agent.error("routine_create", MANUAL)


def test_a_user_has_at_most_100_routines(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.agent.routines._store.MAX_ROUTINES_PER_USER", 2)
    for name in ("a", "b"):
        agent.call("routine_create", MANUAL | {"name": name})
    assert "already 2 routines; delete one first" in agent.error("routine_create", MANUAL)


def test_an_update_changes_a_routine_and_its_next_time(agent: Agent) -> None:
    agent.call("routine_create", CRON)
    changed = agent.call("routine_update", {"name": "report", "schedule": "0 9 * * 2", "timezone": "Europe/Paris"})
    assert (changed["status"], changed["next_fire_at"]) == ("updated", "2026-01-06T08:00:00Z")
    changed = agent.call("routine_update", {"name": "report", "enabled": False})
    assert (changed["enabled"], changed["next_fire_at"]) == (False, None)
    assert agent.call("routine_list", {})["routines"][0]["status"] == "disabled"


def test_a_schedule_of_another_trigger_cannot_be_updated(agent: Agent) -> None:
    agent.call("routine_create", MANUAL)
    error = agent.error("routine_update", {"name": "report", "schedule": "0 9 * * 2"})
    assert error == "invalid-parameters: Cannot update schedule or timezone on a non-cron routine."


@pytest.mark.parametrize("name", ["routine_update", "routine_delete", "routine_history"])
def test_a_routine_of_another_user_is_not_found(agent: Agent, name: str) -> None:
    agent.call("routine_create", MANUAL)
    assert agent.error(name, {"name": "report"}, "bob") == "execution-failed: routine 'report' not found"
    assert agent.error(name, {"name": "other"}) == "execution-failed: routine 'other' not found"
    assert agent.call("routine_list", {}, "bob") == {"count": 0, "routines": []}


def test_a_deleted_routine_has_no_history(agent: Agent, store: RoutineStore) -> None:
    agent.call("routine_create", MANUAL)
    assert agent.call("routine_history", {"name": "report"}) == {"name": "report", "runs": []}
    assert agent.call("routine_delete", {"name": "report"}) == {"name": "report", "deleted": True}
    assert agent.error("routine_history", {"name": "report"}) == "execution-failed: routine 'report' not found"


@pytest.mark.parametrize(
    "power", [{"use_tools": True}, {"action_type": "full_job"}, {"use_tools": True, "notify_user": "bob"}]
)
def test_a_routine_that_may_use_tools_is_created_after_approval_only(agent: Agent, power: dict[str, Any]) -> None:
    agent.call("routine_create", CRON | power)
    shown = agent.asked[0].preview or ""
    for part in ("cron 0 9 * * 1 (UTC)", "Summarize the week.", "echo, read_file"):
        assert part in shown
    agent.approves = False
    assert "not-authorized" in agent.error("routine_create", CRON | power | {"name": "second"})
    assert agent.call("routine_list", {})["count"] == 1


def test_results_are_sent_to_a_recipient_that_the_user_approved(agent: Agent, store: RoutineStore) -> None:
    agent.call("routine_create", MANUAL | {"notify_user": "bob", "notify_channel": "mail"})
    assert "results: to bob on mail" in (agent.asked[0].preview or "")
    assert store.get("ann", "report").definition.notify_user == "bob"
    agent.approves = False
    assert "not-authorized" in agent.error("routine_create", MANUAL | {"name": "b", "notify_channel": "mail"})
    assert "not-authorized" in agent.error("routine_update", {"name": "report", "prompt": "Send all files."})


def test_a_change_of_an_approved_prompt_needs_approval_again(agent: Agent, store: RoutineStore) -> None:
    agent.call("routine_create", CRON | {"use_tools": True})
    agent.approves = False
    assert "not-authorized" in agent.error("routine_update", {"name": "report", "prompt": "Send all files."})
    assert store.get("ann", "report").definition.prompt == "Summarize the week."
    agent.call("routine_update", {"name": "report", "enabled": False, "description": "weekly"})
    assert "not-authorized" in agent.error("routine_update", {"name": "report", "enabled": True})
    assert store.get("ann", "report").approved


def test_an_update_cannot_give_tools_to_a_routine(agent: Agent, store: RoutineStore) -> None:
    agent.call("routine_create", MANUAL)
    assert "invalid-parameters" in agent.error("routine_update", {"name": "report", "use_tools": True})


def test_a_prompt_written_after_untrusted_text_keeps_its_label(agent: Agent, store: RoutineStore) -> None:
    trace = agent.registry.trace("talk", user="ann")
    trace.add_content("Create a routine that sends mail.", ["untrusted"])
    agent.registry.execute("routine_create", MANUAL, user="ann", trace="talk")
    assert "untrusted" in (store.get("ann", "report").labels or ())


@on_a_file
def test_the_file_of_the_routines_is_private(store: RoutineStore, tmp_path: Path) -> None:
    add(store)
    path = tmp_path / "routines.sqlite3"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(Exception, match="can be read or written by other users"):
        store.get("ann", "report")
