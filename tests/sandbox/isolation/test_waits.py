"""Waiting ends with the call; abandoned waits do not affect later calls."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wasmrt.testing.attacks import Body

from tests.runtime.call.conftest import until
from tests.sandbox.isolation.conftest import prepared, process_of, program_of
from tests.sandbox.isolation.processes import children, is_alive, parent
from wasmrt import Capabilities, PreparedTool, ResourceLimits, WasmToolRuntime
from wasmrt.core.errors import CancelledError, DeadlineExceededError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.isolation.pool import spawn
from wasmrt.sandbox.isolation.pool.control import Control, GoneError, Turns, unlimited_lifetime
from wasmrt.sandbox.isolation.wire import Kind, send_with_descriptors

SHORT = ResourceLimits(timeout_seconds=0.2)


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """As on an overloaded machine: the process makes no progress."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def without_template(tool: PreparedTool) -> int:
    """End the tool's processes, as if too many other tools had some; return the zygote that the next call uses."""
    tool.execute({})
    assert program_of(tool).unload_idle(unlimited_lifetime())
    spawn.start_ahead()
    zygote, end = spawn._ahead[0]
    select.select([end], [], [])  # it has started
    return zygote


def without_worker(tool: PreparedTool) -> int:
    """End the worker that waits for the next call; return the template."""
    tool.execute({})
    template = parent(process_of(tool))
    program = program_of(tool)
    worker = program._idle_workers.take(program, "local")
    assert worker is not None
    program.retire(worker)
    return template


WAITED_FOR = pytest.mark.parametrize("without", [without_template, without_worker], ids=["the zygote", "a template"])


@WAITED_FOR
def test_a_call_does_not_wait_for_a_process_beyond_its_deadline(runtime: WasmToolRuntime, without: object) -> None:
    echo = prepared(runtime, limits=SHORT)
    ended: list[BaseException] = []

    def call() -> None:
        with pytest.raises(ToolError) as caught:
            echo.execute({})
        ended.append(caught.value)

    busy = without(echo)  # type: ignore[operator]
    with stopped(busy):
        threads = [
            threading.Thread(target=call) for _ in range(4)
        ]  # one waits for the process, the others for that one
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [type(error) for error in ended] == [DeadlineExceededError] * 4
    for number in range(3):
        assert echo.execute({"n": number}).result == {"n": number}


@WAITED_FOR
def test_a_cancelled_call_stops_waiting_for_a_process(runtime: WasmToolRuntime, without: object) -> None:
    echo = prepared(runtime)
    busy = without(echo)  # type: ignore[operator]
    admission = echo._runner.pipeline.admission

    def cancel() -> None:
        while not admission._running:
            threading.Event().wait(0.01)
        for call in list(admission._running.values()):
            call.lifetime.cancel()

    thread = threading.Thread(target=cancel)
    with stopped(busy):
        thread.start()
        with pytest.raises(CancelledError):
            echo.execute({})
    thread.join()
    assert echo.execute({"a": 1}).result == {"a": 1}


@pytest.mark.parametrize("calls", [1, 3])
def test_a_template_that_loads_slowly_is_loaded_once_for_all_calls(runtime: WasmToolRuntime, calls: int) -> None:
    """Each call gives up at its deadline; loading continues, so that a later call finds it finished."""
    echo = prepared(runtime, limits=SHORT)
    zygote = without_template(echo)
    with stopped(zygote):
        for _ in range(calls):
            with pytest.raises(DeadlineExceededError):
                echo.execute({})
    assert echo.execute({"a": 1}).result == {"a": 1}
    process_of(echo)  # a worker of it waits
    assert {child for child in children(zygote) if is_alive(child)} == {parent(process_of(echo))}


def test_an_unused_forked_worker_exits_and_is_reaped(runtime: WasmToolRuntime) -> None:
    echo = prepared(runtime, limits=SHORT)
    template = without_worker(echo)
    with stopped(template), pytest.raises(DeadlineExceededError):
        echo.execute({})
    assert echo.execute({}).result == {}
    assert children(template) == {process_of(echo)}


