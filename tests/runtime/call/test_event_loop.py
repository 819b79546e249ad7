"""Calls of `aexecute` that share the thread of the event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.runtime.call.conftest import ECHO, Prepare
from tests.runtime.call.test_concurrency import HOUR
from wasmrt import PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import DeadlineExceededError, RuntimeClosedError, WorkerCrashedError
from wasmrt.runtime.audit import reading
from wasmrt.sandbox.guest.engine import wat2wasm


def call_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("wasmrt-call")]


async def until_running(prepared: PreparedTool, count: int) -> None:
    while prepared._runner.pipeline.admission.running < count:
        await asyncio.sleep(0.001)


def test_waiting_calls_need_no_threads(prepare: Prepare) -> None:
    slow = prepare(HOUR)

    async def many() -> list[str]:
        tasks = [asyncio.create_task(slow.aexecute({})) for _ in range(20)]
        await until_running(slow, 20)
        names = call_threads()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return names

    assert asyncio.run(many()) == []


def test_a_call_with_a_progress_function_runs_on_another_thread(prepare: Prepare) -> None:
    slow = prepare(HOUR)

    async def one() -> list[str]:
        task = asyncio.create_task(slow.aexecute({}, on_progress=lambda done, total, message: None))
        await until_running(slow, 1)
        names = call_threads()
        task.cancel()
        await asyncio.wait([task])
        return names

    assert len(asyncio.run(one())) == 1


def find_garbage_of_calls(run: Callable[[], object]) -> list[type]:
    """Return the types of wasmrt's objects that only the garbage collector could free after `run`."""
    run()  # caches are filled
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        run()
        gc.collect()
        return [type(found) for found in gc.garbage if type(found).__module__.startswith("wasmrt.runtime.call")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_calls_leave_no_work_for_the_garbage_collector(prepare: Prepare) -> None:
    echo = prepare(ECHO)

    async def several() -> None:
        await asyncio.gather(*(echo.aexecute({"n": number}) for number in range(3)))

    assert find_garbage_of_calls(lambda: echo.execute({"n": 1})) == []
    assert find_garbage_of_calls(lambda: asyncio.run(several())) == []


def test_a_late_call_ends_while_others_of_its_thread_continue(prepare: Prepare) -> None:
    late = prepare(HOUR, "late", limits=ResourceLimits(timeout_seconds=0.2))
    spinning = prepare(
        Body(execute="(loop (br 0)) (unreachable)"), "spin", limits=ResourceLimits(timeout_seconds=0.2, fuel=2**60)
    )
    slow, echo = prepare(HOUR, "slow"), prepare(ECHO, "echo")

    async def several() -> list[object]:
        task = asyncio.create_task(slow.aexecute({}))
        ends = await asyncio.gather(late.aexecute({}), spinning.aexecute({}), return_exceptions=True)
        output = await echo.aexecute({"n": 1})
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
        return [*map(type, ends), output.result]

    assert asyncio.run(several()) == [DeadlineExceededError, DeadlineExceededError, {"n": 1}]


def test_two_event_loops_of_two_threads_share_a_tool(prepare: Prepare) -> None:
    echo = prepare()
    results: list[object] = []

    def run() -> None:
        async def many() -> list[object]:
            return [o.result["n"] for o in await asyncio.gather(*(echo.aexecute({"n": n}) for n in range(30)))]

        results.append(asyncio.run(many()))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [list(range(30))] * 2


def _end_after_the_loop(runtime: WasmToolRuntime, slow: PreparedTool) -> None:
    async def leave() -> None:
        asyncio.create_task(slow.aexecute({})).add_done_callback(lambda task: task.cancelled())
        await until_running(slow, 1)

    asyncio.run(leave())
    runtime.close()


async def _close_from_a_task(runtime: WasmToolRuntime, slow: PreparedTool) -> None:
    task = asyncio.create_task(slow.aexecute({}))
    await until_running(slow, 1)
    runtime.close()
    with pytest.raises(RuntimeClosedError):
        await task


async def _close_with_the_loop(runtime: WasmToolRuntime, slow: PreparedTool) -> None:
    async with runtime:
        task = asyncio.create_task(slow.aexecute({}))
        await until_running(slow, 1)
    with pytest.raises(RuntimeClosedError):
        await task


def _in_a_loop(way: Callable[[WasmToolRuntime, PreparedTool], Awaitable[None]]) -> Callable[..., None]:
    return lambda runtime, slow: asyncio.run(way(runtime, slow))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "close",
    [_end_after_the_loop, _in_a_loop(_close_from_a_task), _in_a_loop(_close_with_the_loop)],
    ids=["after the loop", "in a coroutine", "async with"],
)
def test_closing_the_runtime_ends_calls_with_their_receipts(
    close: Callable[[WasmToolRuntime, PreparedTool], None], tmp_path: Path
) -> None:
    runtime = WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=tmp_path / "audit"))
    slow = runtime.prepare("slow", wat2wasm(tool(HOUR)))
    close(runtime, slow)
    assert runtime.pipeline.admission.running == 0
    outcomes = [record["outcome"] for record in reading.read_receipts(tmp_path / "audit")]
    assert len(outcomes) == 1 and outcomes[0] in ("cancelled", "runtime-closed")


def test_a_killed_worker_ends_its_call_alone(prepare: Prepare) -> None:
    slow, echo = prepare(HOUR, "slow"), prepare(ECHO, "echo")

    async def killed() -> object:
        task = asyncio.create_task(slow.aexecute({}))
        await until_running(slow, 1)
        pids: set[int] = set()
        while not pids:
            await asyncio.sleep(0.01)
            pids = set(_processes_of(slow))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerCrashedError):
            await task
        return (await echo.aexecute({"n": 2})).result

    assert asyncio.run(killed()) == {"n": 2}


def _processes_of(prepared: PreparedTool) -> list[int]:
    """Return the PIDs of a tool's workers: the children of its template."""
    template = prepared._target.component._template._pid  # type: ignore[attr-defined]
    text = Path(f"/proc/{template}/task/{template}/children").read_text()
    return [int(pid) for pid in text.split()]
