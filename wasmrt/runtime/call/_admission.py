"""Permits for calls in flight, fair between users, and a way to end every call at once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque

from wasmrt.core.errors import DeadlineExceededError, RuntimeClosedError
from wasmrt.runtime.call._state import Call

GLOBAL_FACTOR = 4
"""All users together may have this many times one user's calls in flight."""


class Admission:
    """Permits for calls in flight.

    One user holds at most `per_user`, so that guests which only sleep cannot lock anybody else out; all users
    together hold at most four times that. Whoever has to wait is served by turns between users, in order within one.
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
        """Calls in flight."""
        return len(self._running)

    def enter(self, call: Call) -> None:
        """Take a permit, waiting for one until the call's deadline.

        Raises:
            DeadlineExceededError: no permit came free in time.
            RuntimeClosedError: the runtime is closed.
        """
        user = call.user
        with self._lock:
            if self.closed:
                raise RuntimeClosedError("the runtime is closed", hint="make a new WasmToolRuntime")
            if self._may(user):  # then none of this user's waits: whoever could be served was, when a permit came free
                self._take(user, call)
                return
            waiter = _Waiter(call)
            self._queues.setdefault(user, deque()).append(waiter)
        self._await(waiter, call)

    def leave(self, call: Call) -> None:
        """Give a permit back; does nothing where it was given back before, or never taken."""
        key, user, held = id(call), call.user, self._held
        with self._lock:
            if key in self._running:
                del self._running[key]  # no call between this and the next: a signal's handler cannot come in between
                held[user] -= 1
                if not held[user]:
                    del held[user]
            if self._idle is not None and not self._running:
                self._idle.set()
            if self._queues:
                self._serve()

    def close(self) -> None:
        """End every call with a typed error and refuse the next; waits for none."""
        with self._lock:
            self.closed = True
            running = list(self._running.values())
            waiting = [waiter for queue in self._queues.values() for waiter in queue]
            self._queues.clear()
        for call in running:
            call.lifetime.close()
        for waiter in waiting:
            waiter.call.lifetime.close()

    def drained(self, seconds: float) -> bool:
        """Wait for the calls in flight to end; False where one holds out longer, as inside a name lookup."""
        with self._lock:
            self._idle = threading.Event()
            if not self._running:
                return True
        return self._idle.wait(seconds)

    def _await(self, waiter: _Waiter, call: Call) -> None:
        call.lifetime.on_end(waiter.woken.set)
        try:
            waiter.woken.wait(call.lifetime.remaining())
        except BaseException:
            # A signal's handler raised: whoever waited is gone, with its place or its permit.
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
                "the call waited for a permit until its deadline",
                limit=call.limits.timeout_seconds, used=time.monotonic() - call.lifetime.started,
                setting="max_concurrent_calls",
            )  # fmt: skip
        raise error

    def _may(self, user: str) -> bool:
        return len(self._running) < self._total and self._held.get(user, 0) < self._per_user

    def _take(self, user: str, call: Call) -> None:
        key, held = id(call), self._held.get(user, 0) + 1
        self._held[user] = held  # as in `leave`: no call between this and the next
        self._running[key] = call

    def _serve(self) -> None:
        # By turns: each user with room gets one, and goes to the back.
        for user in list(self._queues):
            queue = self._queues[user]
            if not self._may(user):
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
