"""Calls of `aexecute` that share the thread of the event loop. A call becomes a task when it has a permit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakSet

from wasmrt.core.errors import RuntimeClosedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import ToolOutput
from wasmrt.runtime.call._admission import Admission
from wasmrt.runtime.call._call import CallRequest
from wasmrt.runtime.call._state import start_lifetime

if TYPE_CHECKING:
    import asyncio

    from wasmrt.core.scheduler import Scheduler


class LoopCall(Protocol):
    """A call that a coroutine waits for."""

    @property
    def lifetime(self) -> Lifetime:
        """The call's lifetime, which has begun."""

    @property
    def output(self) -> asyncio.Future[ToolOutput]:
        """The result."""

    async def wait_ended(self) -> None:
        """Wait for the end of a call that was cancelled, if it runs on the loop's thread."""


class ThreadCall(NamedTuple):
    """A `LoopCall` that runs on another thread."""

    lifetime: Lifetime
    output: asyncio.Future[ToolOutput]

    async def wait_ended(self) -> None:
        """Return at once: the call does not need the loop for its end."""


class TaskCall:
    """A `LoopCall` that runs as a task when it has a permit or has ended.

    There are thousands at a time, so it has few objects, and begins in a turn of the scheduler.
    """

    __slots__ = ("_context", "_ended", "_is_ended", "_request", "_run", "_tasks", "lifetime", "output")
    is_shared = True

    def __init__(
        self,
        tasks: CallTasks,
        run: Callable[[CallRequest], ToolOutput],
        request: CallRequest,
        lifetime: Lifetime,
        output: asyncio.Future[ToolOutput],
    ) -> None:
        self.lifetime = lifetime
        self.output = output
        self._tasks = tasks
        self._run = run
        self._request = request
        self._context = copy_context()
        self._is_ended = False
        self._ended: asyncio.Future[None] | None = None

    @property
    def user(self) -> str:
        """The user whose permits the call takes."""
        return self._request.context.user

    async def wait_ended(self) -> None:
        """Wait until the call has ended."""
        if not self._is_ended:
            self._ended = self.output.get_loop().create_future()
            await self._ended

    def begin(self, scheduler: Scheduler) -> None:
        """Wait for a permit, then run."""
        start = scheduler.create_task(self._work, self._context).wake
        if self._request.context.under_permit:
            start()
            return
        try:
            self._tasks.admission.queue(self, start)
        except RuntimeClosedError as error:
            self.lifetime.end(error)
            start()

    def _work(self) -> None:
        output, loop = self.output, self.output.get_loop()
        try:
            if output.cancelled():
                return
            self._request = self._request._replace(lifetime=self.lifetime)
            result = self._run(self._request)
        except BaseException as error:
            if not (output.done() or loop.is_closed()):
                output.set_exception(error)
        else:
            if not (output.done() or loop.is_closed()):
                output.set_result(result)
        finally:
            self._tasks.end(self)
            self._is_ended = True
            if self._ended is not None and not (self._ended.done() or loop.is_closed()):
                self._ended.set_result(None)


class CallTasks:
    """Runs calls as tasks of the running event loop."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self._schedulers: WeakSet[Scheduler] = WeakSet()
        self._unfinished = 0
        self._changed = threading.Condition()

    def submit(
        self, run: Callable[[CallRequest], ToolOutput], request: CallRequest, limits: ResourceLimits
    ) -> TaskCall:
        """Start the lifetime of a call, and run `run` as a task when the call has a permit or has ended.

        If the runtime is closed meanwhile, the lifetime ends.
        """
        import asyncio  # imported in programs that await

        from wasmrt.core.scheduler import running_scheduler

        scheduler, output = running_scheduler(), asyncio.get_running_loop().create_future()
        call = TaskCall(self, run, request, start_lifetime(limits, request.context, None), output)
        with self._changed:
            self._schedulers.add(scheduler)
            self._unfinished += 1
        scheduler.call_soon(call.begin)
        return call

    def end(self, call: TaskCall) -> None:
        """Release the permit of a call that has ended."""
        self.admission.leave(call)
        with self._changed:
            self._unfinished -= 1
            self._changed.notify_all()

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
