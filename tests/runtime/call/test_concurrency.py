from __future__ import annotations

import asyncio
import os
import re
import resource
import threading
import warnings

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.runtime.call.conftest import ECHO, Prepare, from_eight_threads, until
from wasmrt import Isolation, PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import (
    CancelledError,
    ConfigurationError,
    DeadlineExceededError,
    RuntimeClosedError,
    ToolError,
)
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MIB
from wasmrt.runtime.call import CallRequest, run_call
from wasmrt.sandbox.guest import settings
from wasmrt.sandbox.guest.engine import wat2wasm

COUNT = Body(
    more_modules="",
    functions="(global $n (mut i32) (i32.const 48))",
    text=b"0",
    execute="""
      (global.set $n (i32.add (global.get $n) (i32.const 1)))
      (i32.store8 (i32.const 1024) (global.get $n))
      (call $say (i32.const 1024) (i32.const 1))""",
)
HOUR = Body(
    imports=("subscribe-duration", "block"),
    execute="(call $block (call $subscribe-duration (i64.const 3600000000000))) (call $ok)",
)


def to_its_deadline(tool: PreparedTool) -> None:
    with pytest.raises(DeadlineExceededError):
        tool.execute({})


def sleeper() -> bytes:
    return wat2wasm(tool(HOUR))


def test_calls_from_eight_threads_have_fresh_stores(prepare: Prepare) -> None:
    counter = prepare(COUNT)
    answers = from_eight_threads(counter)
    assert answers == [1] * 800


def test_aexecute_runs_calls_concurrently(prepare: Prepare) -> None:
    echo = prepare()

    async def many() -> list[object]:
        outputs = await asyncio.gather(*(echo.aexecute({"n": n}) for n in range(50)))
        return [output.result["n"] for output in outputs]

    assert asyncio.run(many()) == list(range(50))


def test_cancelling_aexecute_stops_a_sleeping_and_a_spinning_guest(runtime: WasmToolRuntime) -> None:
    limits = ResourceLimits(timeout_seconds=120, fuel=2**60)
    for body in (HOUR, Body(execute="(loop (br 0)) (unreachable)")):
        slow = runtime.prepare("slow", wat2wasm(tool(body)), limits=limits)
        admission = runtime.pipeline.admission

        async def cancelled(slow=slow, admission=admission) -> None:  # type: ignore[no-untyped-def]
            task = asyncio.create_task(slow.aexecute({}))
            while not admission.running:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while admission.running:
                await asyncio.sleep(0)

        asyncio.run(asyncio.wait_for(cancelled(), 20))


