"""Races for one approval over real HTTP: a client, its repetitions and the approvals page at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_server.site import Site
from tests.interop.mcp_server.test_http import ask_old, begin
from tests.interop.mcp_server.world import FORMS
from tests.interop.pages.site import Person
from tests.interop.pages.site import site as served_site
from wasmrt.agent.approvals import State
from wasmrt.interop.mcp.server.tools import _approver

NAME = {"name": "a"}
ALLOW = {"action": "accept", "content": {"answer": "allow once"}}
DENY = {"action": "accept", "content": {"answer": "deny"}}
AT_ONCE = 6


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_approver, "QUEUE_SECONDS", 0.05)


@pytest.fixture
def ann(tmp_path: Path) -> Iterator[Person]:
    """Return the operator on the approvals page, which has the same store as the server."""
    with served_site(tmp_path) as pages:
        yield pages.person()


def together(*acts: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(acts)) as threads:
        return [each.result(60) for each in [threads.submit(act) for act in acts]]


def waiting(site: Site) -> str:
    (found,) = site.world.pending()
    return found


def call(site: Site, **more: Any) -> dict[str, Any]:
    return site.call("write_note", more.pop("arguments", NAME), **more)


def answered(ann: Person, request: str, answer: str = "allow-once") -> int:
    return ann.post(f"requests/{request}", answer=answer, user="local").status


def test_one_approval_lets_one_of_many_equal_calls_run(site: Site, ann: Person) -> None:
    call(site)
    assert answered(ann, waiting(site)) == 303
    together(*[lambda: call(site)] * AT_ONCE)
    assert site.world.done == ["a"]


def test_of_two_answers_at_once_the_call_follows_the_one_that_counted(site: Site, ann: Person) -> None:
    for _ in range(3):
        site.world.done.clear()
        call(site)
        request = waiting(site)
        allowed, denied, *_ = together(
            partial(answered, ann, request), partial(answered, ann, request, "deny-once"), *[partial(call, site)] * 3
        )
        assert sorted((allowed, denied)) == [303, 409]
        together(*[lambda: call(site)] * 2)
        assert site.world.done in ([], ["a"]) and (allowed == 303 or site.world.done == [])
        for left in site.world.pending():
            site.world.store.withdraw(left)


# Calls that differ from the approved one.
CHANGED: dict[str, dict[str, Any]] = {
    "another value": {"arguments": {"name": "b"}},
    "a longer value": {"arguments": {"name": "a "}},
    "a value that looks the same": {"arguments": {"name": "\u0430"}},
    "an argument more": {"arguments": {"name": "a", "more": 1}},
    "another type": {"arguments": {"name": ["a"]}},
    "another user": {"user": "eve"},
}


@pytest.mark.parametrize("case", CHANGED)
def test_an_approval_does_not_apply_to_a_changed_call(site: Site, ann: Person, case: str) -> None:
    call(site)
    request = waiting(site)
    assert answered(ann, request) == 303
    together(*[lambda: call(site, **CHANGED[case])] * 2)
    assert site.world.done == []
    assert site.world.store.state(request) is State.ANSWERED, "the answer is still unused"
    call(site)
    assert site.world.done == ["a"]


def answer_state(site: Site, state: str, said: Any, **more: Any) -> dict[str, Any]:
    params = {"name": "write_note", "arguments": NAME, "inputResponses": {"approval": said}, "requestState": state}
    found: dict[str, Any] = site.post(site.message("tools/call", params | {"_meta": FORMS}), **more).json()
    return found


def test_a_state_that_is_sent_many_times_at_once_is_used_once(site: Site) -> None:
    state = call(site, _meta=FORMS)["requestState"]
    found = together(*[lambda: answer_state(site, state, ALLOW)] * AT_ONCE)
    assert site.world.done == ["a"]
    assert sum("error" in each for each in found) == AT_ONCE - 1


def test_an_approval_and_a_denial_of_one_state_at_once_count_once(site: Site) -> None:
    for _ in range(3):
        site.world.done.clear()
        state = call(site, _meta=FORMS)["requestState"]
        found = together(partial(answer_state, site, state, ALLOW), partial(answer_state, site, state, DENY))
        assert sum("error" in each for each in found) == 1
        assert site.world.done == ([] if "error" in found[0] else ["a"])


def test_a_state_used_by_another_user_first_still_belongs_to_its_user(site: Site) -> None:
    state = call(site, _meta=FORMS)["requestState"]
    together(*[lambda: answer_state(site, state, ALLOW, user="eve")] * AT_ONCE)
    assert site.world.done == []
    answer_state(site, state, ALLOW)
    assert site.world.done == ["a"]


def test_a_legacy_form_answered_many_times_at_once_counts_once(site: Site) -> None:
    session = begin(site, elicitation={}).headers["mcp-session-id"]
    (stream, told), asked = ask_old(site, session)
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": ALLOW}
    found = together(*[lambda: site.post(answer, mcp_session_id=session).status_code] * AT_ONCE)
    assert sorted(found) == [202, *[400] * (AT_ONCE - 1)]
    assert next(told)["result"]["content"][0]["text"] == "wrote a"
    assert site.world.done == ["a"]
    stream.__exit__(None, None, None)


def test_a_form_and_the_page_at_once_run_the_call_at_most_once(site: Site, ann: Person) -> None:
    for answer in ("allow-once", "deny-once"):
        site.world.done.clear()
        state = call(site, _meta=FORMS)["requestState"]
        request = waiting(site)
        together(partial(answer_state, site, state, ALLOW), partial(answered, ann, request, answer))
        call(site)
        assert len(site.world.done) <= 1
        assert site.world.store.state(request) in (State.USED, State.ANSWERED)
        for left in site.world.pending():
            site.world.store.withdraw(left)


def test_a_revoked_answer_does_not_apply_to_the_next_call(site: Site, ann: Person) -> None:
    site.call("jot", NAME)
    assert answered(ann, waiting(site), "allow-always") == 303
    assert site.call("jot", NAME)["content"][0]["text"] == "jotted a"
    assert site.call("jot", NAME)["content"][0]["text"] == "jotted a"
    (kept,) = site.world.store.answers()
    assert ann.post(f"remembered/{kept.id}").status == 303
    assert site.call("jot", NAME)["isError"] is True
    assert len(site.world.pending()) == 1


@pytest.mark.parametrize("answer", ["allow-once", "allow-session", "allow-always"])
def test_an_answer_after_the_call_was_cancelled_has_no_effect(site: Site, ann: Person, answer: str) -> None:
    session = begin(site, elicitation={}).headers["mcp-session-id"]
    (stream, _events), _ = ask_old(site, session)  # collecting the events would end the stream
    request = waiting(site)
    stream.__exit__(None, None, None)
    while site.world.store.state(request) is State.PENDING:
        site.works()  # until the server has seen the end of the stream
    assert answered(ann, request, answer) == 409
    assert site.world.done == [] and not site.world.store.answers()
    assert call(site)["isError"] is True
