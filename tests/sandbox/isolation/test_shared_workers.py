"""Workers that run many calls of an event loop at the same time, each guest on a fiber."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.sandbox.isolation.conftest import ECHO, prepared, program_of
from tests.sandbox.isolation.liar import Liar, lying
from wasmrt import PreparedTool, ResourceLimits, WasmToolRuntime
from wasmrt.core.errors import (
    DeadlineExceededError,
    FuelExhaustedError,
    ToolError,
    TrapError,
    WorkerCrashedError,
)
from wasmrt.sandbox.guest.engine import wat2wasm
from wasmrt.sandbox.guest.settings import CALLS_PER_WORKER
from wasmrt.sandbox.isolation.pool import lease
from wasmrt.sandbox.isolation.wire import Kind

HOUR = Body(
    imports=("subscribe-duration", "block"),
    execute="(call $block (call $subscribe-duration (i64.const 3600000000000))) (call $ok)",
)
FAR = ResourceLimits(timeout_seconds=120, fuel=2**60)


def _sleeping(nanoseconds: int) -> str:
    return f"(call $block (call $subscribe-duration (i64.const {nanoseconds}))) (return (call $ok))"


def by_params(**cases: str) -> bytes:
    """Return a tool that runs the case whose first letter is in the params `{"c":"x"}`."""
    tests = "".join(
        f"(if (i32.eq (i32.load8_u (i32.add (local.get $params) (i32.const 6))) (i32.const {ord(key)})) (then {code}))"
        for key, code in cases.items()
    )
    body = Body(
        imports=("subscribe-duration", "block"),
        functions="""(func $deep (param i32) (result i32)
          (i32.add (call $deep (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))""",
        execute=f"{tests} (call $ok)",
    )
    return wat2wasm(tool(body))


CASES = {
    "s": _sleeping(30_000_000),
    "h": _sleeping(3_600_000_000_000),
    "t": "(unreachable)",
    "o": "(drop (call $deep (i32.const 0)))",
    "l": "(loop (br 0))",
    "m": "(if (i32.eq (memory.grow (i32.const 4000)) (i32.const -1)) (then (unreachable)))",
}


def workers_of(component: PreparedTool) -> list[int]:
    """Return the PIDs of a tool's workers: the children of its template."""
    template = program_of(component)._template
    assert template is not None
    children = Path(f"/proc/{template._pid}/task/{template._pid}/children").read_text()
    return [int(pid) for pid in children.split()]


async def until_running(component: PreparedTool, count: int) -> None:
    while component._runner.pipeline.admission.running < count:
        await asyncio.sleep(0.001)


async def cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_waiting_calls_share_workers(runtime: WasmToolRuntime) -> None:
    slow = prepared(runtime, HOUR, limits=FAR)

    async def many() -> int:
        tasks = [asyncio.create_task(slow.aexecute({})) for _ in range(CALLS_PER_WORKER)]
        await until_running(slow, CALLS_PER_WORKER)
        await asyncio.sleep(0.2)
        count = len(workers_of(slow))
        await cancel(tasks)
        return count

    assert asyncio.run(many()) == 1


def test_users_do_not_share_a_worker(runtime: WasmToolRuntime) -> None:
    slow = prepared(runtime, HOUR, limits=FAR)

    async def two() -> int:
        tasks = [asyncio.create_task(slow.aexecute({}, user=user)) for user in ("ann", "bob")]
        while len(found := workers_of(slow)) < 2:
            await asyncio.sleep(0.01)
        await cancel(tasks)
        return len(found)

    assert asyncio.run(two()) == 2


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("t", TrapError),
        ("o", TrapError),
        ("l", FuelExhaustedError),
        ("m", TrapError),
    ],
    ids=["trap", "stack overflow", "fuel", "memory"],
)
def test_a_failed_guest_does_not_end_the_others_of_its_worker(
    runtime: WasmToolRuntime, case: str, kind: type[ToolError]
) -> None:
    component = runtime.prepare(
        "tool", by_params(**CASES), limits=ResourceLimits(timeout_seconds=120, fuel=200_000_000)
    )

    async def calls() -> tuple[list[Any], int]:
        before = asyncio.create_task(component.aexecute({"c": "h"}))
        await until_running(component, 1)
        ends = await asyncio.gather(
            *(component.aexecute({"c": one}) for one in ("s", case, "s", case, "s")), return_exceptions=True
        )
        count = len(workers_of(component))
        assert not before.done()
        await cancel([before])
        return ends, count

    ends, count = asyncio.run(calls())
    assert count == 1
    assert [type(end) for end in (ends[1], ends[3])] == [kind, kind]
    assert all(not isinstance(end, BaseException) for end in ends[::2])


