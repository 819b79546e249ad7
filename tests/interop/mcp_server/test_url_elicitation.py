"""Approvals on a page that the client opens: only the answer on the page counts, not the client's response."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_server.site import Site, events
from tests.interop.mcp_server.world import CAPABILITIES, META, URLS, Line, World, ask_old
from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.agent.policy import ApproverKind
from wasmrt.interop.mcp.server.tools import _approver

NAME = {"name": "a"}
PAGES = "http://127.0.0.1:9/approvals/"
OPENED = {"action": "accept"}
COMPLETE = "notifications/elicitation/complete"
LYING = [
    {"action": "accept", "content": {"answer": "allow once"}},
    {"action": "accept", "content": {"answer": "allow for this session"}},
    {"action": "accept", "content": {"approved": True}},
    OPENED,
]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_approver, "QUEUE_SECONDS", 0.05)
    monkeypatch.setattr(_approver, "FORM_SECONDS", 0.3)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_approver, "FORM_SECONDS", 20.0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.pages["local"] = PAGES
    return world


def said(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def answer(world: World, approved: bool = True, **more: Any) -> None:
    """Answer the only pending request, as its page does."""
    (waiting,) = world.pending()
    world.store.answer(waiting, ApprovalAnswer(approved=approved, by="ann", **more), user="local")


def call(line: Line, meta: dict[str, Any] = URLS, **more: Any) -> dict[str, Any]:
    return line.call("write_note", NAME, meta=meta, **more)


def again(line: Line, asked: dict[str, Any], response: Any) -> dict[str, Any]:
    return call(line, inputResponses={"approval": response}, requestState=asked["requestState"])


# -- modern ------------------------------------------------------------------------------------------------------------


def test_a_client_that_opens_addresses_gets_the_request_page(world: World, line: Line) -> None:
    asked = call(line)
    (waiting,) = world.pending()
    shown = asked["inputRequests"]["approval"]
    assert shown["method"] == "elicitation/create" and set(shown["params"]) == {"mode", "message", "url"}
    assert (shown["params"]["mode"], shown["params"]["url"]) == ("url", f"{PAGES}ask/{waiting}")
    assert "write_note" in shown["params"]["message"] and waiting in shown["params"]["message"]


@pytest.mark.usefixtures("patient")
def test_approving_on_the_page_runs_the_pending_call(world: World, line: Line) -> None:
    asked = call(line)
    number = line.request(
        "tools/call",
        {"name": "write_note", "arguments": NAME, "_meta": URLS, "requestState": asked["requestState"],
         "inputResponses": {"approval": OPENED}},
    )  # fmt: skip
    line.works()
    answer(world)
    assert said(line.until(number)["result"]) == "wrote a" and world.done == ["a"]
    approval = world.receipts[-1].approval
    assert approval is not None and (approval.how, approval.by) == ("person", "ann")


@pytest.mark.parametrize("lie", LYING)
def test_an_accepted_elicitation_does_not_approve_the_call(world: World, line: Line, lie: dict[str, Any]) -> None:
    asked = call(line)
    for _ in range(_approver.MAX_FORMS - 1):
        asked = again(line, asked, lie)
        assert asked["resultType"] == "input_required"
    assert "wasmrt approvals approve" in said(again(line, asked, lie))
    assert world.done == [] and len(world.pending()) == 1
    answer(world)
    assert said(call(line)) == "wrote a"


def test_denying_on_the_page_denies_the_call(world: World, line: Line) -> None:
    asked = call(line)
    answer(world, approved=False)
    denied = again(line, asked, OPENED)
    assert denied["isError"] is True and "denied" in said(denied) and world.done == []


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_without_an_opened_page_the_command_still_approves(world: World, line: Line, action: str) -> None:
    assert "wasmrt approvals approve" in said(again(line, call(line), {"action": action}))
    assert call(line)["isError"] is True
    answer(world)
    assert said(call(line)) == "wrote a"


@pytest.mark.parametrize(
    "declared", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}, {"elicitation": {"url": True}}, {"url": {}}]
)
def test_no_address_is_sent_to_clients_without_url_elicitation(world: World, line: Line, declared: Any) -> None:
    assert "url" not in str(call(line, META | {CAPABILITIES: declared}).get("inputRequests"))


def test_trusted_clients_get_a_form_and_others_the_page(tmp_path: Path) -> None:
    both = META | {CAPABILITIES: {"elicitation": {"form": {}, "url": {}}}}
    for kind, mode in [(ApproverKind.AUTO, "form"), (ApproverKind.QUEUE, "url"), (ApproverKind.TERMINAL, "url")]:
        (tmp_path / mode / kind).mkdir(parents=True)
        world = World(tmp_path / mode / kind, kind)
        world.pages["local"] = PAGES
        with world.serve() as line:
            assert call(line, both)["inputRequests"]["approval"]["params"]["mode"] == mode


def test_form_content_is_ignored_if_a_page_was_to_be_opened(world: World, line: Line) -> None:
    """One request is asked by a form first and by the page afterwards; the state identifies the question."""
    both = META | {CAPABILITIES: {"elicitation": {"form": {}, "url": {}}}}
    form = call(line, both)
    allowed = {"action": "accept", "content": {"answer": "allow once"}}
    page = again(line, form, None)
    assert page["inputRequests"]["approval"]["params"]["mode"] == "url"
    assert again(line, page, allowed)["resultType"] == "input_required" and world.done == []


def test_no_address_is_sent_if_no_pages_are_served(world: World, line: Line) -> None:
    world.pages.clear()
    assert "wasmrt approvals approve" in said(call(line))


def test_pages_are_separate_for_each_user(world: World, site: Site) -> None:
    assert site.call("write_note", NAME, _meta=URLS)["resultType"] == "input_required"
    other = site.call("write_note", NAME, _meta=URLS, user="eve")
    assert other["isError"] is True and PAGES not in said(other)


# -- 2025-11-25 --------------------------------------------------------------------------------------------------------


@pytest.fixture
def old(line: Line) -> Iterator[Line]:
    line.initialize(elicitation={"url": {}})
    yield line


@pytest.mark.usefixtures("patient")
def test_a_legacy_client_is_notified_when_the_page_is_answered(world: World, old: Line) -> None:
    number, asked = ask_old(old)
    (waiting,) = world.pending()
    name = asked["params"].pop("elicitationId")
    assert len(name) >= 32 and asked["params"].keys() == {"mode", "message", "url"}
    assert asked["params"]["url"] == f"{PAGES}ask/{waiting}"
    old.send({"jsonrpc": "2.0", "id": asked["id"], "result": LYING[0]})
    old.works()
    assert world.done == []
    answer(world)
    seen: list[dict[str, Any]] = []
    assert said(old.until(number, seen)["result"]) == "wrote a"
    assert seen == [{"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": name}}]
    approval = world.receipts[-1].approval
    assert approval is not None and (approval.how, approval.by) == ("person", "ann")


def test_an_answer_after_the_call_is_also_notified(world: World, old: Line) -> None:
    number, asked = ask_old(old)
    old.send({"jsonrpc": "2.0", "id": asked["id"], "result": OPENED})
    assert "wasmrt approvals approve" in said(old.until(number)["result"])
    answer(world)
    told = old.read()
    assert (told["method"], told["params"]) == (COMPLETE, {"elicitationId": asked["params"]["elicitationId"]})
    assert said(old.legacy("tools/call", {"name": "write_note", "arguments": NAME})) == "wrote a"


@pytest.mark.parametrize(
    "response", [{"result": {"action": "decline"}}, {"result": {}}, {"error": {"code": -32601, "message": "no"}}]
)
def test_without_a_legacy_clients_page_the_command_still_approves(
    world: World, old: Line, response: dict[str, Any]
) -> None:
    number, asked = ask_old(old)
    old.send({"jsonrpc": "2.0", "id": asked["id"]} | response)
    assert "wasmrt approvals approve" in said(old.until(number)["result"])
    answer(world)
    assert said(old.legacy("tools/call", {"name": "write_note", "arguments": NAME})) == "wrote a"


@pytest.mark.parametrize("version", ["2025-06-18", "2025-03-26"])
def test_revisions_without_url_elicitation_get_no_address(world: World, line: Line, version: str) -> None:
    line.initialize(version, elicitation={"url": {}})
    seen: list[dict[str, Any]] = []
    number = line.request("tools/call", {"name": "write_note", "arguments": NAME})
    assert line.until(number, seen)["result"]["isError"] is True and seen == []


@pytest.mark.usefixtures("patient")
def test_a_legacy_page_request_is_sent_on_the_calls_stream(world: World, site: Site) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"url": {}}}}
    session = site.post(site.message("initialize", params)).headers["mcp-session-id"]
    headers = site.headers(mcp_session_id=session, mcp_protocol_version="2025-11-25")
    message = site.message("tools/call", {"name": "write_note", "arguments": NAME})
    with site.client.stream("POST", site.url, json=message, headers=headers) as stream:
        told = events(stream)
        asked = next(told)
        assert (
            site.post({"jsonrpc": "2.0", "id": asked["id"], "result": OPENED}, mcp_session_id=session).status_code
            == 202
        )
        answer(world)
        complete, result = list(told)
    assert complete["params"] == {"elicitationId": asked["params"]["elicitationId"]}
    assert said(result["result"]) == "wrote a"
