"""Tasks that share the thread of an event loop."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from wasmrt.testing import MemorySecrets

from tests.core.in_task import run_in_task, start_task
from wasmrt.core.errors import CancelledError, DeadlineExceededError
from wasmrt.core.lifetime import EndEvent, Lifetime, await_ready
from wasmrt.core.scheduler import running_scheduler
from wasmrt.core.tasks import offload
from wasmrt.egress.secrets import Secret, UserSecrets


def test_a_wait_lets_other_tasks_and_the_loop_run() -> None:
    seen: list[str] = []
    first, second = EndEvent(), EndEvent()

    def wait() -> None:
        seen.append("waits")
        second.set()
        first.wait()
        seen.append("continues")

    def wake() -> None:
        second.wait()
        seen.append("wakes")

    async def both() -> None:
        tasks = [start_task(wait), start_task(wake)]
        await tasks[1]
        seen.append("loop")
        first.set()
        await tasks[0]

    asyncio.run(both())
    assert seen == ["waits", "wakes", "loop", "continues"]


def test_another_thread_can_end_a_wait() -> None:
    event = EndEvent()
    threading.Timer(0.02, event.set).start()
    assert run_in_task(event.wait)


def test_a_wait_for_an_event_ends_after_its_timeout() -> None:
    assert run_in_task(lambda: EndEvent().wait(0.01)) is False


@pytest.mark.parametrize("ready", [True, False])
def test_a_wait_for_a_descriptor_reports_whether_it_is_ready(ready: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if ready:
            theirs.send(b"x")
        assert run_in_task(lambda: await_ready(ours.fileno(), select.POLLIN, 0.02, None)) is ready


def test_the_end_of_a_call_ends_its_wait_for_a_descriptor() -> None:
    ours, theirs = socket.socketpair()
    lifetime = Lifetime(60)
    with ours, theirs:
        threading.Timer(0.02, lifetime.cancel).start()
        with pytest.raises(CancelledError):
            run_in_task(lambda: lifetime.await_ready(ours.fileno(), select.POLLIN))


def test_a_short_wait_after_a_long_one_ends_first() -> None:
    ends: list[str] = []

    def sleep(name: str, seconds: float) -> None:
        with pytest.raises(DeadlineExceededError):
            Lifetime(seconds).wait(60)
        ends.append(name)

    async def all_three() -> None:
        pairs = (("long", 0.06), ("short", 0.01), ("middle", 0.03))
        await asyncio.gather(*(start_task(partial(sleep, name, seconds)) for name, seconds in pairs))

    asyncio.run(all_three())
    assert ends == ["short", "middle", "long"]


def test_tasks_that_are_always_ready_do_not_stop_the_loop() -> None:
    over = threading.Event()

    def spin() -> None:
        event = EndEvent()
        event.set()
        while not over.is_set():
            await_ready(event_source.fileno(), select.POLLIN, 1, None)

    event_source, writer = socket.socketpair()
    writer.send(b"x")

    async def both() -> int:
        tasks = [start_task(spin) for _ in range(1)]
        turns = 0
        for _ in range(20):
            await asyncio.sleep(0)
            turns += 1
        over.set()
        await asyncio.gather(*tasks)
        return turns

    with event_source, writer:
        assert asyncio.run(both()) == 20


@pytest.mark.parametrize("fails", [False, True])
def test_blocking_work_runs_on_another_thread(fails: bool) -> None:
    def work() -> threading.Thread:
        if fails:
            raise KeyError("x")
        return threading.current_thread()

    if fails:
        with pytest.raises(KeyError):
            run_in_task(lambda: offload(work))
    else:
        assert run_in_task(lambda: offload(work)) is not threading.main_thread()
        assert offload(work) is threading.main_thread()  # outside of a task, nothing else needs the thread


def test_a_secret_is_read_on_another_thread() -> None:
    threads: list[threading.Thread] = []

    class Store(MemorySecrets):
        def get(self, user: str, name: str) -> Secret:
            threads.append(threading.current_thread())
            return super().get(user, name)

    store = Store()
    store.set("ann", "key", Secret("a-long-value-0123456789"))
    view = UserSecrets(store, "ann")
    assert run_in_task(lambda: view.get("key")).reveal() == "a-long-value-0123456789"
    assert threading.main_thread() not in threads


def test_tasks_can_be_run_to_their_end_after_their_loop() -> None:
    event, ends = EndEvent(), []
    found = []

    def wait() -> None:
        event.wait()
        ends.append(time.monotonic())

    async def leave() -> None:
        start_task(wait)
        found.append(running_scheduler())
        await asyncio.sleep(0)

    asyncio.run(leave())
    event.set()
    found[0].run_until(lambda: bool(ends), 5)
    assert ends


def test_one_loop_has_one_scheduler() -> None:
    async def pair() -> bool:
        return running_scheduler() is running_scheduler()

    first: Callable[[], bool] = lambda: asyncio.run(pair())  # noqa: E731
    assert first() and first()