def test_a_worker_with_a_failed_guest_takes_no_further_calls(runtime: WasmToolRuntime) -> None:
    component = runtime.prepare("tool", by_params(**CASES), limits=FAR)

    async def calls() -> bool:
        slow = asyncio.create_task(component.aexecute({"c": "h"}))
        with pytest.raises(TrapError):
            await component.aexecute({"c": "t"})
        first = set(workers_of(component))
        await component.aexecute({"c": "s"})
        second = set(workers_of(component))
        await cancel([slow])
        return first < second

    assert asyncio.run(calls())


def test_a_spinning_guest_neither_stops_others_nor_outlives_its_deadline(runtime: WasmToolRuntime) -> None:
    component = runtime.prepare("tool", by_params(**CASES), limits=FAR)
    late = runtime.prepare("late", by_params(**CASES), limits=ResourceLimits(timeout_seconds=0.3, fuel=2**60))

    async def calls() -> list[Any]:
        spinning = asyncio.create_task(component.aexecute({"c": "l"}))
        await until_running(component, 1)
        ends: list[Any] = [(await component.aexecute({"c": "s"})).result]
        await cancel([spinning])
        ends.append((await component.aexecute({"c": "s"})).result)
        return ends + list(
            await asyncio.gather(late.aexecute({"c": "l"}), late.aexecute({"c": "s"}), return_exceptions=True)
        )

    ends = asyncio.run(calls())
    assert ends[:2] == [{"ok": True}] * 2
    assert isinstance(ends[2], DeadlineExceededError)
    assert ends[3].result == {"ok": True}


def test_a_killed_worker_ends_its_calls_with_a_typed_error(runtime: WasmToolRuntime) -> None:
    component = runtime.prepare("tool", by_params(**CASES), limits=FAR)

    async def calls() -> list[Any]:
        tasks = [asyncio.create_task(component.aexecute({"c": "h"})) for _ in range(3)]
        while len(pids := workers_of(component)) < 1:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        ends = list(await asyncio.gather(*tasks, return_exceptions=True))
        ends.append((await component.aexecute({"c": "s"})).result)
        return ends

    ends = asyncio.run(calls())
    assert [type(end) for end in ends[:3]] == [WorkerCrashedError] * 3
    assert ends[3] == {"ok": True}


def stays_silent(liar: Liar) -> None:
    liar.read_call()
    liar.read_call()


def answers_with_an_unknown_number(liar: Liar) -> None:
    liar.read_call()
    liar.read_call()
    liar.send(Kind.LOG, {"place": 0, "level": "info", "message": "m", "at": 1}, number=12345)


def floods_a_call_that_waits(liar: Liar) -> None:
    liar.read_call()
    liar.read_call()
    liar.send(Kind.IMPORT, {"do": "http_open", "method": "GET"})
    for _ in range(10_000):
        liar.send(Kind.LOG, {"place": 0, "level": "info", "message": "m", "at": 1})


def test_a_guest_that_does_not_end_in_time_ends_its_worker(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LATE_SECONDS", 0.05)
    echo = prepared(runtime, ECHO, limits=FAR)

    async def calls() -> list[Any]:
        tasks = [asyncio.create_task(echo.aexecute({})) for _ in range(2)]
        await until_running(echo, 2)
        await asyncio.sleep(0.05)
        await cancel(tasks[:1])
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    with lying(echo, stays_silent):
        ends = asyncio.run(calls())
    assert [type(end) for end in ends] == [asyncio.CancelledError, WorkerCrashedError]


@pytest.mark.parametrize("script", [answers_with_an_unknown_number, floods_a_call_that_waits])
def test_a_worker_that_violates_the_protocol_ends_with_all_its_calls(
    runtime: WasmToolRuntime, script: Callable[[Liar], None]
) -> None:
    echo = prepared(runtime, ECHO, limits=FAR)

    async def calls() -> list[Any]:
        return list(await asyncio.gather(*(echo.aexecute({}) for _ in range(2)), return_exceptions=True))

    with lying(echo, script):
        ends = asyncio.run(calls())
    assert [type(end) for end in ends] == [WorkerCrashedError] * 2
