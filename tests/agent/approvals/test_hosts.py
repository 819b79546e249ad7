"""Hosts that share approvals in PostgreSQL: leases of their processes, and a database that cannot be reached."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from tests.agent.approvals.processes import forking
from tests.agent.approvals.test_owners import lasting
from tests.postgres_server import PostgresServer
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, ApprovalStore, State, _owners, _requests
from wasmrt.core.errors import ApprovalError
from wasmrt.core.postgres import Postgres

YES = ApprovalAnswer(approved=True, by="ann")


def add_on_another_host(place: Postgres, asked: ApprovalRequest) -> None:
    """Add a request in a process of another host, which then loses its power."""
    with forking():
        child = os.fork()
    if child == 0:
        _owners._get_pid_scope = lambda: "another-boot/1"
        ApprovalStore(place).add(asked)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def leases(place: Postgres) -> list[tuple[str, int]]:
    with place.connect("wasmrt_approvals") as db:
        return [(row[0], row[1]) for row in db.execute("SELECT owner, until_ms FROM lease").fetchall()]


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        threading.Event().wait(0.02)
    pytest.fail("the lease did not change")


@pytest.mark.parametrize("answered", [False, True])
def test_requests_of_another_host_lapse_when_its_lease_ends(postgres: Postgres, answered: bool) -> None:
    store, asked = ApprovalStore(postgres), lasting(client="editor 1")
    add_on_another_host(postgres, asked)
    assert [each.id for each in store.pending()] == [asked.id], "its lease has not ended"
    if answered:
        store.answer(asked.id, YES, user=asked.user)
    with postgres.connect("wasmrt_approvals") as db:
        db.execute("UPDATE lease SET until_ms = 0")
    for use in (lambda: store.answer(asked.id, YES, user=asked.user), lambda: store.take(asked.id)):
        with pytest.raises(ApprovalError) as caught:
            use()
        assert caught.value.code == "withdrawn"
    assert store.state(asked.id) is State.WITHDRAWN


def test_a_process_renews_its_lease_while_its_requests_are_open(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_requests, "OWNER_LEASE_SECONDS", 3)
    store, asked = ApprovalStore(postgres), lasting(client="editor 1")
    store.add(asked)
    ((owner, until),) = leases(postgres)
    assert owner == _owners.this_process()
    wait_until(lambda: leases(postgres)[0][1] > until)
    store.answer(asked.id, YES, user=asked.user)
    assert store.take(asked.id) is not None
    wait_until(lambda: leases(postgres) == [])
    store.add(lasting(client="editor 1", id=asked.id + "x"))
    assert len(leases(postgres)) == 1


def test_an_answer_on_one_host_is_used_once_on_the_other(postgres: Postgres) -> None:
    here, there, asked = ApprovalStore(postgres), ApprovalStore(postgres), lasting()
    here.add(asked)
    there.answer(asked.id, YES, user=asked.user)
    together, taken = threading.Barrier(8), []

    def take(store: ApprovalStore) -> None:
        together.wait(30)
        try:
            taken.append(store.take(asked.id))
        except ApprovalError as error:
            taken.append(error.code)

    threads = [threading.Thread(target=take, args=(store,)) for store in (here, there) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert taken.count("answered") == 7 and len(taken) == 8


def test_without_the_database_nothing_is_asked_answered_or_remembered(
    postgres: Postgres, postgres_server: PostgresServer
) -> None:
    store, asked = ApprovalStore(postgres), lasting()
    store.add(asked)
    postgres_server.stop()
    try:
        for use in (
            lambda: store.add(lasting(id="another")),
            lambda: store.answer(asked.id, YES, user=asked.user),
            lambda: store.take(asked.id),
            lambda: store.remembered(asked),
            store.pending,
            store.version,
        ):
            with pytest.raises(ApprovalError) as caught:
                use()
            assert caught.value.code == "approval-store"
    finally:
        postgres_server.start()
    assert store.take(asked.id) is None
    assert [each.id for each in store.pending()] == [asked.id]
