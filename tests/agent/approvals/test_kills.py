"""kill -9 at any moment: no answer is applied twice, and no unused answer is lost."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.agent.approvals.processes import Killed, Step, Work
from tests.agent.approvals.requests import request
from tests.postgres_server import Place, StorePlace
from tests.tiers import kills
from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, ApprovalScope, ApprovalStore, QueueApprover, State
from wasmrt.core.errors import ApprovalError

pytestmark = pytest.mark.ci("kills")

BATCH = 8


def _asks(path: Place, applied: Path, batch: list[ApprovalRequest]) -> Work:
    """Requests each unanswered approval of a batch, and records that the answer was applied."""

    def work(step: Step) -> None:
        approver = QueueApprover(ApprovalStore(path))

        async def one(asked: ApprovalRequest) -> None:
            step()
            try:
                answer = await approver.ask(asked)
            except ApprovalError as error:
                assert error.code == "answered"  # used before: the process that used it was killed
                return
            step()
            assert answer.approved
            with applied.open("a") as file:
                file.write(asked.id + "\n")
            step()

        async def every() -> None:
            await asyncio.gather(*map(one, batch))

        asyncio.run(every())

    return work


def _answers(path: Place, batch: list[ApprovalRequest]) -> Work:
    """Approves all pending requests of the batch, every second one with scope `always`."""

    def work(step: Step) -> None:
        store = ApprovalStore(path)
        ids = [asked.id for asked in batch]
        while any(store.state(i) in (None, State.PENDING) for i in ids):
            for waiting in store.pending():
                scope = ApprovalScope.ALWAYS if ids.index(waiting.id) % 2 else ApprovalScope.ONCE
                step()
                store.answer(waiting.id, ApprovalAnswer(approved=True, scope=scope, by=str(os.getpid())), user="alice")
                step()

    return work


def test_killed_processes_neither_lose_nor_repeat_answers(tmp_path: Path, store_place: StorePlace) -> None:
    path, applied = store_place(tmp_path / "approvals.sqlite3"), tmp_path / "applied"
    killed, every = Killed(kills()), []
    while killed.left > 0:
        batch = [request({"n": len(every) + n}, expires_ms=2**52) for n in range(BATCH)]
        every += batch
        killed.run(_asks(path, applied, batch), _answers(path, batch), most=2 * BATCH)
    store = ApprovalStore(path)
    assert {store.state(r.id) for r in every} == {State.USED}  # every answer was used, in one transaction
    times = Counter(applied.read_text().split())
    assert set(times.values()) == {1}
    assert times.keys() <= {r.id for r in every}
    assert len(every) - len(times) <= (kills() - killed.left) * BATCH
    # Answers of scope `always` are remembered, even if processes were killed afterwards.
    assert all((store.remembered(r) is not None) is bool(n % BATCH % 2) for n, r in enumerate(every))
    found = [store.get(r.id) for r in every]
    assert all(q is not None and q.approved and q.params is None for q in found)