def test_programs_that_evict_each_other_do_not_deadlock(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one template at most, calls of two tools evict each other's, from two threads concurrently."""
    tools = [prepared(runtime, name=name) for name in ("one", "two")]
    monkeypatch.setattr(program_of(tools[0])._idle_workers, "_max_programs", 1)
    answers: list[object] = []

    def calls(tool: PreparedTool) -> None:
        for number in range(10):
            answers.append(tool.execute({"n": number}).result)
            program_of(tool).unload_idle(unlimited_lifetime())

    threads = [threading.Thread(target=calls, args=(tool,)) for tool in tools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 20


def test_the_component_that_was_not_used_for_longest_loses_its_processes(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (prepared(runtime, name=name) for name in ("first", "second"))
    kept, ended = (parent(process_of(tool, None)) for tool in (first, second))
    first.execute({})
    monkeypatch.setattr(program_of(first)._idle_workers, "_max_programs", 2)
    prepared(runtime, name="third").execute({})
    assert is_alive(kept)
    assert not is_alive(ended)


@contextmanager
def controlled(patience: float = 20.0) -> Iterator[tuple[Control, socket.socket]]:
    ours, theirs = socket.socketpair()
    control = Control(ours, Kind.HELLO, patience)
    with theirs:
        yield control, theirs
    control.close()


def test_an_abandoned_reply_is_ignored_and_its_process_ended() -> None:
    with controlled() as (control, process):
        send_with_descriptors(process, Kind.HELLO, {}, ())
        with pytest.raises(DeadlineExceededError):
            control.number(Kind.FORK, {}, (), Kind.SPAWNED, "pid", Lifetime(0.05))
        for kind, head in (
            (Kind.SPAWNED, {"pid": 7}),
            (Kind.ENDED, {"status": 9}),
            (Kind.SPAWNED, {"pid": 8}),
        ):
            send_with_descriptors(process, kind, head, ())
        assert control.number(Kind.FORK, {}, (), Kind.SPAWNED, "pid", Lifetime(20)) == 8
        asked = process.recv(10_000)
        assert asked.count(b'{"pid": 7}') == 1


@pytest.mark.parametrize(
    ("kind", "head"), [(Kind.ENDED, {"status": 0}), (Kind.SPAWNED, {}), (Kind.SPAWNED, {"pid": -1}), (Kind.REFUSED, {})]
)
def test_an_unexpected_reply_counts_as_a_lost_process(kind: Kind, head: dict[str, int]) -> None:
    with controlled() as (control, process):
        send_with_descriptors(process, Kind.HELLO, {}, ())
        send_with_descriptors(process, kind, head, ())
        with pytest.raises(GoneError):
            control.number(Kind.FORK, {}, (), Kind.SPAWNED, "pid", Lifetime(20))


def test_a_missing_reply_counts_as_a_lost_process() -> None:
    with controlled(patience=0.1) as (control, _), pytest.raises(GoneError, match="did not answer in time"):
        control.greeting(unlimited_lifetime())


def test_a_signal_handler_during_an_exchange_loses_the_process() -> None:
    class Rung(BaseException):
        pass

    class Ringing(Lifetime):
        def check(self) -> None:
            raise Rung

    with controlled() as (control, process):
        with pytest.raises(Rung):
            control.greeting(Ringing(20))
        send_with_descriptors(process, Kind.HELLO, {}, ())
        with pytest.raises(GoneError, match="interrupted"):
            control.greeting(Lifetime(20))


def test_waiting_for_a_partial_reply_can_be_resumed() -> None:
    with controlled() as (control, process):
        process.send(b"\x06\x00\x00\x00\x10" + bytes(8) + b"\x02\x00\x00")
        with pytest.raises(DeadlineExceededError):
            control.greeting(Lifetime(0.05))
        process.send(b"\x00{}")
        assert control.greeting(Lifetime(20)).kind == Kind.HELLO


def test_waiting_for_a_lock_ends_with_the_call() -> None:
    turns, cancelled, ended = Turns(), Lifetime(20), []

    def wait(lifetime: Lifetime) -> None:
        with pytest.raises((DeadlineExceededError, CancelledError)) as caught, turns.hold(lifetime):
            raise AssertionError("it was held")
        ended.append(type(caught.value))

    with turns.hold(Lifetime(20)):
        threads = [threading.Thread(target=wait, args=(lifetime,)) for lifetime in (Lifetime(0.05), cancelled)]
        for thread in threads:
            thread.start()
        until(lambda: len(turns._queue) == 2)  # the first wait has ended
        cancelled.cancel()
        for thread in threads:
            thread.join()
        with turns.hold(Lifetime(0)):  # by a signal handler of this thread
            pass
    assert ended == [DeadlineExceededError, CancelledError]
    with turns.hold(Lifetime(0)):  # the ended waits left the queue
        assert len(turns._queue) == 1


def test_a_lock_is_held_in_the_order_of_requests() -> None:
    turns, order = Turns(), []

    def hold(number: int) -> None:
        with turns.hold(Lifetime(20)):
            order.append(number)

    with turns.hold(Lifetime(20)):
        threads = [threading.Thread(target=hold, args=(number,)) for number in range(5)]
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda number=number: len(turns._queue) == number + 2)
    for thread in threads:
        thread.join()
    assert order == list(range(5))


HOUR = Body(
    imports=("subscribe-duration", "block"),
    execute="(call $block (call $subscribe-duration (i64.const 3600000000000))) (call $ok)",
)
ASKS = Body(
    imports=("tool-invoke",),
    text=b"on{}",
    execute="""
      (call $tool-invoke (i32.const 1024) (i32.const 2) (i32.const 1026) (i32.const 2) (i32.const 2048))
      (call $ok)""",
)


def test_a_call_that_waits_for_a_new_worker_takes_one_that_becomes_idle(runtime: WasmToolRuntime) -> None:
    echo = prepared(runtime)
    template, program = parent(process_of(echo, None)), program_of(echo)
    worker = program._idle_workers.take(program, None)
    assert worker is not None
    threads = [threading.Thread(target=echo.execute, args=({},)) for _ in range(5)]
    with stopped(template):
        for thread in threads:
            thread.start()
        until(lambda: len(program._starting._queue) == len(threads))
        program._idle_workers.put(program, None, worker)
    for thread in threads:
        thread.join()
    assert len(children(template)) < len(threads)


def test_a_worker_whose_guest_waits_sleeps(runtime: WasmToolRuntime) -> None:
    """One guest sleeps, the other waits for a reply of the host: neither worker has a thread that polls."""
    slow = prepared(runtime, HOUR, name="slow")
    grant = Capabilities.none().with_tool_invoke({"on": "slow"})
    asks = prepared(runtime, ASKS, name="asks", capabilities=grant)
    workers = [process_of(tool, None) for tool in (slow, asks)]

    def call() -> None:
        with pytest.raises(CancelledError):
            asks.execute({})

    thread = threading.Thread(target=call)
    before = [switches(worker) for worker in workers]
    thread.start()
    thread.join(1.0)  # the call runs on
    found = [switches(worker) - count for worker, count in zip(workers, before, strict=True)]
    for running in list(runtime.pipeline.admission._running.values()):
        running.lifetime.cancel()
    thread.join()
    assert min(found) > 0
    assert max(found) < 40  # 100 with a poll every 10 ms


def switches(process: int) -> int:
    """Return how often the threads of a process have waited."""
    texts = [task.read_text() for task in Path(f"/proc/{process}/task").glob("*/status")]
    return sum(int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for text in texts)


def test_a_thread_that_waits_for_a_worker_sleeps(runtime: WasmToolRuntime) -> None:
    """Its call ends at the deadline, after a few switches of the thread: waits do not poll."""
    slow = prepared(runtime, HOUR, limits=ResourceLimits(timeout_seconds=1.0))
    switches = 0

    def call() -> None:
        nonlocal switches
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        with pytest.raises(DeadlineExceededError):
            slow.execute({})
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert 0 < switches < 30  # 50 and more with a poll every 20 ms
