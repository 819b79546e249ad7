"""Run many calls on the thread of an event loop, each as a greenlet that lets others run while it waits.

The code of a call is the same as on a thread of its own: `wasmrt.core.lifetime` parks the current task instead of
blocking the thread (ADR 16). A scheduler has one reader and one timer in its loop, and gives the thread back to the
loop every 2 ms.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import TypeVar

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]

from wasmrt.core.lifetime import EndEvent
from wasmrt.core.tasks import Task, set_current_task

TURN_SECONDS = 0.002
"""The time after which the thread goes back to the event loop. A single step of a call may take longer."""
_MAX_EVENTS = 32
_MAX_OFFLOADED = 4
_COUNTED = 64
_T = TypeVar("_T")


class Scheduler:
    """Runs calls as tasks on the thread that created it. Other threads may only call `post`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._thread = threading.get_ident()
        self._poll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._bell, select.EPOLLIN)
        self._waiting: dict[int, _GreenTask] = {}
        self._ready: deque[_GreenTask] = deque()
        self._posted: deque[_GreenTask] = deque()
        self._starts: deque[Callable[[Scheduler], None]] = deque()
        self._timers: list[tuple[float, int, _GreenTask]] = []
        self._numbers = 0
        self._alive = 0
        self._is_soon = False
        self._timer: asyncio.TimerHandle | None = None
        self._pool: ThreadPoolExecutor | None = None
        loop.add_reader(self._poll.fileno(), self._turn)

    def __del__(self) -> None:
        self._poll.close()
        os.close(self._bell)

    def create_task(self, work: Callable[[], None], context: Context) -> Task:
        """Return a task that runs `work` after the first `wake`."""
        return _GreenTask(self, work, context)

    def call_soon(self, start: Callable[[Scheduler], None]) -> None:
        """Call `start` in a turn of the scheduler; it must not raise. Calls that start at the same time share turns."""
        self._starts.append(start)
        self._run_soon()

    def post(self, task: _GreenTask) -> None:
        """Make a task run. Any thread may call this."""
        if threading.get_ident() == self._thread:
            if not task.is_queued:
                task.is_queued = True
                self._ready.append(task)
                self._run_soon()
            return
        self._posted.append(task)
        with suppress(OSError):
            os.eventfd_write(self._bell, 1)

    def run_until(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Run tasks without the loop until `is_over` returns True or `seconds` have passed."""
        ends_at = time.monotonic() + seconds
        while not is_over() and (left := ends_at - time.monotonic()) > 0:
            self._collect(0 if self._ready or self._starts else min(left, self._next_timer(left)))
            self._run_ready()

    @property
    def is_here(self) -> bool:
        """True on the thread of the tasks, outside of a task."""
        return self._thread == threading.get_ident()

    def _turn(self) -> None:
        self._collect(0)
        self._run_ready()
        if self._ready or self._starts:
            self._run_soon()
        elif self._timers:
            self._set_timer()

    def _collect(self, seconds: float) -> None:
        """Make the tasks ready whose wait has ended; wait up to `seconds` for one."""
        for descriptor, _ in self._poll.poll(seconds, _MAX_EVENTS):
            if descriptor == self._bell:
                with suppress(BlockingIOError):
                    os.eventfd_read(self._bell)
            elif (waiter := self._waiting.get(descriptor)) is not None:
                waiter.is_found = True
                self.post(waiter)
        while self._posted:
            self.post(self._posted.popleft())
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            at, _, task = heapq.heappop(self._timers)
            if task.timer_at != at:
                continue  # replaced by an earlier timer
            task.timer_at = None
            if task.ends_at is not None and task.ends_at > now:
                self._add_timer(task, task.ends_at)  # this wait ends later than an earlier one would have
            elif task.ends_at is not None:
                self.post(task)

    def _run_ready(self) -> None:
        ends_at = time.monotonic() + TURN_SECONDS
        while self._ready or self._starts:
            if self._starts:
                self._starts.popleft()(self)
            if self._ready:
                self._ready.popleft().resume()
            if time.monotonic() >= ends_at:
                return

    def _run_soon(self) -> None:
        if not self._is_soon and (loop := self._loop()) is not None and not loop.is_closed():
            self._is_soon = True
            loop.call_soon(self._soon)

    def _soon(self) -> None:
        self._is_soon = False
        self._turn()

    def _next_timer(self, otherwise: float) -> float:
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else otherwise

    def _set_timer(self) -> None:
        loop = self._loop()
        if loop is None or loop.is_closed():
            return
        left = self._next_timer(0.0)
        if self._timer is not None:
            if self._timer.when() <= loop.time() + left:
                return
            self._timer.cancel()
        self._timer = loop.call_later(left, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._turn()

    # -- called by tasks -------------------------------------------------------------------------------------------

    def began(self) -> None:
        """Count a task that has started."""
        self._alive += 1

    def ended(self) -> None:
        """Count a task that has ended. If there are many timers, drop those that are no longer needed."""
        self._alive -= 1
        if len(self._timers) > 2 * self._alive + _COUNTED:  # each running task needs at most one
            self._timers = [timer for timer in self._timers if timer[2].timer_at == timer[0] and not timer[2].dead]
            heapq.heapify(self._timers)

    def _add_timer(self, task: _GreenTask, at: float) -> None:
        self._numbers += 1
        task.timer_at = at
        heapq.heappush(self._timers, (at, self._numbers, task))

    def limit(self, task: _GreenTask, at: float) -> None:
        """Make a task ready at the time `at`. Most waits of a task have the same end, so they share a timer."""
        task.ends_at = at
        if task.timer_at is None or at < task.timer_at:
            self._add_timer(task, at)

    def watch(self, task: _GreenTask, descriptor: int, events: int) -> None:
        """Make a task ready as soon as the descriptor is ready for `events`. This happens only once."""
        self._waiting[descriptor] = task
        self._poll.register(descriptor, events | select.EPOLLONESHOT)

    def unwatch(self, task: _GreenTask, descriptor: int) -> None:
        """Undo `watch`. If the descriptor was closed, its number may already belong to another task."""
        if self._waiting.get(descriptor) is task:
            del self._waiting[descriptor]
            with suppress(OSError):  # it was closed
                self._poll.unregister(descriptor)

    def offload(self, work: Callable[[], object]) -> None:
        """Run `work` on another thread; return at once."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MAX_OFFLOADED, thread_name_prefix="wasmrt-offload")
        self._pool.submit(work)


class _GreenTask(greenlet):  # type: ignore[misc]  # greenlet has no types
    """A `wasmrt.core.tasks.Task`: a greenlet that runs `work` when its scheduler first resumes it."""

    def __init__(self, scheduler: Scheduler, work: Callable[[], None], context: Context) -> None:
        super().__init__()
        self.gr_context = context
        self._scheduler = scheduler
        self._work: Callable[[], None] | None = work
        self._is_dropped = False
        self.is_queued = False
        self.is_found = False
        self.ends_at: float | None = None
        self.timer_at: float | None = None

    @property
    def group(self) -> Scheduler:
        return self._scheduler

    def spawn(self, work: Callable[[], None]) -> _GreenTask:
        task = _GreenTask(self._scheduler, work, Context())
        task.wake()
        return task

    def run(self) -> None:
        work, self._work = self._work, None
        assert work is not None
        self._scheduler.began()
        try:
            work()
        finally:
            self._scheduler.ended()

    def resume(self) -> None:
        """Run the task until its next wait."""
        self.is_queued = False
        if self.dead:
            return  # it was woken again at its end
        self.parent = getcurrent()
        set_current_task(self)
        try:
            self.switch()
        finally:
            set_current_task(None)

    def park(self, seconds: float | None) -> None:
        if self._is_dropped:
            raise GreenletExit
        if seconds is None:
            self.ends_at = None
        else:
            self._scheduler.limit(self, time.monotonic() + max(0.0, seconds))
        try:
            self.parent.switch()
        except GreenletExit:  # the loop was dropped: this task runs only its `finally` blocks, without waiting
            self._is_dropped = True
            raise
        self.ends_at = None

    def await_ready(self, descriptor: int, events: int, seconds: float) -> bool:
        self.is_found = False
        self._scheduler.watch(self, descriptor, events)
        try:
            self.park(seconds)
        finally:
            self._scheduler.unwatch(self, descriptor)
        return self.is_found

    def wake(self) -> None:
        self._scheduler.post(self)

    def offload(self, work: Callable[[], _T]) -> _T:
        ended = EndEvent()
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)
            ended.set()

        self._scheduler.offload(partial(copy_context().run, run))
        ended.wait()
        if errors:
            raise errors[0]
        return results[0]


_schedulers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Scheduler] = weakref.WeakKeyDictionary()


def running_scheduler() -> Scheduler:
    """Return the scheduler of the running event loop, created on first use."""
    loop = asyncio.get_running_loop()
    scheduler = _schedulers.get(loop)
    if scheduler is None:
        scheduler = _schedulers[loop] = Scheduler(loop)
    return scheduler


def _forget_in_child() -> None:
    _schedulers.clear()


os.register_at_fork(after_in_child=_forget_in_child)
