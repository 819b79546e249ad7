"""The calls of a worker: each is a greenlet that lets the others run while it waits for the host, sleeps, or computes.

The guests themselves run on fibers of the engine (`sandbox/guest/engine/_fiber.py`), which are suspended in every wait.
"""

from __future__ import annotations

import heapq
import select
import time
from collections import deque
from collections.abc import Callable

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from wasmrt.core.errors import CancelledError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.guest.engine import Ticker
from wasmrt.sandbox.isolation.wire import Channel, Frame, Kind, ProtocolError

MAX_FRAME_BYTES = 2**31 - 1
"""Maximum size of a host's frame. The host is trusted: it limits the params, and the grant limits its replies."""


class CallTask(greenlet):  # type: ignore[misc]  # greenlet has no types
    """The greenlet of one call at a time. `number` is the number in the call's frames.

    A task is reused for one call after the other, because each new greenlet has to map memory for Python frames.
    """

    is_shared = True

    def __init__(self, tasks: CallTasks) -> None:
        super().__init__(parent=getcurrent())
        self._tasks = tasks
        self.begin(0, _do_nothing)

    def begin(self, number: int, work: Callable[[CallTask], None]) -> None:
        """Set the next call."""
        self.number = number
        self.is_cancelled = self.sleeps = False
        self.answer: Frame | None = None
        self.work: Callable[[CallTask], None] | None = work

    def run(self) -> None:
        """Run calls."""
        while True:
            assert self.work is not None
            self.work(self)
            self.work = None
            self.parent.switch()

    def send(self, kind: Kind, head: dict[str, object] | bytes = b"{}", *tail: bytes | memoryview) -> None:
        """Send a frame of this call."""
        channel = self._tasks.channel
        channel.number = self.number
        channel.send(kind, head, *tail)

    def receive(self) -> Frame:
        """Wait for the host's answer to a request of this call."""
        while self.answer is None:
            self.parent.switch()
        answer, self.answer = self.answer, None
        return answer

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until the call is cancelled."""
        if self.is_cancelled:
            return
        self.sleeps = True
        self._tasks.wake_at(time.monotonic() + seconds, self)
        while self.sleeps:
            self.parent.switch()

    def give_way(self) -> None:
        """Let the other calls run, and read the host's frames."""
        self._tasks.ready.append(self)
        self.parent.switch()


class LoneCall:
    """A call that has the worker for itself, and reads the channel itself. It has the methods of `CallTask`."""

    is_shared = False

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.send = channel.send
        self._poll = select.poll()
        self._poll.register(channel.socket.fileno(), select.POLLIN)

    @property
    def is_cancelled(self) -> bool:
        """True if the host has cancelled the call. While a guest runs, the host sends no other frame."""
        return bool(self._poll.poll(0))

    def receive(self) -> Frame:
        """Wait for the host's answer to a request of this call."""
        while True:
            answer = self._channel.receive(MAX_FRAME_BYTES)
            if answer.kind == Kind.ANSWER:
                return answer
            if answer.kind != Kind.CANCEL:  # after a cancellation, the reply to the request follows
                raise ProtocolError("expected an answer from the host, got another kind of frame")

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until the call is cancelled."""
        self._poll.poll(seconds * 1000)

    def give_way(self) -> None:
        """Do nothing: there is no other call."""


def _do_nothing(_task: CallTask) -> None:
    return None


class CallTasks:
    """All calls of a worker, and its channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.ready: deque[CallTask] = deque()
        self._running: dict[int, CallTask] = {}
        self._spare: list[CallTask] = []
        self._sleeping: list[tuple[float, int, CallTask]] = []
        self._sleeps = 0
        self._poll = select.poll()
        self._poll.register(channel.socket.fileno(), select.POLLIN)

    @property
    def is_empty(self) -> bool:
        """True if no call runs."""
        return not self._running

    def start(self, number: int, work: Callable[[CallTask], None]) -> None:
        """Run a call until its first wait."""
        task = self._running[number] = self._spare.pop() if self._spare else CallTask(self)
        task.begin(number, work)
        self._resume(task)

    def deliver(self, frame: Frame) -> None:
        """Pass an answer or a cancellation to its call. A late cancellation is ignored, because its call has ended."""
        task = self._running.get(self.channel.number)
        if frame.kind == Kind.CANCEL:
            if task is not None:
                task.is_cancelled = True
                if task.sleeps:
                    self._wake(task)
        elif frame.kind == Kind.ANSWER and task is not None:
            task.answer = frame
            self._resume(task)
        else:
            raise ProtocolError("the host sent a frame that belongs to no call")

    def run_ready(self) -> bool:
        """Resume each ready call and each call whose sleep has ended, once. Return whether a frame can be read now.

        If only sleeping calls are left, first wait for a frame or for the end of a sleep.
        """
        now = time.monotonic() if self._sleeping else 0.0
        while self._sleeping and self._sleeping[0][0] <= now:
            task = heapq.heappop(self._sleeping)[2]
            if task.sleeps:
                self._wake(task)
        for _ in range(len(self.ready)):
            self._resume(self.ready.popleft())
        if not (self.ready or self._sleeping) or self.channel.has_data:
            return True
        left = 0.0 if self.ready else max(0.0, self._sleeping[0][0] - time.monotonic())
        return bool(self._poll.poll(left * 1000 + (0.5 if left else 0)))

    def wake_at(self, at: float, task: CallTask) -> None:
        """Wake a sleeping call at the time `at`."""
        self._sleeps += 1
        heapq.heappush(self._sleeping, (at, self._sleeps, task))

    def _wake(self, task: CallTask) -> None:
        task.sleeps = False
        self._resume(task)

    def _resume(self, task: CallTask) -> None:
        task.switch()
        if task.work is None:
            del self._running[task.number]
            self._spare.append(task)
            if not self._running:
                self._sleeping.clear()


class WorkerLifetime(Lifetime):
    """The lifetime of a call in a worker. The host enforces the deadline, too."""

    __slots__ = ("_task", "_ticker")

    def __init__(self, seconds: float, task: CallTask | LoneCall, ticker: Ticker) -> None:
        super().__init__(seconds)
        self._task = task
        self._ticker = ticker

    def interruption(self) -> BaseException | None:
        """Return the error that ended the call, or None while it continues."""
        if self._ended_by is None and self._task.is_cancelled:
            self._ended_by = CancelledError("the call was cancelled")
        return super().interruption()

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the call ends.

        Raises:
            DeadlineExceededError, CancelledError: the call ended.
        """
        self.check()
        least = min(seconds, self.remaining())
        self._ticker.paused(lambda: self._task.sleep(least))
        error = self.interruption()
        if error is not None:
            raise error

    def pause(self) -> None:
        """Let other calls run.

        Raises:
            DeadlineExceededError, CancelledError: the call ended.
        """
        self._task.give_way()
        error = self.interruption()
        if error is not None:
            raise error
