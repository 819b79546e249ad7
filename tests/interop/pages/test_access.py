"""Access requests on the pages: shown as data, answered by their own users only, narrowed but never widened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.pages.access import asking
from tests.interop.pages.site import Person, Site
from tests.interop.pages.site import site as served_site
from wasmrt.agent.access import AccessState
from wasmrt.runtime.audit import Receipt


def test_an_access_request_shows_its_line_and_is_granted_from_the_list(site: Site, ann: Person) -> None:
    wish = asking(site)
    page = ann.get().text
    assert "1 request waits for you" in page and "Wants more access" in page and "allowed_prefixes" in page
    answered = ann.post(f"access/{wish.id}", answer="grant-once")
    assert answered.status == 303
    assert ">granted once</bdi> by " in ann.get(f"?done={wish.id}").text
    found = site.access.get(wish.id)
    assert found is not None and (found.state, found.by) == (AccessState.GRANTED, "ann")
    assert ann.post(f"access/{wish.id}", answer="deny-session").status == 409


def test_an_access_card_shows_the_name_of_its_client_as_a_claim(site: Site, ann: Person) -> None:
    asking(site, client="agent 2.1 <b>verified</b> by wasmrt")
    page = ann.get().text
    assert "agent 2.1 &lt;b&gt;verified&lt;/\u2026</bdi> (self-named)" in page and "<b>verified" not in page
    assert page.index("(self-named)") < page.index("user ", page.index("Asked by")) < page.index(", with ")


def test_an_access_card_without_a_client_names_none(site: Site, ann: Person) -> None:
    asking(site)
    assert "self-named" not in ann.get().text


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"answer": "grant-keep"}, 422),  # it is not installed
        ({"answer": "grant-session", "narrower": "plans/"}, 422),
        ({"answer": "grant-always"}, 422),
        ({"answer": "allow-once"}, 422),
        ({"answer": "grant-once", "user": "bob"}, 403),
        ({"answer": "grant-once", "form_token": "x"}, 403),
    ],
)
def test_an_invalid_access_answer_changes_nothing(site: Site, ann: Person, fields: dict[str, str], status: int) -> None:
    wish = asking(site)
    assert ann.post(f"access/{wish.id}", **fields).status == status
    assert site.access.pending() == [wish]


def test_narrower_entries_and_permanent_denials_are_recorded(tmp_path: Path) -> None:
    receipts: list[Receipt] = []
    with served_site(tmp_path, receipt=receipts.append) as site:
        ann, wish = site.person(), asking(site)
        fields = {"answer": "grant-session", "narrower": "notes/a.md", "note": "that one"}
        assert ann.post(f"access/{wish.id}", **fields).status == 303
        found = site.access.get(wish.id)
        assert found is not None and found.granted is not None and found.granted.entry == '"notes/a.md"'
        assert ann.post(f"access/{asking(site).id}", answer="deny-keep").status == 303
        assert "narrower" in ann.get(f"access/{wish.id}").text
    assert [(each.kind, each.outcome) for each in receipts] == [("access", "ok"), ("access", "approval-denied")]


def test_an_unknown_access_request_has_no_page(ann: Person) -> None:
    assert ann.get("access/aaaaa-aaaaa").status == 404
    assert ann.post("access/aaaaa-aaaaa", answer="grant-once").status == 404
    assert ann.get("access/<script>").status == 404


def test_without_tools_the_flows_page_names_the_command(ann: Person) -> None:
    assert "wasmrt policy flows" in ann.get("flows").text


def test_a_truncated_request_is_not_granted_from_the_list(site: Site, ann: Person) -> None:
    wish = asking(site, words="x" * 1000)
    page = ann.get().text
    assert 'value="deny-session"' in page and 'value="grant-once"' not in page
    assert "x" * 1000 in ann.get(f"access/{wish.id}").text


def test_permanent_denials_are_listed_and_can_be_forgotten(site: Site, ann: Person) -> None:
    wish = asking(site)
    ann.post(f"access/{wish.id}", answer="deny-keep")
    page = ann.get("remembered").text
    assert "Permanently denied access" in page and "allowed_prefixes" in page
    assert ann.post(f"remembered/{wish.id}").status == 303
    assert site.access.refused() == []
    assert "Permanently denied access" not in ann.get("remembered").text
    assert ann.post(f"remembered/{wish.id}").status == 409
