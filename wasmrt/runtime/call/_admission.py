"""Permits for concurrent calls, shared fairly between users. Closing them ends every call."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque

from wasmrt.core.errors import DeadlineExceededError, RuntimeClosedError
from wasmrt.runtime.call._state import Call

GLOBAL_FACTOR = 4
"""Limit of concurrent calls of all users together, as a multiple of one user's limit."""


class Admission:
    """Permits for concurrent calls.

    A user holds at most `per_user` permits, so that guests that only sleep cannot lock out other users; all users
    together hold at most four times as many. Waiting users are served in turn, and each user's calls in order.
    """

    def __init__(self, per_user: int) -> None:
        self._per_user = per_user
        self._total = per_user * GLOBAL_FACTOR
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}
        self._running: dict[int, Call] = {}
        self._queues: OrderedDict[str, deque[_Waiter]] = OrderedDict()
        self._idle: threading.Event | None = None
        self.closed = False

    @property
    def running(self) -> int:
        """Number of calls in flight."""
        return len(self._running)

    def enter(self, call: Call) -> None:
        """Take a permit for a call. If no permit is free, wait for one until the call's deadline.

        Raises:
            DeadlineExceededError: no permit became free in time.
            RuntimeClosedError: the runtime is closed.
        """
        user = call.user
        with self._lock:
            if self.closed:
                raise RuntimeClosedError("the runtime is closed", hint="create a new WasmToolRuntime")
            if self._may_admit(user):  # waiting calls get free permits first, so no call of this user waits
                self._take(user, call)
                return
            waiter = _Waiter(call)
            self._queues.setdefault(user, deque()).append(waiter)
        self._await_permit(waiter, call)

    def leave(self, call: Call) -> None:
        """Release the permit of a call; do nothing if the call has no permit."""
        key, user, held = id(call), call.user, self._held
        with self._lock:
            if key in self._running:
                del self._running[key]  # no function call between these two lines, so that no signal handler runs there
                held[user] -= 1
                if not held[user]:
                    del held[user]
            if self._idle is not None and not self._running:
                self._idle.set()
            if self._queues:
                self._admit_waiting()

    def close(self) -> None:
        """End every call with a `RuntimeClosedError` and reject new calls. Do not wait for the calls to end."""
        with self._lock:
            self.closed = True
            running = list(self._running.values())
            waiting = [waiter for queue in self._queues.values() for waiter in queue]
            self._queues.clear()
        for call in running:
            call.lifetime.close()
        for waiter in waiting:
            waiter.call.lifetime.close()

    def wait_idle(self, seconds: float) -> bool:
        """Wait up to `seconds` until no call runs; return False if one takes longer, for example in a name lookup."""
        with self._lock:
            self._idle = threading.Event()
            if not self._running:
                return True
        return self._idle.wait(seconds)

    def _await_permit(self, waiter: _Waiter, call: Call) -> None:
        try:
            with call.lifetime.cancelled.waking(waiter.woken.set):
                waiter.woken.wait(call.lifetime.remaining())
        except BaseException:
            # A signal handler raised an exception: give up the place in the queue, or the permit.
            with self._lock:
                self._forget(waiter, call.user)
            self.leave(call)
            raise
        with self._lock:
            if not waiter.admitted:
                self._forget(waiter, call.user)
        if waiter.admitted:
            return
        error = call.lifetime.interruption()
        if error is None or isinstance(error, DeadlineExceededError):
            raise DeadlineExceededError(
                "the call's deadline passed while it waited for a permit",
                limit=call.limits.timeout_seconds, used=time.monotonic() - call.lifetime.started,
                setting="max_concurrent_calls",
            )  # fmt: skip
        raise error

    def _may_admit(self, user: str) -> bool:
        return len(self._running) < self._total and self._held.get(user, 0) < self._per_user

    def _take(self, user: str, call: Call) -> None:
        key, held = id(call), self._held.get(user, 0) + 1
        self._held[user] = held  # no function call between these two lines, as in `leave`
        self._running[key] = call

    def _admit_waiting(self) -> None:
        # Users take turns: each user below its limit gets one permit and moves to the end.
        for user in list(self._queues):
            queue = self._queues[user]
            if not self._may_admit(user):
                continue
            waiter = queue.popleft()
            self._queues.move_to_end(user)
            if not queue:
                del self._queues[user]
            self._take(user, waiter.call)
            waiter.admit()

    def _forget(self, waiter: _Waiter, user: str) -> None:
        queue = self._queues.get(user)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._queues[user]


class _Waiter:
    def __init__(self, call: Call) -> None:
        self.call = call
        self.admitted = False
        self.woken = threading.Event()

    def admit(self) -> None:
        self.admitted = True
        self.woken.set()
