"""Answers on the page: the choices of `wasmrt approvals`, each of which counts once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.agent.approvals.requests import request
from tests.interop.pages.access import asking
from tests.interop.pages.site import Person, Site
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalScope, State, Wide
from wasmrt.agent.flows import PROPOSE_PLAN, Plan


def test_a_request_page_shows_the_whole_request(site: Site, ann: Person) -> None:
    asked = request(preview="--- a\n+++ b\n-old\n+new")
    site.store.add(asked)
    for page in (ann.get().text, ann.get(f"requests/{asked.id}").text):
        for part in ("Changes files", ">Change <", "write_file", "write_file writes", "alice", "t1", asked.id,
                     "notes/a.txt", "-old", "+new"):  # fmt: skip
            assert part in page
    assert "write-filesystem" in page


def test_a_request_page_shows_which_values_of_a_plan_the_results_choose(site: Site, ann: Person) -> None:
    read = {"tool": "read", "effects": ["network"]}
    pay = {"tool": "pay", "effects": ["financial"], "params": {"iban": {"from": "read", "choice": True}}}
    plan = {"steps": [read, pay]}
    asked = request({"plan": plan}, tool=PROPOSE_PLAN, preview=Plan.of(plan).text)
    site.store.add(asked)
    assert "iban: a value in the results of step 1, any of several values" in ann.get(f"requests/{asked.id}").text


@pytest.mark.parametrize(
    ("button", "approved", "scope"),
    [
        ("allow-once", True, ApprovalScope.ONCE),
        ("allow-session", True, ApprovalScope.SESSION),
        ("allow-always", True, ApprovalScope.ALWAYS),
        ("deny-once", False, ApprovalScope.ONCE),
        ("deny-session", False, ApprovalScope.SESSION),
    ],
)
def test_each_button_gives_its_answer(
    site: Site, ann: Person, button: str, approved: bool, scope: ApprovalScope
) -> None:
    asked = request()
    site.store.add(asked)
    assert f'value="{button}"' in ann.get(f"requests/{asked.id}").text
    assert (f'value="{button}"' in ann.get().text) is button.endswith("-once"), "others are one step away"
    answer = ann.post(f"requests/{asked.id}", answer=button)
    assert (answer.status, answer.headers["location"]) == (303, f"{ann.root}?done={asked.id}")
    found = site.store.get(asked.id)
    assert found is not None
    assert (found.state, found.approved, found.scope, found.by) == (State.ANSWERED, approved, scope, "ann")
    verb = "was approved" if approved else "was denied"
    assert verb in ann.get(f"?done={asked.id}").text
    assert len(site.store.answers()) == (scope is ApprovalScope.ALWAYS)


def test_a_permanent_answer_is_widened_as_the_form_says(site: Site, ann: Person) -> None:
    asked = request({"path": "notes/a.txt", "text": "hello", "rows": [{"url": "https://example.com/a"}]})
    site.store.add(asked)
    page = ann.get(f"requests/{asked.id}").text
    places = ["path", "text", "rows", "rows/0", "rows/0/url"]
    assert all(f'aria-label="{place} may be"' in page for place in places)
    answer = ann.post(
        f"requests/{asked.id}", answer="allow-always", note="for the notes", **{
            "may-0": "below", "text-0": "notes/", "may-1": "any", "may-2": "same",
            "may-4": "starts", "text-4": "https://example.com/",
        },
    )  # fmt: skip
    assert answer.status == 303
    [kept] = site.store.answers()
    assert kept.note == "for the notes"
    assert kept.pattern is not None
    assert {pointer: (w.kind, w.text) for pointer, w in kept.pattern.widened.items()} == {
        "/path": (Wide.BELOW, "notes/"),
        "/text": (Wide.ANY, ""),
        "/rows/0/url": (Wide.STARTS, "https://example.com/"),
    }


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"may-0": "below", "text-0": "elsewhere/"}, "does not match below elsewhere"),
        ({"may-0": "starts", "text-0": ""}, "would match every string"),
        ({"may-0": "starts", "text-0": "https://example.com"}, "would match other hosts"),
        ({"may-0": "below", "text-0": "../"}, "expected a folder"),
        ({"may-0": "any", "text-0": "notes/"}, "a pattern that allows any value cannot also have a text"),
        ({"may-0": "same", "text-0": "notes/"}, "no choice was made"),
        ({"may-0": "nothing"}, "no choice was made"),
        ({"answer": "maybe"}, "contains no answer"),
        ({"answer": "allow-forever"}, "contains no answer"),
        ({"answer": "allow"}, "contains no answer"),
        ({"answer": "edit-once", "params": "[1]"}, "expected the parameters as a JSON object"),
        ({"answer": "edit-once", "params": "{"}, "the parameters are"),
        ({"answer": "edit-once"}, "the parameters are"),
    ],
)
def test_a_mistake_changes_nothing_and_keeps_the_entered_text(
    site: Site, ann: Person, fields: dict[str, str], problem: str
) -> None:
    asked = request()
    site.store.add(asked)
    answer = ann.post(f"requests/{asked.id}", **{"answer": "allow-always", "note": "my words"} | fields)
    assert answer.status == 422
    assert 'role="alert"' in answer.text
    assert problem in answer.text
    assert 'value="my words"' in answer.text
    assert site.store.state(asked.id) is State.PENDING
    assert not site.store.answers()


def test_the_calls_own_parameters_can_be_widened_after_a_large_one(site: Site, ann: Person) -> None:
    asked = request({"rows": [[number] for number in range(100)], "path": "notes/a.txt", "a/b~c": 1})
    site.store.add(asked)
    page = ann.get(f"requests/{asked.id}").text
    assert page.index('aria-label="path may be"') < page.index('aria-label="rows/0 may be"')
    assert 'name="may-2"' in page and "Not all values are listed" in page
    assert ann.post(f"requests/{asked.id}", answer="allow-always", **{"may-2": "any"}).status == 303
    [kept] = site.store.answers()
    assert kept.pattern is not None
    assert list(kept.pattern.widened) == ["/a~1b~0c"]


def test_of_concurrent_answers_one_counts_and_the_others_are_informed(site: Site) -> None:
    asked = request()
    site.store.add(asked)
    people = [site.person() for _ in range(6)]
    for each in people:
        each.get()
    answers = [("allow-once", "deny-once")[number % 2] for number in range(6)]
    with ThreadPoolExecutor(6) as threads:
        got = list(threads.map(lambda who, what: who.post(f"requests/{asked.id}", answer=what), people, answers))
    assert sorted(each.status for each in got) == [303, 409, 409, 409, 409, 409]
    won = answers[next(number for number, each in enumerate(got) if each.status == 303)]
    found = site.store.get(asked.id)
    assert found is not None
    assert found.approved is (won == "allow-once")
    for each in got:
        if each.status == 409:
            assert "was already answered; nothing was changed" in each.text
            assert ("was approved" if found.approved else "was denied") in each.text
            assert ">ann</bdi>" in each.text
            assert '<button type="submit" name="answer"' not in each.text


def test_an_ended_request_shows_its_outcome_and_accepts_no_answer(site: Site, ann: Person) -> None:
    late = request(created_ms=1, expires_ms=2)
    withdrawn, outdated, by_command = request(), request(tool="other"), request()
    for each in (late, withdrawn, outdated, by_command):
        site.store.add(each)
    site.store.withdraw(withdrawn.id)
    site.store.tool_changed("other", digest="d2", grant="g1")
    site.store.answer(by_command.id, ApprovalAnswer(approved=True, by="bob", note="go on"), user="alice")
    for asked, words in (
        (late, "has expired"),
        (withdrawn, "was withdrawn"),
        (outdated, "has been updated"),
        (by_command, ">bob</bdi>"),
    ):
        assert asked.id not in ann.get().text
        assert words in ann.get(f"requests/{asked.id}").text
        answer = ann.post(f"requests/{asked.id}", answer="allow-once")
        assert answer.status == 409
        assert words in answer.text
        assert "nothing was changed" in answer.text
        assert words in ann.get("remembered").text


def test_an_answer_applies_to_the_user_of_the_request(site: Site, ann: Person) -> None:
    asked = request(user="bob")
    site.store.add(asked)
    assert ann.get(f"requests/{asked.id}").field("user") == "bob"
    answer = ann.post(f"requests/{asked.id}", answer="allow-once", user="alice")
    assert answer.status == 403
    assert site.store.state(asked.id) is State.PENDING
    assert ann.post(f"requests/{asked.id}", answer="allow-once", user="bob").status == 303


def test_an_answer_that_cannot_be_remembered_is_not_offered(site: Site, ann: Person) -> None:
    for asked in (request(digest=""), request(trace="")):
        site.store.add(asked)
        page = ann.get(f"requests/{asked.id}").text
        assert 'value="allow-session"' not in page
        assert ('value="allow-always"' in page) is bool(asked.digest)
        answer = ann.post(f"requests/{asked.id}", answer="allow-session")
        assert (answer.status, site.store.state(asked.id)) == (422, State.PENDING)


def test_a_truncated_request_cannot_be_allowed_from_the_list(site: Site, ann: Person) -> None:
    asked = request({"text": "x" * 5000, "end": "rm -rf"})
    site.store.add(asked)
    page = ann.get().text
    assert "Text was cut." in page and "\u2026" in page
    assert 'value="deny-once"' in page
    assert 'value="allow' not in page
    whole = ann.get(f"requests/{asked.id}").text
    assert "x" * 5000 in whole
    assert whole.index("x" * 5000) < whole.index('value="allow-once"'), "it is allowed behind its text"


def test_hidden_parameters_and_warnings_cannot_be_allowed_from_the_list(site: Site, ann: Person) -> None:
    for params in ({f"p{number}": 1 for number in range(5)}, {"a": "x" * 91}, {"path": "x/" * 40}):
        asked = request(params)
        site.store.add(asked)
        assert 'value="allow' not in ann.get().text
        site.store.withdraw(asked.id)


def test_a_client_is_shown_by_the_name_that_it_gave(site: Site, ann: Person) -> None:
    asked = request(client="agent 2.1 <b>verified</b>" + "x" * 300)
    site.store.add(asked)
    for page in (ann.get().text, ann.get(f"requests/{asked.id}").text):
        assert "agent 2.1 &lt;b&gt;verified&lt;/\u2026</bdi> (self-named)" in page


def test_the_reason_of_an_agent_is_shown_as_a_claim(site: Site, ann: Person) -> None:
    site.store.add(request({"path": "a.txt", "reason": "<b>fix</b> the build"}))
    page = ann.get().text
    assert "Agent&#x27;s reason</dt><dd>" in page
    assert page.count("&lt;b&gt;fix&lt;/b&gt; the build</bdi> (a claim)") == 1 == page.count("fix&lt;/b&gt;")
    site.store.add(request({"path": "a.txt", "reason": "x" * 161}))
    assert "Text was cut." in ann.get().text


def test_the_first_request_to_a_host_is_marked(site: Site, ann: Person) -> None:
    site.store.add(request(new_hosts=("hooks.example.com",)))
    assert "<b>First request to</b> <bdi" in ann.get().text


def test_a_call_is_allowed_once_with_edited_parameters(site: Site, ann: Person) -> None:
    asked = request()
    site.store.add(asked)
    answer = ann.post(f"requests/{asked.id}", answer="edit-once", params='{"path": "notes/b.txt", "text": "x"}')
    assert answer.status == 303
    taken = site.store.take(asked.id)
    assert taken is not None and taken.params == {"path": "notes/b.txt", "text": "x"}
    assert (taken.approved, taken.scope) == (True, ApprovalScope.ONCE)


def test_the_state_lists_the_pending_requests(site: Site, ann: Person) -> None:
    asked, wish = request(), asking(site)
    site.store.add(asked)
    assert json.loads(ann.get("state").text) == {"open": [asked.id, wish.id]}
    site.store.answer(asked.id, ApprovalAnswer(approved=True, by="bob"), user="alice")
    assert json.loads(ann.get("state").text) == {"open": [wish.id]}


def test_a_remembered_answer_is_forgotten_once(site: Site, ann: Person) -> None:
    asked = request()
    site.store.add(asked)
    ann.post(f"requests/{asked.id}", answer="allow-always")
    [kept] = site.store.answers()
    assert kept.id in ann.get("remembered").text
    assert ann.post(f"remembered/{kept.id}").status == 303
    assert not site.store.answers()
    again = ann.post(f"remembered/{kept.id}")
    assert again.status == 409
    assert "was already forgotten" in again.text


def test_an_unknown_request_has_no_page(site: Site, ann: Person) -> None:
    for path in ("requests/aaaaa-bbbbb", "requests/", "requests/a/b", "requests/../receipts", "nothing", "state/x"):
        assert ann.get(path).status == 404
    for path in ("requests/aaaaa-bbbbb", "remembered/x", "receipts", "grants", ""):
        assert ann.post(path, answer="allow-once").status == 404
    assert ann.get("remembered?a=1&a=2").status == 404


def test_an_unreadable_store_is_reported_and_nothing_is_done(site: Site, ann: Person) -> None:
    ann.get()
    (site.data / "approvals.sqlite3").unlink(missing_ok=True)
    (site.data / "approvals.sqlite3").write_bytes(b"no database")
    (site.data / "approvals.sqlite3").chmod(0o600)
    answer = ann.get()
    assert (answer.status, 'role="alert"' in answer.text) == (503, True)
    assert ann.post("requests/aaaaa-bbbbb", answer="allow-once").status == 503