def test_sixty_four_sleepers_of_one_user_all_end_at_their_deadlines() -> None:
    config = WasmRuntimeConfig(cache_compiled=False, max_concurrent_calls=64)
    with WasmToolRuntime(config) as runtime:
        slow = runtime.prepare("slow", sleeper(), limits=ResourceLimits(timeout_seconds=1))
        ends: list[ToolError] = []

        def sleep() -> None:
            with pytest.raises(ToolError) as caught:
                slow.execute({}, user="mallory")
            ends.append(caught.value)

        threads = [threading.Thread(target=sleep) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [type(end) for end in ends] == [DeadlineExceededError] * 64
        until(lambda: runtime.pipeline.admission.running == 0)  # the last guests are cleaned up after their callers


def test_a_user_at_the_limit_waits_for_a_free_permit() -> None:
    config = WasmRuntimeConfig(cache_compiled=False, max_concurrent_calls=1)
    with WasmToolRuntime(config) as runtime:
        slow = runtime.prepare("slow", sleeper(), limits=ResourceLimits(timeout_seconds=1))
        echo = runtime.prepare("echo", wat2wasm(tool(ECHO)))
        first = threading.Thread(target=to_its_deadline, args=(slow,))
        first.start()
        until(lambda: runtime.pipeline.admission.running == 1)
        assert echo.execute({"after": "the sleeper"}).result == {"after": "the sleeper"}
        first.join()


def test_waiting_for_a_permit_ends_at_the_deadline() -> None:
    config = WasmRuntimeConfig(cache_compiled=False, max_concurrent_calls=1)
    with WasmToolRuntime(config) as runtime:
        slow = runtime.prepare("slow", sleeper(), limits=ResourceLimits(timeout_seconds=3))
        hasty = runtime.prepare("echo", wat2wasm(tool(ECHO)), limits=ResourceLimits(timeout_seconds=0.2))
        first = threading.Thread(target=to_its_deadline, args=(slow,))
        first.start()
        until(lambda: runtime.pipeline.admission.running == 1)
        with pytest.raises(DeadlineExceededError) as caught:
            hasty.execute({})
        assert caught.value.setting == "max_concurrent_calls"
        first.join()


def test_the_deadline_counts_from_the_call_and_ends_calls_that_could_not_start() -> None:
    receipts: list[dict[str, object]] = []
    config = WasmRuntimeConfig(cache_compiled=False, max_concurrent_calls=1, audit=receipts.append)
    with WasmToolRuntime(config) as runtime:
        slow = runtime.prepare("slow", sleeper(), limits=ResourceLimits(timeout_seconds=60))
        hasty = runtime.prepare("echo", wat2wasm(tool(ECHO)), limits=ResourceLimits(timeout_seconds=0.3))

        async def behind_a_sleeper() -> list[BaseException]:
            first = asyncio.create_task(slow.aexecute({}))
            while not runtime.pipeline.admission.running:
                await asyncio.sleep(0.01)
            ends = await asyncio.gather(*(hasty.aexecute({}) for _ in range(20)), return_exceptions=True)
            ends += [result.error async for result in hasty.aexecute_many([{}] * 3, parallel=3)]
            first.cancel()
            return ends

        ends = asyncio.run(asyncio.wait_for(behind_a_sleeper(), 30))
        assert [type(end) for end in ends] == [DeadlineExceededError] * 23
        assert all(re.search(r"waited \d.* s for a permit", str(end)) for end in ends)
        until(lambda: len(receipts) == 24)
    assert [receipt["outcome"] for receipt in receipts[:23]] == ["deadline-exceeded"] * 23


@pytest.mark.parametrize(
    ("isolation", "calls", "reason"),
    [
        (Isolation.PROCESS, 1366, "512 MiB, a quarter of memory, suffice for 1,365"),
        (Isolation.IN_PROCESS, 129, "the engine's pool has 256 instances, half of them for tools that tools call"),
    ],
)
def test_more_calls_than_the_machine_can_run_are_refused_with_the_numbers(
    monkeypatch: pytest.MonkeyPatch, isolation: Isolation, calls: int, reason: str
) -> None:
    monkeypatch.setattr(settings, "_get_memory_bytes", lambda: 2048 * MIB)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    with pytest.raises(ConfigurationError, match=reason) as caught:
        WasmToolRuntime(WasmRuntimeConfig(isolation=isolation, max_concurrent_calls=calls))
    most = int(str(caught.value.hint).split()[-1])
    with WasmToolRuntime(WasmRuntimeConfig(isolation=isolation, max_concurrent_calls=most)) as runtime:
        assert runtime.pipeline.admission.total == most  # calls of other users wait, too


def test_calls_of_several_runtimes_wait_for_room_in_the_pool_that_they_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.POOL, "total_component_instances", 2)
    config = WasmRuntimeConfig(cache_compiled=False, isolation=Isolation.IN_PROCESS, max_concurrent_calls=1)
    with WasmToolRuntime(config) as first, WasmToolRuntime(config) as second, WasmToolRuntime(config) as third:
        sleepers = [runtime.prepare("slow", sleeper()) for runtime in (first, second)]
        echo = third.prepare("echo", wat2wasm(tool(ECHO)))
        hasty = third.prepare("hasty", wat2wasm(tool(ECHO)), limits=ResourceLimits(timeout_seconds=0.3))
        engine = echo._target.component._linker.component.engine  # type: ignore[attr-defined]

        def sleep(slow: PreparedTool) -> None:
            with pytest.raises(CancelledError):
                slow.execute({})

        def cancel(runtime: WasmToolRuntime) -> None:
            for call in list(runtime.pipeline.admission._running.values()):
                call.lifetime.cancel()

        threads = [threading.Thread(target=sleep, args=(slow,)) for slow in sleepers]
        for thread in threads:
            thread.start()
        until(lambda: engine._guests == 2)
        with pytest.raises(DeadlineExceededError, match=r"waited \d.* s for a free instance"):
            hasty.execute({})
        results = echo.execute_many([{"n": 1}])
        waiting = threading.Thread(target=lambda: (until(lambda: engine._waiting == 1), cancel(first)))
        waiting.start()
        assert [result.output and result.output.result for result in results] == [{"n": 1}]
        cancel(second)
        for thread in (*threads, waiting):
            thread.join()


