"""Several calls of one turn: their order, their approvals, and the effect of a denial on other calls."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent.registry.conftest import Notebook, read_note
from tests.tiers import examples
from wasmrt import ApprovalAnswer, Approvals, CallbackApprover, ToolCall, ToolPolicy, ToolRegistry, tool
from wasmrt.agent.approvals import ApprovalRequest
from wasmrt.agent.policy import Permission, ToolRule


class Later:
    """Answers requests when the test releases them, in any order."""

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[bool]] = {}
        self.asked = asyncio.Event()
        self.expected = 0

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Wait for the answer of the test."""
        future = self.waiting[request.params["name"]] = asyncio.get_running_loop().create_future()
        if len(self.waiting) >= self.expected:
            self.asked.set()
        return ApprovalAnswer(approved=await future, by="ann")


def test_read_only_calls_run_concurrently() -> None:
    meeting = threading.Barrier(4)

    @tool(effects=["read-filesystem"])
    def meet(n: int) -> int:
        """Meet."""
        meeting.wait(20)  # passes when all four have arrived
        return n

    registry = ToolRegistry()
    registry.register(meet)
    answers = registry.execute_many([ToolCall(str(n), "meet", {"n": n}) for n in range(4)])
    assert [(answer.id, answer.output.result) for answer in answers if answer.output] == [
        ("0", 0),
        ("1", 1),
        ("2", 2),
        ("3", 3),
    ]


def test_calls_with_changes_run_one_after_the_other_in_order(notebook: Notebook) -> None:
    registry = ToolRegistry(policy=ToolPolicy(rules=(ToolRule(tool="*", permission=Permission.ALLOW),)))
    registry.register(notebook.write_note)
    registry.register(read_note)
    names = [str(n) for n in range(10)]
    answers = registry.execute_many(
        [ToolCall(n, "write_note" if int(n) % 3 else "read_note", {"name": n}) for n in names]
    )
    assert notebook.done == [n for n in names if int(n) % 3]
    assert [answer.id for answer in answers] == names
    assert all(answer.ok for answer in answers)


def test_a_failed_or_denied_call_does_not_stop_the_others(registry: ToolRegistry, notebook: Notebook) -> None:
    notebook.answers["yes"] = True
    answers = registry.execute_many(
        [
            ToolCall("1", "write_note", {"name": "no"}),
            ToolCall("2", "nothing", {}),
            ToolCall("3", "write_note", "{"),
            ToolCall("4", "write_note", {"name": "yes"}),
            ToolCall("5", "read_note", {"name": "a"}),
        ]
    )
    assert [answer.ok for answer in answers] == [False, False, False, True, True]
    assert notebook.done == ["yes"]


def test_calls_without_approval_do_not_wait_for_calls_with_approval() -> None:
    notebook, later = Notebook(), Later()
    later.expected = 1
    ran = threading.Event()

    @tool(effects=["network"])
    def look() -> None:
        """Look at something that the note does not change."""
        ran.set()

    async def main() -> list[Any]:
        registry = ToolRegistry(approvals=Approvals(later))
        registry.register(notebook.write_note)
        registry.register(look)
        batch = asyncio.ensure_future(
            registry.aexecute_many([ToolCall("1", "write_note", {"name": "a"}), ToolCall("2", "look")])
        )
        await later.asked.wait()
        assert await asyncio.to_thread(ran.wait, 20)
        assert notebook.done == []
        later.waiting["a"].set_result(True)
        return await batch

    assert all(answer.ok for answer in asyncio.run(main()))
    assert notebook.done == ["a"]


@settings(max_examples=examples(60), deadline=None)
@given(
    calls=st.lists(st.sampled_from(["ask", "auto", "read"]), min_size=1, max_size=6),
    verdicts=st.lists(st.booleans(), min_size=6, max_size=6),
    order=st.permutations(range(6)),
)
def test_results_of_a_batch_do_not_depend_on_the_order_of_approvals(
    calls: list[str], verdicts: list[bool], order: list[int]
) -> None:
    assert _played(calls, verdicts, order) == _played(calls, verdicts, list(range(6)))


