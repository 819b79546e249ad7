"""Threads for the calls of `aexecute` and of batches. A call gets one when it has a permit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import ToolOutput
from wasmrt.runtime.call._admission import Admission, QueuedCall
from wasmrt.runtime.call._call import CallRequest
from wasmrt.runtime.call._state import start_lifetime

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


class CallThreads:
    """Threads, each started when needed: one for each permit, up to the number of workers that the machine can hold."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def submit(
        self, run: Callable[[CallRequest], ToolOutput], request: CallRequest, limits: ResourceLimits
    ) -> tuple[Lifetime, Future[ToolOutput]]:
        """Start the lifetime of a call, and call `run` on a thread when the call has a permit or has ended.

        Raises:
            RuntimeClosedError: the runtime is closed.
        """
        from concurrent.futures import Future, ThreadPoolExecutor  # not needed by a command that runs one tool

        admission, lifetime = self._admission, start_lifetime(limits, request.context, None)
        with self._lock:
            if self._executor is None:
                # As many more for calls that use their caller's permit, or have ended.
                self._executor = ThreadPoolExecutor(2 * admission.threads, thread_name_prefix="wasmrt-call")
            executor = self._executor
        future: Future[ToolOutput] = Future()
        call = QueuedCall(request.context.user, lifetime)

        def work() -> None:
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(run(request._replace(lifetime=lifetime)))
            except BaseException as error:
                future.set_exception(error)
            finally:
                admission.leave(call)

        if request.context.under_permit:
            executor.submit(work)
        else:
            admission.queue(call, partial(executor.submit, work))
        return lifetime, future

    def close(self) -> None:
        """Wait for all threads. Close the admission before, so that calls that have not begun end at once."""
        with self._lock:
            executor = self._executor
        if executor is not None:
            executor.shutdown(wait=True)
