"""Approvals over MCP: by the client's form in both eras, and always by the pending request in the store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_server.world import FORMS, META, Line, World, ask_old
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalScope, ParamsPattern
from wasmrt.agent.policy import ApproverKind, ToolPolicy
from wasmrt.interop.mcp.server.tools import _approver

NAME = {"name": "a"}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_approver, "QUEUE_SECONDS", 0.05)


def said(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def answer(world: World, approved: bool = True, **more: Any) -> str:
    """Answer the only pending request, as `wasmrt approvals` does."""
    (waiting,) = world.pending()
    world.store.answer(waiting, ApprovalAnswer(approved=approved, by="ann", **more), user="local")
    return waiting


def form(line: Line, name: str = "write_note", arguments: Any = NAME, **more: Any) -> dict[str, Any]:
    result = line.call(name, arguments, meta=FORMS, **more)
    assert result["resultType"] == "input_required", result
    return result


def again(line: Line, asked: dict[str, Any], response: Any, arguments: Any = NAME, **more: Any) -> dict[str, Any]:
    """Repeat the call with a response to the form."""
    responses = {} if response is None else {"approval": response}
    return line.call(
        "write_note", arguments, meta=FORMS, inputResponses=responses, requestState=asked["requestState"], **more
    )


ALLOW = {"action": "accept", "content": {"answer": "allow once"}}

# -- approval outside the client ---------------------------------------------------------------------------------------


def test_a_pending_call_returns_an_error_with_the_next_step(world: World, line: Line) -> None:
    result = line.call("write_note", NAME)
    (waiting,) = world.pending()
    assert result["isError"] is True and f"wasmrt approvals approve {waiting}" in said(result)
    assert "same arguments" in said(result) and world.done == []


def test_an_approved_call_runs_exactly_once(world: World, line: Line) -> None:
    line.call("write_note", NAME)
    answer(world)
    assert said(line.call("write_note", NAME)) == "wrote a"
    assert line.call("write_note", NAME)["isError"] is True
    assert world.done == ["a"] and len(world.pending()) == 1


def test_a_repeated_pending_call_creates_no_second_request(world: World, line: Line) -> None:
    first, second = line.call("write_note", NAME), line.call("write_note", NAME)
    assert re.findall(r"approve (\S+)`", said(first)) == re.findall(r"approve (\S+)`", said(second)) == world.pending()


def test_different_arguments_create_a_different_request(world: World, line: Line) -> None:
    line.call("write_note", NAME)
    answer(world)
    assert line.call("write_note", {"name": "b"})["isError"] is True
    assert world.done == []


def test_a_denial_is_reported_and_the_next_call_asks_again(world: World, line: Line) -> None:
    line.call("write_note", NAME)
    answer(world, approved=False, note="not on a Friday")
    denied = line.call("write_note", NAME)
    assert denied["isError"] is True and "denied" in said(denied) and "Friday" not in said(denied)
    assert "wasmrt approvals approve" in said(line.call("write_note", NAME)) and world.done == []


def test_an_answer_for_always_is_remembered(world: World, line: Line) -> None:
    line.call("jot", NAME)
    answer(world, scope=ApprovalScope.ALWAYS, pattern=ParamsPattern(NAME))
    for _ in range(2):
        assert said(line.call("jot", NAME)) == "jotted a"


def test_a_session_answer_applies_while_the_server_runs(world: World, line: Line) -> None:
    line.call("jot", NAME)
    answer(world, scope=ApprovalScope.SESSION)
    assert said(line.call("jot", NAME)) == "jotted a"
    assert said(line.call("jot", {"name": "b"})) == "jotted b"


def test_a_form_offers_the_session_for_tools_with_a_stable_digest(world: World, line: Line) -> None:
    asked = form(line, "jot")
    offered = asked["inputRequests"]["approval"]["params"]["requestedSchema"]["properties"]["answer"]["enum"]
    assert offered == ["allow once", "allow for this session", "deny"]
    response = {"approval": {"action": "accept", "content": {"answer": offered[1]}}}
    more = {"inputResponses": response, "requestState": asked["requestState"]}
    assert said(line.call("jot", NAME, meta=FORMS, **more)) == "jotted a"
    assert said(line.call("jot", {"name": "b"})) == "jotted b"


def test_a_form_that_does_not_show_the_whole_request_only_offers_to_deny_it(world: World, line: Line) -> None:
    params = {"name": "x" * 200 + "; rm -rf src"}
    asked = line.call("jot", params, meta=FORMS)
    shown = asked["inputRequests"]["approval"]["params"]
    assert shown["requestedSchema"]["properties"]["answer"]["enum"] == ["deny"]
    assert f"wasmrt approvals show {world.pending()[0]}" in shown["message"]
    response = {"approval": {"action": "accept", "content": {"answer": "allow once"}}}
    again = line.call("jot", params, meta=FORMS, inputResponses=response, requestState=asked["requestState"])
    assert "inputRequests" in again and world.done == []


def test_edited_parameters_are_used_and_reported(world: World, line: Line) -> None:
    line.call("write_note", NAME)
    answer(world, params={"name": "edited"})
    result = line.call("write_note", NAME)
    assert world.done == ["edited"] and "changed the parameters" in result["content"][1]["text"]


def test_receipts_record_approvals_and_denials(world: World, line: Line) -> None:
    line.call("write_note", NAME)
    answer(world)
    line.call("write_note", NAME)
    first, second = world.receipts
    assert (first.outcome, first.approval) == ("approval-denied", None)
    assert second.approval is not None and second.approval[:2] == ("person", "ann")


# -- forms, modern -----------------------------------------------------------------------------------------------------


def test_accepting_a_form_runs_the_call(world: World, line: Line) -> None:
    asked = form(line)
    shown = asked["inputRequests"]["approval"]
    assert shown["method"] == "elicitation/create" and shown["params"]["mode"] == "form"
    assert "write_note" in shown["params"]["message"] and '"name": "a"' in shown["params"]["message"]
    assert shown["params"]["requestedSchema"]["properties"]["answer"]["enum"] == ["allow once", "deny"]
    assert said(again(line, asked, ALLOW)) == "wrote a" and world.done == ["a"]
    approval = world.receipts[-1].approval
    assert approval is not None and (approval.how, approval.by) == ("client", "tester 1")
    assert world.pending() == []


def test_denying_a_form_denies_the_call(world: World, line: Line) -> None:
    result = again(line, form(line), {"action": "accept", "content": {"answer": "deny"}})
    assert result["isError"] is True and "denied" in said(result) and world.done == []


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_declined_form_is_not_shown_again_and_the_command_approves(world: World, line: Line, action: str) -> None:
    result = again(line, form(line), {"action": action})
    assert result["isError"] is True and "wasmrt approvals approve" in said(result)
    assert line.call("write_note", NAME, meta=FORMS)["isError"] is True
    answer(world)
    assert said(line.call("write_note", NAME, meta=FORMS)) == "wrote a"


@pytest.mark.parametrize(
    "response",
    [
        None,
        {},
        {"action": "accept"},
        {"action": "accept", "content": {}},
        {"action": "accept", "content": {"answer": True}},
        {"action": "accept", "content": {"answer": "allow always"}},
        {"action": "allow"},
        "accept",
        [],
        7,
        {"action": "accept", "content": {"approve": True}},
    ],
)
def test_a_response_without_the_requested_field_is_asked_again(world: World, line: Line, response: Any) -> None:
    asked = again(line, form(line), response)
    assert asked["resultType"] == "input_required" and world.done == []
    assert said(again(line, asked, ALLOW)) == "wrote a"


def test_unrequested_fields_are_ignored(world: World, line: Line) -> None:
    extra = {"action": "accept", "content": {"answer": "allow once", "more": 1}}
    assert said(again(line, form(line), extra)) == "wrote a"


def test_forms_to_an_unresponsive_client_are_limited(world: World, line: Line) -> None:
    asked = form(line)
    for _ in range(_approver.MAX_FORMS - 1):
        asked = again(line, asked, None)
    assert again(line, asked, None)["isError"] is True


def test_a_client_that_repeats_the_call_is_told_the_command(world: World, line: Line) -> None:
    form(line)
    assert "wasmrt approvals approve" in said(line.call("write_note", NAME, meta=FORMS))


def test_an_answer_in_the_store_counts_while_a_form_is_shown(world: World, line: Line) -> None:
    asked = form(line)
    answer(world)
    assert said(again(line, asked, {"action": "decline"})) == "wrote a"


# -- requestState ------------------------------------------------------------------------------------------------------


def refused(world: World, line: Line, params: dict[str, Any]) -> str:
    """Return why a call with a state is refused; it leaves a receipt, and nothing runs."""
    before = len(world.receipts)
    error = line.error("tools/call", {"_meta": FORMS, "inputResponses": {"approval": ALLOW}} | params)
    assert error["code"] == -32602 and "requestState" in error["message"]
    assert world.done == [] and world.receipts[before].outcome == "approval-denied"
    line.works()
    return str(error["message"])


def test_a_state_is_used_once(world: World, line: Line) -> None:
    asked = form(line)
    assert said(again(line, asked, ALLOW)) == "wrote a"
    world.done.clear()
    assert "used before" in refused(
        world, line, {"name": "write_note", "arguments": NAME, "requestState": asked["requestState"]}
    )


def test_a_state_is_bound_to_its_tool_and_arguments(world: World, line: Line) -> None:
    state = form(line)["requestState"]
    for params in (
        {"name": "write_note", "arguments": {"name": "b"}},
        {"name": "tell", "arguments": {"text": "a"}},
        {"name": "write_note"},
    ):
        assert "another call" in refused(world, line, params | {"requestState": state})


@pytest.mark.parametrize("change", ["first", "last", "middle", "cut", "empty", "other", "number", "long", "letters"])
def test_a_modified_or_forged_state_is_refused(world: World, line: Line, change: str) -> None:
    state = form(line)["requestState"]
    middle = len(state) // 2
    forged: Any = {
        "first": ("A" if state[0] != "A" else "B") + state[1:],
        "last": state[:-1] + ("0" if state[-1] != "0" else "1"),
        "middle": state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :],
        "cut": state[:-8],
        "empty": "",
        "other": "e30.00",
        "number": 7,
        "long": state * 50,
        "letters": state + "\u00e9",
    }[change]
    refused(world, line, {"name": "write_note", "arguments": NAME, "requestState": forged})


def test_a_state_from_another_server_is_refused(world: World, line: Line, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = World(tmp_path / "other")
    with other.serve() as elsewhere:
        state = form(elsewhere)["requestState"]
    refused(world, line, {"name": "write_note", "arguments": NAME, "requestState": state})


def test_a_state_expires(world: World, line: Line) -> None:
    asked = form(line)
    world.served._sealer._now = lambda: 10.0**12
    assert "expired" in refused(
        world, line, {"name": "write_note", "arguments": NAME, "requestState": asked["requestState"]}
    )


def test_a_forged_state_is_refused_without_approval_too(world: World, line: Line) -> None:
    refused(world, line, {"name": "add", "arguments": {"a": 1, "b": 1}, "requestState": "x.y"})


# -- forms, legacy -----------------------------------------------------------------------------------------------------


@pytest.fixture
def old(line: Line) -> Iterator[Line]:
    line.initialize(elicitation={})
    yield line


def respond(line: Line, asked: dict[str, Any], **answer: Any) -> None:
    line.send({"jsonrpc": "2.0", "id": asked["id"]} | answer)


def test_a_legacy_client_receives_the_form_as_a_request(world: World, old: Line) -> None:
    number, asked = ask_old(old)
    assert asked["params"]["requestedSchema"]["required"] == ["answer"]
    respond(old, asked, result=ALLOW)
    assert said(old.until(number)["result"]) == "wrote a"
    approval = world.receipts[-1].approval
    assert approval is not None and (approval.how, approval.by) == ("client", "old 2")


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"action": "decline"}},
        {"result": {}},
        {"error": {"code": -32601, "message": "no"}},
        {"result": {"action": "accept", "content": {}}},
    ],
)
def test_without_a_legacy_clients_answer_the_command_approves(world: World, old: Line, answer: dict[str, Any]) -> None:
    number, asked = ask_old(old)
    respond(old, asked, **answer)
    assert "wasmrt approvals approve" in said(old.until(number)["result"]) and world.done == []


def test_an_unresponsive_legacy_client_is_waited_for_once(
    world: World, old: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_approver, "FORM_SECONDS", 0.1)
    number, asked = ask_old(old)
    seen: list[dict[str, Any]] = []
    assert "wasmrt approvals approve" in said(old.until(number, seen)["result"])
    assert seen == [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": asked["id"]}}]
    respond(old, asked, result=ALLOW)  # too late
    assert old.legacy("tools/call", {"name": "write_note", "arguments": NAME})["isError"] is True
    assert world.done == []


def test_an_answer_in_the_store_ends_the_wait_for_a_legacy_client(world: World, old: Line) -> None:
    number, asked = ask_old(old)
    answer(world)
    seen: list[dict[str, Any]] = []
    assert said(old.until(number, seen)["result"]) == "wrote a"
    assert seen[0]["params"] == {"requestId": asked["id"]}


def test_a_legacy_client_is_asked_only_in_a_revision_that_has_forms(world: World, line: Line) -> None:
    line.initialize("2025-03-26", elicitation={})
    assert line.legacy("tools/call", {"name": "write_note", "arguments": NAME})["isError"] is True


def test_a_cancelled_call_withdraws_its_form_and_request(world: World, old: Line) -> None:
    number, asked = ask_old(old)
    old.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    assert old.read()["params"] == {"requestId": asked["id"]}
    assert world.written.get(timeout=20).outcome == "cancelled"
    assert world.pending() == []


def test_an_unrequested_response_changes_nothing(world: World, old: Line) -> None:
    for number in ("wasmrt-1", "wasmrt-2", 1, ""):
        respond(old, {"id": number}, result=ALLOW)
    old.works()
    assert world.done == [] and len(world.reports) == 4


# -- permitted answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ApproverKind.QUEUE, ApproverKind.TERMINAL])
def test_with_the_queue_approver_client_answers_are_ignored(tmp_path: Path, kind: ApproverKind) -> None:
    world = World(tmp_path, kind)
    with world.serve() as line:
        assert line.call("write_note", NAME, meta=FORMS)["isError"] is True
        line.initialize(elicitation={})
        assert line.legacy("tools/call", {"name": "write_note", "arguments": NAME})["isError"] is True
        answer(world)
        assert said(line.call("write_note", NAME)) == "wrote a"


def test_a_user_cannot_answer_another_users_request(world: World, line: Line) -> None:
    line.call("write_note", NAME)
    (waiting,) = world.pending()
    with pytest.raises(Exception, match="another user"):
        world.store.answer(waiting, ApprovalAnswer(approved=True, by="eve"), user="eve")


def test_a_tool_removed_during_a_pending_call_does_not_run(world: World, line: Line) -> None:
    line.call("write_note", NAME)
    world.registry.remove("write_note")
    world.registry.tool_changed("write_note")
    assert world.pending() == []
    world.refresh()
    line.works()
    assert line.error("tools/call", {"_meta": META, "name": "write_note", "arguments": NAME})["code"] == -32602


def test_a_call_allowed_by_a_rule_needs_no_approval(tmp_path: Path) -> None:
    from wasmrt.agent.policy import Permission, ToolRule

    world = World(tmp_path, policy=ToolPolicy(rules=(ToolRule(tool="write_note", permission=Permission.ALLOW),)))
    with world.serve() as line:
        assert said(line.call("write_note", NAME)) == "wrote a"
