"""The choice of an approver, as the command and the web page apply it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.approvals.requests import request
from wasmrt.agent.approvals import ApprovalScope, ApprovalStore, Choice, State, Wide, Widening, choose, describe_reach
from wasmrt.core.errors import ApprovalError, ConfigurationError

ANY = Widening(Wide.ANY)


@pytest.fixture
def store(tmp_path: Path) -> ApprovalStore:
    return ApprovalStore(tmp_path / "approvals.sqlite3")


def test_a_choice_is_applied_and_described(store: ApprovalStore) -> None:
    for choice, words in (
        (Choice(approved=True), "this once"),
        (
            Choice(approved=False, scope=ApprovalScope.SESSION),
            "in this session, for the same method, hosts, recipients and folders",
        ),
        (Choice(approved=True, scope=ApprovalScope.ALWAYS), "from now on (exactly these parameters)"),
        (
            Choice(approved=True, scope=ApprovalScope.ALWAYS, widened=(("text", ANY),)),
            "from now on (text: anything, other parameters unchanged)",
        ),
    ):
        asked = request()
        store.add(asked)
        answer = choose(store, asked.id, choice, user="alice", by="ann")
        assert describe_reach(answer) == words
        taken = store.take(asked.id)
        assert taken is not None
        assert (taken.approved, taken.scope, taken.by) == (choice.approved, choice.scope, "ann")


def test_widening_params_for_a_single_call_is_rejected(store: ApprovalStore) -> None:
    asked = request()
    store.add(asked)
    for scope in (ApprovalScope.ONCE, ApprovalScope.SESSION):
        with pytest.raises(ConfigurationError, match='requires the scope "always"'):
            choose(
                store, asked.id, Choice(approved=True, scope=scope, widened=(("text", ANY),)), user="alice", by="ann"
            )
    assert store.state(asked.id) is State.PENDING


def test_widening_does_not_reveal_params_of_another_user(store: ApprovalStore) -> None:
    asked = request({"private": 1})
    store.add(asked)
    choice = Choice(approved=True, scope=ApprovalScope.ALWAYS, widened=(("guess", ANY),))
    with pytest.raises(ApprovalError) as refused:
        choose(store, asked.id, choice, user="mallory", by="mallory")
    assert refused.value.code == "other-user"
    assert "private" not in f"{refused.value.message} {refused.value.hint}"
