"""Two users and two clients of one server: no session, stream, result or answer reaches the other one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.interop.mcp_server.site import Site, events
from tests.interop.mcp_server.test_http import ask_old, begin
from tests.interop.mcp_server.world import META
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalScope
from wasmrt.interop.mcp.server.tools import _approver

NAME = {"name": "a"}
ALLOW = {"action": "accept", "content": {"answer": "allow once"}}
LEGACY = "2025-11-25"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_approver, "QUEUE_SECONDS", 0.05)


def session_of(site: Site, user: str = "local", version: str = LEGACY) -> str:
    return begin(site, version, user, elicitation={}).headers["mcp-session-id"]


def call_message(site: Site) -> dict[str, Any]:
    return site.message("tools/call", {"name": "write_note", "arguments": NAME})


# Messages of another user with the session of the first, and the status of the refusal. `{id}` is the pending form.
MESSAGES: dict[str, tuple[dict[str, Any], int]] = {
    "a list": ({"id": 1, "method": "tools/list", "params": {}}, 404),
    "a call": ({"id": 1, "method": "tools/call", "params": {"name": "write_note", "arguments": NAME}}, 404),
    "a ping": ({"id": 1, "method": "ping"}, 404),
    "the answer to its form": ({"id": "{id}", "result": ALLOW}, 400),
    "the refusal of its form": ({"id": "{id}", "result": {"action": "decline"}}, 400),
    "an error for its form": ({"id": "{id}", "error": {"code": 1, "message": "no"}}, 400),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_another_users_session_is_refused_and_stays_usable(site: Site, case: str) -> None:
    message, status = MESSAGES[case]
    session = session_of(site)
    (stream, told), asked = ask_old(site, session)
    sent = json.loads(json.dumps({"jsonrpc": "2.0"} | message).replace("{id}", asked["id"]))
    own = session_of(site, "eve")
    assert site.post(sent, user="eve", mcp_session_id=session).status_code == status
    if "result" in sent or "error" in sent:  # nor does the number of the form work in the user's own session
        assert site.post(sent, user="eve", mcp_session_id=own).status_code == 400
    assert site.world.done == []
    assert site.post({"jsonrpc": "2.0", "id": asked["id"], "result": ALLOW}, mcp_session_id=session).status_code == 202
    assert next(told)["result"]["content"][0]["text"] == "wrote a"
    stream.__exit__(None, None, None)


NOTIFICATIONS = ["notifications/cancelled", "notifications/initialized", "notifications/roots/list_changed"]


@pytest.mark.parametrize("method", NOTIFICATIONS)
def test_a_notification_with_another_users_session_has_no_effect(site: Site, method: str) -> None:
    session = session_of(site)
    (stream, told), asked = ask_old(site, session)
    for number in (1, 2, 3, asked["id"]):
        message = {"jsonrpc": "2.0", "method": method, "params": {"requestId": number}}
        site.post(message, user="eve", mcp_session_id=session)
        site.post(message, user="eve")
    site.post({"jsonrpc": "2.0", "id": asked["id"], "result": ALLOW}, mcp_session_id=session)
    assert next(told)["result"]["content"][0]["text"] == "wrote a"
    stream.__exit__(None, None, None)


# Spellings that are not the session's id; `{id}` is the id.
SPELLINGS = {
    "a guess": "wasmrt-1", "a number": "1", "the same letters in lower case": "lower", "a prefix": "{id:.20}",
    "one letter more": "{id}A", "quotes": '"{id}"', "a list": "{id}, {id}", "the user's name before it": "local:{id}",
    "a path": "../{id}", "encoded": "%{id}", "a NUL encoded": "{id}%00", "an asterisk": "*",
}  # fmt: skip


@pytest.mark.parametrize("case", SPELLINGS)
def test_a_session_has_one_spelling(site: Site, case: str) -> None:
    session = session_of(site)
    wrong = session.lower() if case.endswith("lower case") else SPELLINGS[case].format(id=session)
    for user in ("local", "eve"):
        found = site.post(site.message("tools/list"), user=user, mcp_session_id=wrong, mcp_protocol_version=LEGACY)
        assert found.status_code in (400, 404), user
    assert site.post(site.message("tools/list"), mcp_session_id=session).status_code == 200


def test_two_session_headers_are_not_a_session(site: Site) -> None:
    session, other = session_of(site), session_of(site, "eve")
    for pair in ((session, other), (other, session), (session, session)):
        headers = [*site.headers("eve").items(), *(("mcp-session-id", each) for each in pair)]
        found = site.client.post(site.url, json=call_message(site), headers=headers)
        assert found.status_code in (400, 404)
    assert site.world.done == [] and site.world.pending() == []


def test_a_batch_in_another_users_session_is_refused(site: Site) -> None:
    session = session_of(site, version="2025-06-18")
    found = site.client.post(site.url, json=[call_message(site)], headers=site.headers("eve", mcp_session_id=session))
    assert found.status_code == 404 and site.world.pending() == []


def test_initialize_with_another_users_session_opens_an_own_one(site: Site) -> None:
    session = session_of(site)
    params = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}}
    found = site.post(site.message("initialize", params), user="eve", mcp_session_id=session)
    own = found.headers["mcp-session-id"]
    assert own != session
    assert site.post(site.message("tools/list"), mcp_session_id=own).status_code == 404
    assert site.post(site.message("tools/list"), user="eve", mcp_session_id=own).status_code == 200
    assert site.post(site.message("tools/list"), mcp_session_id=session).status_code == 200


def test_a_form_is_answered_only_in_its_own_session_of_one_user(site: Site) -> None:
    first, second = session_of(site), session_of(site)
    (stream, told), asked = ask_old(site, first)
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": ALLOW}
    assert site.post(answer, mcp_session_id=second).status_code == 400
    assert site.world.done == []
    assert site.post(answer, mcp_session_id=first).status_code == 202
    assert next(told)["result"]["content"][0]["text"] == "wrote a"
    assert site.post(answer, mcp_session_id=first).status_code == 400, "an answer is accepted once"
    stream.__exit__(None, None, None)


# -- streams -----------------------------------------------------------------------------------------------------------


@contextmanager
def running(site: Site, user: str, tool: str = "begin") -> Iterator[Iterator[dict[str, Any]]]:
    """Start a call with the same id and progress token for every user, and return its stream."""
    params = {"name": tool, "arguments": {}, "_meta": META | {"progressToken": "p"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = site.headers(user, mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name=tool)
    with site.client.stream("POST", site.url, json=message, headers=headers) as stream:
        yield events(stream)


def test_equal_ids_and_progress_tokens_of_two_users_do_not_meet(site: Site) -> None:
    with running(site, "local") as told:
        assert next(told)["params"] == {"progressToken": "p", "progress": 1, "message": "begun"}
        with running(site, "eve") as others:
            assert next(others)["method"] == "notifications/progress"
        assert site.world.ended.wait(20)  # leaving the stream cancels only the call of that user
        site.world.go.set()
        (last,) = told
        assert last["result"]["content"][0]["text"] == "waited"


@pytest.mark.parametrize(
    "headers", [{}, {"mcp_session_id": "x"}, {"last_event_id": "1"}], ids=["plain", "id", "resumed"]
)
def test_a_cancellation_of_another_user_does_not_end_a_call(site: Site, headers: dict[str, str]) -> None:
    with running(site, "local") as told:
        next(told)
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert site.post(message, user="eve", **headers).status_code in (202, 404)
        site.works()
        assert not site.world.ended.is_set()
        site.world.go.set()
        assert [each["result"]["content"][0]["text"] for each in told] == ["waited"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT"])
def test_a_stream_cannot_be_resumed(site: Site, method: str) -> None:
    session = session_of(site)
    (stream, told), asked = ask_old(site, session)
    for user in ("local", "eve"):
        for event in ("0", "1", asked["id"]):
            sent = site.headers(user, mcp_session_id=session, last_event_id=event)
            found = site.client.request(method, site.url, headers=sent)
            assert found.status_code == 405 and asked["id"] not in found.text
    site.post({"jsonrpc": "2.0", "id": asked["id"], "result": ALLOW}, mcp_session_id=session)
    assert next(told)["result"]["content"][0]["text"] == "wrote a"
    stream.__exit__(None, None, None)


def test_renewing_one_users_token_leaves_the_other_users_stream_open(site: Site) -> None:
    with ExitStack() as held:
        streams = {}
        for user in ("local", "eve"):
            message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
                       "params": {"_meta": META, "notifications": {"toolsListChanged": True}}}  # fmt: skip
            sent = site.headers(user, mcp_protocol_version="2026-07-28", mcp_method="subscriptions/listen")
            streams[user] = events(held.enter_context(site.client.stream("POST", site.url, json=message, headers=sent)))
            next(streams[user])
        site.users.renew("eve")
        site.world.registry.remove("media")
        site.world.refresh()
        assert next(streams["local"])["method"] == "notifications/tools/list_changed"
        assert list(streams["eve"]) == []


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [ApprovalScope.ONCE, ApprovalScope.SESSION, ApprovalScope.ALWAYS])
def test_an_answer_for_one_user_does_not_apply_to_another(site: Site, scope: ApprovalScope) -> None:
    site.call("jot", NAME)
    (waiting,) = site.world.pending()
    site.world.store.answer(waiting, ApprovalAnswer(approved=True, scope=scope, by="ann"), user="local")
    assert "Tell the user to run" in site.call("jot", NAME, user="eve")["content"][0]["text"]
    assert site.call("jot", NAME)["content"][0]["text"] == "jotted a"
    assert site.call("jot", NAME, user="eve")["isError"] is True