def test_few_open_files_allow_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert settings.find_capacity(Isolation.PROCESS)[::2] == (716, 224)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    assert settings.find_capacity(Isolation.PROCESS)[::2] == (64, 64)


def test_calls_on_threads_are_limited_by_the_memory_for_their_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_LEAST_CALLS", 2)
    monkeypatch.setattr(settings, "_get_memory_bytes", lambda: 48 * MIB)
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, max_concurrent_calls=8)) as runtime:
        slow = runtime.prepare("slow", sleeper(), limits=ResourceLimits(timeout_seconds=120))
        admission = runtime.pipeline.admission

        def sleep() -> None:
            with pytest.raises(RuntimeClosedError):
                slow.execute({})

        async def sleep_in_loop() -> None:
            tasks = [asyncio.create_task(slow.aexecute({})) for _ in range(4)]
            while admission.running < 6:
                await asyncio.sleep(0.001)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

        threads = [threading.Thread(target=sleep) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: sum(map(len, admission._queues.values())) == 1)
        asyncio.run(sleep_in_loop())  # these share a worker
        assert admission.running >= 2
    for thread in threads:
        thread.join(20)


def test_closing_the_runtime_ends_running_and_waiting_calls_with_a_typed_error() -> None:
    runtime = WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, max_concurrent_calls=2))
    slow = runtime.prepare("slow", sleeper(), limits=ResourceLimits(timeout_seconds=120))
    ends: list[ToolError] = []

    def sleep() -> None:
        with pytest.raises(ToolError) as caught:
            slow.execute({})
        ends.append(caught.value)

    threads = [threading.Thread(target=sleep) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: runtime.pipeline.admission.running == 2)
    until(lambda: sum(len(queue) for queue in runtime.pipeline.admission._queues.values()) == 2)
    runtime.close()
    for thread in threads:
        thread.join(20)
    assert [type(end) for end in ends] == [RuntimeClosedError] * 4


def test_no_thread_is_left_when_the_runtime_is_closed() -> None:
    before = set(threading.enumerate())
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation=Isolation.IN_PROCESS)) as runtime:
        echo = runtime.prepare("echo", wat2wasm(tool(ECHO)))
        echo.execute({})
        asyncio.run(echo.aexecute({}))  # type: ignore[arg-type]
        assert any(t.name == "wasm-epoch-ticker" for t in threading.enumerate())
    left = {t for t in threading.enumerate() if t.name.startswith("wasm")} - before
    assert left == set()


def test_a_cancelled_call_raises_a_typed_error_on_its_thread(prepare: Prepare) -> None:
    slow = prepare(HOUR, limits=ResourceLimits(timeout_seconds=60))
    request = CallRequest(slow.name, {}, lifetime=Lifetime(60))
    threading.Timer(0.1, request.lifetime.cancel).start()
    with pytest.raises(CancelledError):
        run_call(slow._runner.pipeline, slow._target, request)


def test_calls_in_a_forked_child_are_refused() -> None:
    config = WasmRuntimeConfig(cache_compiled=False, isolation=Isolation.IN_PROCESS)
    echo = WasmToolRuntime(config).prepare("echo", wat2wasm(tool(ECHO)))
    echo.execute({})
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # warns about forking with threads, which is tested here
        child = os.fork()
    if child == 0:
        try:
            echo.execute({})
        except RuntimeClosedError as error:
            os.write(writer, error.code.encode())
        try:
            WasmToolRuntime(config).prepare("echo", wat2wasm(tool(ECHO)))
        except ConfigurationError as error:
            os.write(writer, b" " + error.code.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"runtime-closed configuration"
    os.close(reader)
