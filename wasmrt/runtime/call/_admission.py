"""Permits for concurrent calls, shared fairly between users. Closing them ends every call."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from wasmrt.core.errors import ConfigurationError, DeadlineExceededError, RuntimeClosedError, TooManyCallsError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.setting_commands import set_command
from wasmrt.sandbox.guest.settings import Isolation, find_capacity

GLOBAL_FACTOR = 4
"""Limit of concurrent calls of all users together, as a multiple of one user's limit."""
WAITING_FACTOR = 256
"""Limit of one user's waiting calls, as a multiple of the limit of the user's concurrent calls."""


class Caller(Protocol):
    """A call, or a request for a call. `Admission` distinguishes callers by their lifetimes."""

    @property
    def user(self) -> str:
        """The user whose permits the call takes."""

    @property
    def lifetime(self) -> Lifetime:
        """The lifetime, from the moment of the call."""

    @property
    def is_shared(self) -> bool:
        """True if the call shares a worker with other calls; False if the call needs a separate worker."""


class QueuedCall(NamedTuple):
    """A call that waits for a permit before it runs."""

    user: str
    lifetime: Lifetime
    is_shared: bool = False


class Admission:
    """Permits for concurrent calls.

    A user holds at most `per_user` permits, so that guests that only sleep cannot lock out other users. All users
    together hold at most `total` permits, by default four times `per_user`. Waiting users are served in turn, and each
    user's calls in order. The number of waiting calls is also limited.
    """

    def __init__(self, per_user: int, total: int | None = None, threads: int | None = None) -> None:
        self._per_user = per_user
        self.total = min(per_user * GLOBAL_FACTOR, total or per_user * GLOBAL_FACTOR)
        self.threads = min(self.total, threads or self.total)
        """Number of calls at a time that need a worker each."""
        self._lock = threading.Condition(threading.RLock())  # a signal handler may cancel a waiting call
        self._held: dict[str, int] = {}
        self._running: dict[int, Caller] = {}
        self._lone: set[int] = set()
        self._queues: OrderedDict[str, deque[_Waiter]] = OrderedDict()
        self._waiting = 0
        self._wakes_at: float | None = None
        """The time at which a thread next ends waiting calls at their deadlines; None if there is no such thread."""
        self._idle: threading.Event | None = None
        self.closed = False

    @property
    def running(self) -> int:
        """Number of calls in flight."""
        return len(self._running)

    def enter(self, call: Caller) -> None:
        """Take a permit for a call that has none. If no permit is free, wait for one until the call's deadline.

        Raises:
            DeadlineExceededError: no permit became free in time.
            TooManyCallsError: too many calls wait.
            RuntimeClosedError: the runtime is closed.
        """
        if id(call.lifetime) in self._running:
            return
        self.check(call.lifetime)
        if self._admit(call):
            return
        woken = threading.Event()
        waiter = self._admit_or_queue(call, woken.set)
        if waiter.admitted:
            return
        try:
            with call.lifetime.cancelled.waking(woken.set):
                woken.wait(call.lifetime.remaining())
        except BaseException:
            # A signal handler raised an exception: give up the place in the queue, or the permit.
            self._end(waiter)
            self.leave(call)
            raise
        self._end(waiter)
        if not waiter.admitted:
            self.check(call.lifetime)
            raise self._late(call.lifetime)

    def queue(self, call: Caller, start: Callable[[], object]) -> None:
        """Call `start` once: when the call has a permit, or when its lifetime has ended.

        If too many calls wait, the lifetime ends with a `TooManyCallsError`.

        Raises:
            RuntimeClosedError: the runtime is closed.
        """
        try:
            waiter = self._admit_or_queue(call, start)
        except TooManyCallsError as error:
            call.lifetime.end(error)
            start()
            return
        if waiter.admitted:
            start()
            return
        with self._lock:
            if self._wakes_at is None:
                threading.Thread(target=self._end_late_calls, name="wasmrt-queue", daemon=True).start()
            elif call.lifetime.deadline < self._wakes_at:
                self._lock.notify_all()
            self._wakes_at = min(call.lifetime.deadline, self._wakes_at or call.lifetime.deadline)
        call.lifetime.cancelled.on_set(partial(self._end, waiter))

    def check(self, lifetime: Lifetime) -> None:
        """Raise if a call has ended before it could start.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call has ended.
        """
        error = lifetime.interruption()
        if error is not None:
            raise self._late(lifetime) if isinstance(error, DeadlineExceededError) else error

    def leave(self, call: Caller) -> None:
        """Release the permit of a call; do nothing if the call has no permit."""
        key, user, held = id(call.lifetime), call.user, self._held
        with self._lock:
            if key in self._running:
                self._lone.discard(key)
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
            calls = [*self._running.values(), *(each.call for queue in self._queues.values() for each in queue)]
        for call in calls:
            call.lifetime.close()
        with self._lock:
            self._lock.notify_all()

    def wait_idle(self, seconds: float) -> bool:
        """Wait up to `seconds` until no call runs; return False if a call still runs, for example in a name lookup."""
        with self._lock:
            self._idle = threading.Event()
            if not self._running:
                return True
        return self._idle.wait(seconds)

    def _admit(self, call: Caller) -> bool:
        """Give a call a permit if one is free; return whether it has one."""
        with self._lock:
            if self.closed:
                raise RuntimeClosedError("the runtime is closed", hint="create a new WasmToolRuntime")
            if not self._may_admit(call):
                return False
            self._take(call.user, call)  # waiting calls get free permits first, so no call of this user waits
            return True

    def _admit_or_queue(self, call: Caller, wake: Callable[[], object]) -> _Waiter:
        waiter = _Waiter(call, wake)
        with self._lock:
            waiter.admitted = self._admit(call)
            if not waiter.admitted:
                self._check_queue(call.user)
                self._queues.setdefault(call.user, deque()).append(waiter)
                self._waiting += 1
        return waiter

    def _check_queue(self, user: str) -> None:
        own, every, most = len(self._queues.get(user, ())), self._waiting, self._per_user * WAITING_FACTOR
        if own < most and every < most * GLOBAL_FACTOR:
            return
        count, limit, whose = (own, most, "of this user") if own >= most else (every, most * GLOBAL_FACTOR, "in total")
        raise TooManyCallsError(
            f"{count:,} calls {whose} wait for a permit, the maximum with max_concurrent_calls = {self._per_user:,}",
            limit=limit, used=count, setting="max_concurrent_calls",
            hint="call again when fewer calls wait, or make fewer calls at once: execute_many has a parameter parallel",
        )  # fmt: skip

    def _late(self, lifetime: Lifetime) -> DeadlineExceededError:
        waited = time.monotonic() - lifetime.started
        return DeadlineExceededError(
            f"the call waited {waited:.3g} s for a permit, and its deadline passed before it could start",
            limit=round(lifetime.deadline - lifetime.started, 6), used=waited, setting="max_concurrent_calls",
            hint="make fewer calls at once, or raise max_concurrent_calls or limits.timeout_seconds",
        )  # fmt: skip

    def _may_admit(self, call: Caller) -> bool:
        has_worker = call.is_shared or len(self._lone) < self.threads
        return has_worker and len(self._running) < self.total and self._held.get(call.user, 0) < self._per_user

    def _take(self, user: str, call: Caller) -> None:
        key, held = id(call.lifetime), self._held.get(user, 0) + 1
        if not call.is_shared:
            self._lone.add(key)
        self._held[user] = held  # no function call between these two lines, as in `leave`
        self._running[key] = call

    def _admit_waiting(self) -> None:
        # Users take turns: each user below its limit gets one permit and moves to the end.
        for user in list(self._queues):
            queue = self._queues[user]
            if not self._may_admit(queue[0].call):
                continue
            waiter = queue.popleft()
            self._queues.move_to_end(user)
            if not queue:
                del self._queues[user]
            self._waiting -= 1
            self._take(user, waiter.call)
            waiter.admitted = True
            waiter.wake()

    def _end(self, waiter: _Waiter) -> None:
        """If a call has no permit yet, remove the call from its queue and wake its waiter."""
        with self._lock:
            queue = self._queues.get(waiter.call.user)
            if waiter.admitted or queue is None or waiter not in queue:
                return
            queue.remove(waiter)
            if not queue:
                del self._queues[waiter.call.user]
            self._waiting -= 1
        waiter.wake()

    def _end_late_calls(self) -> None:
        while True:
            with self._lock:
                waiting, now = [waiter for queue in self._queues.values() for waiter in queue], time.monotonic()
                if not waiting:
                    self._wakes_at = None
                    return
                late = [waiter for waiter in waiting if waiter.call.lifetime.deadline <= now]
                if not late:
                    self._wakes_at = min(waiter.call.lifetime.deadline for waiter in waiting)
                    self._lock.wait(self._wakes_at - now)
            for waiter in late:
                self._end(waiter)


def open_admission(per_user: int, isolation: Isolation) -> Admission:
    """Return the permits of a runtime whose users may each make `per_user` calls at a time.

    Raises:
        ConfigurationError: this machine cannot run that many calls.
    """
    capacity = find_capacity(isolation)
    if per_user > capacity.calls:
        raise ConfigurationError(
            f"max_concurrent_calls is {per_user:,}, but {capacity.reason}",
            hint=set_command("limits.max_concurrent_calls", str(capacity.calls)),
        )
    return Admission(per_user, capacity.calls, capacity.workers)


class _Waiter:
    def __init__(self, call: Caller, wake: Callable[[], object]) -> None:
        self.call = call
        self.wake = wake
        self.admitted = False
