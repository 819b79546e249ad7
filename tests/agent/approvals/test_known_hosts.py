"""The first request of a tool to a host is marked as such, until a call to that host was approved."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.agent.approvals.requests import request
from tests.postgres_server import Place, StorePlace
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, Approvals, ApprovalStore, CallbackApprover
from wasmrt.core.effects import Effect

HTTP = (Effect.NETWORK, Effect.EXTERNAL_WRITE)


class Asked:
    """Decides requests, and records the new hosts that the approver saw."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def __call__(self, url: str, *, approve: bool = True, edited: str = "", **changed: Any) -> tuple[str, ...]:
        seen: list[tuple[str, ...]] = []

        def answer(asked: ApprovalRequest) -> ApprovalAnswer:
            seen.append(asked.new_hosts)
            return ApprovalAnswer(approved=approve, by="bob", params={"url": edited} if edited else None)

        approvals = Approvals(CallbackApprover(answer), store=ApprovalStore(self.place))
        effects = changed.pop("effects", HTTP)
        asyncio.run(
            approvals.decide(request({"url": url}, tool=changed.pop("tool", "http"), effects=effects, **changed))
        )
        return seen[0]


@pytest.fixture
def ask(tmp_path: Path, store_place: StorePlace) -> Asked:
    return Asked(store_place(tmp_path / "approvals.sqlite3"))


def test_a_host_is_new_until_a_call_to_it_was_approved(ask: Asked) -> None:
    assert ask("https://a.example/x", approve=False) == ("a.example",)
    assert ask("https://a.example/x") == ("a.example",), "a denied call makes no host known"
    assert ask("https://a.example/y") == ()
    assert ask("https://a.example:8443/y") == ("a.example:8443",)
    assert ask("https://b.example/x") == ("b.example",)


def test_a_host_is_known_for_one_tool_and_user(ask: Asked) -> None:
    ask("https://a.example/x")
    assert ask("https://a.example/x", tool="fetch") == ("a.example",)
    assert ask("https://a.example/x", user="eve") == ("a.example",)


def test_an_edited_approval_makes_the_edited_host_known(ask: Asked) -> None:
    ask("https://a.example/x", edited="https://b.example/x")
    assert (ask("https://a.example/x", approve=False), ask("https://b.example/x")) == (("a.example",), ())


def test_calls_without_network_have_no_new_hosts(ask: Asked) -> None:
    assert ask("https://a.example/x", effects=(Effect.WRITE_MEMORY,)) == ()


def test_the_database_contains_no_name_of_a_host(tmp_path: Path) -> None:
    ask = Asked(tmp_path / "approvals.sqlite3")
    ask("https://a.example/x")
    assert not any(b"a.example" in path.read_bytes() for path in tmp_path.iterdir())


def test_the_number_of_known_hosts_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.agent.approvals._known_hosts.MAX_KNOWN_HOSTS", 1)
    ask = Asked(tmp_path / "approvals.sqlite3")
    for host in ("a.example", "b.example"):
        ask(f"https://{host}/")
    assert (ask("https://a.example/"), ask("https://b.example/")) == ((), ("b.example",))


def test_new_hosts_are_stored_with_a_waiting_request(ask: Asked) -> None:
    store = ApprovalStore(ask.place)
    asked = request(new_hosts=("a.example",))
    store.add(asked)
    found = store.get(asked.id)
    assert found is not None and found.request == asked
