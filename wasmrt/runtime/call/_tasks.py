"""Calls of `aexecute` that share the thread of the event loop. A call becomes a task when it has a permit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet

from wasmrt.core.errors import RuntimeClosedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import ToolOutput
from wasmrt.runtime.call._admission import Admission, QueuedCall
from wasmrt.runtime.call._call import CallRequest
from wasmrt.runtime.call._state import start_lifetime

if TYPE_CHECKING:
    import asyncio

    from wasmrt.core.scheduler import Scheduler


class LoopCall(NamedTuple):
    """A call that a coroutine waits for."""

    lifetime: Lifetime
    output: asyncio.Future[ToolOutput]
    ended: asyncio.Future[None] | None
    """Done when a call on the loop's thread has ended, even if it was cancelled; None for a call on another thread."""


class CallTasks:
    """Runs calls as tasks of the running event loop."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._schedulers: WeakSet[Scheduler] = WeakSet()
        self._unfinished = 0
        self._changed = threading.Condition()

    def submit(
        self, run: Callable[[CallRequest], ToolOutput], request: CallRequest, limits: ResourceLimits
    ) -> LoopCall:
        """Start the lifetime of a call, and run `run` as a task when the call has a permit or has ended.

        If the runtime is closed meanwhile, the lifetime ends.
        """
        import asyncio  # imported in programs that await

        from wasmrt.core.scheduler import running_scheduler

        admission, lifetime = self._admission, start_lifetime(limits, request.context, None)
        loop, scheduler = asyncio.get_running_loop(), running_scheduler()
        self._schedulers.add(scheduler)
        future: asyncio.Future[ToolOutput] = loop.create_future()
        ended: asyncio.Future[None] = loop.create_future()
        call = QueuedCall(request.context.user, lifetime, is_shared=True)

        def work() -> None:
            try:
                if future.cancelled():
                    return
                output = run(request._replace(lifetime=lifetime))
            except BaseException as error:
                if not (future.done() or loop.is_closed()):
                    future.set_exception(error)
            else:
                if not (future.done() or loop.is_closed()):
                    future.set_result(output)
            finally:
                admission.leave(call)
                with self._changed:
                    self._unfinished -= 1
                    self._changed.notify_all()
                if not (ended.done() or loop.is_closed()):
                    ended.set_result(None)

        def begin() -> None:
            start = scheduler.task(work, context)
            if request.context.under_permit:
                start()
                return
            try:
                admission.queue(call, start)
            except RuntimeClosedError as error:
                lifetime.end(error)
                start()

        context = copy_context()
        with self._changed:
            self._unfinished += 1
        scheduler.call_soon(begin)
        return LoopCall(lifetime, future, ended)

    def finish(self, seconds: float) -> None:
        """Wait until all calls have ended and their receipts are written.

        The tasks of this thread are run here, since their loop may have been closed.
        """
        ends_at = time.monotonic() + seconds
        for scheduler in self._schedulers:
            if scheduler.is_here:
                scheduler.run_until(lambda: not self._unfinished, ends_at - time.monotonic())
        with self._changed:
            self._changed.wait_for(lambda: not self._unfinished, max(0.0, ends_at - time.monotonic()))