def _played(calls: list[str], verdicts: list[bool], order: list[int]) -> tuple[list[str], list[str]]:
    notebook, later = Notebook(), Later()
    later.expected = calls.count("ask")

    @tool(effects=["write-filesystem"])
    def auto(name: str) -> str:
        """Auto."""
        notebook.done.append(name)
        return f"{name} was number {len(notebook.done)}"

    async def main() -> list[str]:
        registry = ToolRegistry(
            approvals=Approvals(later), policy=ToolPolicy(rules=(ToolRule(tool="auto", permission=Permission.ALLOW),))
        )
        for each in (notebook.write_note, auto, read_note):
            registry.register(each)
        names = {"ask": "write_note", "auto": "auto", "read": "read_note"}
        asked = [ToolCall(str(n), names[kind], {"name": str(n)}) for n, kind in enumerate(calls)]
        batch = asyncio.ensure_future(registry.aexecute_many(asked))
        if later.expected:
            await later.asked.wait()
        for place in order:
            if (waiting := later.waiting.get(str(place))) is not None:
                waiting.set_result(verdicts[place])
                await asyncio.sleep(0)
        return [answer.text for answer in await batch]

    return asyncio.run(main()), notebook.done


def test_cancelling_a_batch_withdraws_its_requests_and_runs_no_more_calls() -> None:
    notebook, later = Notebook(), Later()
    later.expected = 2

    async def main() -> None:
        registry = ToolRegistry(approvals=Approvals(later))
        registry.register(notebook.write_note)
        batch = asyncio.ensure_future(
            registry.aexecute_many([ToolCall(n, "write_note", {"name": n}) for n in ("a", "b")])
        )
        await later.asked.wait()
        batch.cancel()
        await asyncio.gather(batch, return_exceptions=True)
        assert all(future.cancelled() for future in later.waiting.values())

    asyncio.run(main())
    assert notebook.done == []


@pytest.mark.parametrize("permission", [Permission.ALLOW, Permission.ASK])
@pytest.mark.parametrize(
    ("changes", "reads"),
    [
        ("write-filesystem", "read-filesystem"),
        ("delete-filesystem", "read-filesystem"),
        ("write-memory", "read-memory"),
        ("external-write", "network"),
        ("execute-code", "read-filesystem"),
        ("write-memory", "invoke-tool"),
    ],
)
def test_a_read_sees_the_earlier_changes_of_its_kind_and_no_later_ones(
    permission: Permission, changes: str, reads: str
) -> None:
    value = [0]

    @tool(effects=[changes])
    def change(to: int) -> None:
        """Change the value."""
        value[0] = to

    @tool(effects=[reads])
    def look() -> int:
        """Return the value."""
        return value[0]

    registry = ToolRegistry(
        policy=ToolPolicy(rules=(ToolRule(tool="change", permission=permission),)),
        approver=CallbackApprover(lambda request: True),
    )
    registry.register(change)
    registry.register(look)
    order = ["look", 1, "look", "look", 2, 3, "look", 4]
    calls = [
        ToolCall(str(place), "look") if step == "look" else ToolCall(str(place), "change", {"to": step})
        for place, step in enumerate(order)
    ]
    seen = [answer.output.result for answer in registry.execute_many(calls) if answer.output]
    assert seen == [0, None, 1, 1, None, None, 3, None]


def test_a_read_after_a_denied_change_runs(notebook: Notebook) -> None:
    registry = ToolRegistry(approver=CallbackApprover(lambda request: False))
    registry.register(notebook.write_note)
    registry.register(read_note)
    calls = [ToolCall("1", "write_note", {"name": "a"}), ToolCall("2", "read_note", {"name": "a"})]
    assert [answer.ok for answer in registry.execute_many(calls)] == [False, True]


def test_more_reads_than_run_at_once_wait_for_a_change_without_a_deadlock(notebook: Notebook) -> None:
    registry = ToolRegistry(policy=ToolPolicy(rules=(ToolRule(tool="*", permission=Permission.ALLOW),)))
    registry.register(notebook.write_note)
    registry.register(read_note)
    names = ["read_note", "write_note", *["read_note"] * 40, "write_note", "read_note"]
    answers = registry.execute_many([ToolCall(str(n), name, {"name": "a"}) for n, name in enumerate(names)])
    assert all(answer.ok for answer in answers) and notebook.done == ["a", "a"]
