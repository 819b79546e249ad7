"""Threads for guests whose values the engine may take long to convert: their caller is answered at the deadline.

Between guest and host the engine turns up to 128 MiB of values into its own form before any of our code sees one.
Nothing interrupts that: neither fuel nor epochs, and the C API has no setting for it. So the caller waits for the
thread, and not beyond its deadline; the thread drops its guest as soon as the engine lets go of it.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable

from wasmrt.call._state import Call
from wasmrt.errors import BudgetExceededError, DeadlineExceededError, InternalError

_GRACE_SECONDS = 0.05
"""A guest that stops at its deadline by itself, as nearly all do, gets this long to say so."""
_LOOK_SECONDS = 0.2
"""The interval at which a caller looks whether it was cancelled; it is answered at most that and the grace later."""
_IDLE_SECONDS = 10.0
_MAX_IDLE = 16


class DetachedRunner:
    """Threads that run one guest each and are kept a while for the next; as many as there are calls at once."""

    def __init__(self) -> None:
        self._idle: deque[_Worker] = deque()
        self._closed = False

    def run(self, call: Call, guest: Callable[[], str], keep: Callable[[], None], after: Callable[[], None]) -> str:
        """Run `guest` on another thread and return what it returns.

        Where nobody waits any more when it ends, the call is marked as abandoned: `keep` is called before, and `after`
        on that thread at the end.

        Raises:
            DeadlineExceededError: it has not ended at the call's deadline.
            CancelledError, RuntimeClosedError: it has not ended a moment after the call was.
            BaseException: what `guest` raises, or what interrupted the wait.
        """
        task = _Task(call, guest, after)
        worker: _Worker | None = None
        try:
            worker = self._worker()
            while not worker.give(task):
                worker = self._worker()
            ended = _wait(task, call)
        except BaseException:  # a signal's handler raised
            call.lifetime.cancel()
            keep()
            if worker is not None and task.try_finish():
                call.abandoned = True
                if not task.begun:
                    worker.give(task)  # it may not have come to that
            raise
        if not ended:
            keep()
            if task.try_finish():
                call.abandoned = True
                raise call.lifetime.interruption() or InternalError("waiting for the guest ended early")
            task.ended.acquire()  # it has ended just now
        if task.error is not None:
            raise task.error
        return task.answer

    def _worker(self) -> _Worker:
        try:
            return self._idle.pop()
        except IndexError:
            return _Worker(self)

    def close(self) -> None:
        """End the threads that wait; one with a guest ends with it."""
        self._closed = True
        while self._idle:
            self._idle.pop().give(None)

    def park(self, worker: _Worker) -> bool:
        """Take a thread back that has nothing to do; False where it is not wanted."""
        if self._closed or len(self._idle) >= _MAX_IDLE:
            return False
        self._idle.append(worker)
        return True

    def release(self, worker: _Worker) -> bool:
        """Let a thread end that has waited long; False where a task is on its way to it."""
        try:
            self._idle.remove(worker)
        except ValueError:
            return False
        return True


def _wait(task: _Task, call: Call) -> bool:
    """Return True when the task has ended, False when the call was over a moment ago and it still runs."""
    while not task.ended.acquire(timeout=min(call.lifetime.remaining(), _LOOK_SECONDS) + _GRACE_SECONDS):
        if call.lifetime.is_over:
            return False
    return True


class _Task:
    __slots__ = ("_call", "_finished", "_variables", "after", "answer", "begun", "ended", "error", "guest")

    def __init__(self, call: Call, guest: Callable[[], str], after: Callable[[], None]) -> None:
        self._call = call
        self.guest = guest
        self.after = after
        self.answer = ""
        self.error: BaseException | None = None
        self.ended = threading.Lock()
        self.ended.acquire()
        self.begun = False
        self._finished = threading.Lock()
        self._variables = contextvars.copy_context()

    def try_finish(self) -> bool:
        """True for the first to ask: the thread that ends, or the caller that no longer waits."""
        return self._finished.acquire(blocking=False)

    def work(self) -> None:
        """Run the guest, then trim the C heap if it converted many values.

        An abandoned call is trimmed before its permit is released; otherwise the caller has its answer first.
        """
        try:
            self.answer = self._variables.run(self.guest)
        except BaseException as error:
            self.error = error
        guest = self._call.guest
        from wasmrt.guest.engine import give_memory_back  # loaded: the guest ran in it

        flooded = guest is not None and isinstance(guest.failure, (BudgetExceededError, DeadlineExceededError))
        if self.try_finish():
            self.ended.release()
            if flooded:
                give_memory_back()
        else:
            give_memory_back()
            self.after()


class _Worker(threading.Thread):
    def __init__(self, home: DetachedRunner) -> None:
        super().__init__(name="wasmrt-guest", daemon=True)
        self._home = home
        self._task: _Task | None = None
        self._called = threading.Lock()
        self._called.acquire()
        self._giving = threading.Lock()
        self._gone = False
        self.start()

    def give(self, task: _Task | None) -> bool:
        """Wake it with a task, or with None to end it; one that is idle and no other. False where it has ended."""
        with self._giving:
            if self._gone:
                return False
            self._task = task
            if self._called.locked():  # not given before
                self._called.release()
            return True

    def run(self) -> None:
        wanted, taken = True, False
        while wanted:
            if not self._called.acquire(timeout=_IDLE_SECONDS):
                if (taken or self._home.release(self)) and self._ends():
                    return
                taken = (
                    True  # by somebody who may have been interrupted before there was a task: once more, and it ends
                )
                continue
            taken = False
            task, self._task = self._task, None
            if task is None:
                return
            if task.begun:
                continue
            task.begun = True
            task.work()
            del task
            wanted = self._home.park(self)

    def _ends(self) -> bool:
        with self._giving:
            self._gone = self._called.locked()  # nobody has given it a task
            return self._gone
