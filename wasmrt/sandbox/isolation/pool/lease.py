"""A worker that runs many calls at once, of one user, for the tasks of one scheduler.

A task of the scheduler, the pump, reads the worker's frames and passes each to its call by its number. A number is
random, and known only to the worker and the host.

SECURITY: all calls of a worker have the same component and user. A hostile worker can confuse the calls it runs, but
every request is decided under the grant of the call whose number it has. If a worker violates the protocol, or does
not end a call in time, it is ended with all its calls.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from wasmrt.core.errors import WasmrtError
from wasmrt.core.lifetime import EndEvent
from wasmrt.core.limits import MIB
from wasmrt.core.tasks import Task
from wasmrt.sandbox.isolation.pool.handle import Worker
from wasmrt.sandbox.isolation.wire import NO_EXCHANGE, ClosedError, Frame, Kind, ProtocolError, pack_frame
from wasmrt.sandbox.isolation.wire.requests import CALL_ENDED

LATE_SECONDS = 0.5
"""Time in which a worker must end a guest whose call has ended. Otherwise the worker is killed, with all its calls."""
_PUMP_SECONDS = 60.0
_MAX_FRAMES = 16
_KEPT_LANES = 8
"""A guest leaves up to 0.6 MiB in its worker, so that the next one starts faster."""
_LATE_BYTES = 64 * MIB
_FINAL = (Kind.RESULT, Kind.FAULT)


def _never(_events: int = 0) -> None:
    return None


class Lane:
    """The frames of one call. A lane has those methods of a `Channel` that a call uses."""

    def __init__(self, lease: Lease, task: Task, *, is_first: bool) -> None:
        self.is_first = is_first
        """True for the first call of a new worker."""
        self.worker = lease.worker
        self._lease = lease
        self._task = task
        self.frames: deque[Frame] = deque()
        self.number = int.from_bytes(os.urandom(8), "little") | 1
        self.waiting: Callable[[int], None] = _never
        self.between: Callable[[], None] = _never
        self.most = 0
        self.is_answered = False
        """True if the worker has ended the call."""

    def begin(self) -> None:
        """Accept frames from the worker."""

    def send(self, kind: Kind, head: dict[str, object] | bytes = b"{}", *tail: bytes | memoryview) -> None:
        """Send a frame.

        Raises:
            ClosedError: the worker has ended.
        """
        self._lease.write(b"".join(pack_frame(kind, self.number, head, *tail)))

    def receive(self, most: int) -> Frame:
        """Wait for a frame of at most `most` bytes.

        Raises:
            ClosedError, ProtocolError: the worker has ended, or violated the protocol.
        """
        self.most = most
        while not self.frames:
            self._lease.check()
            self.waiting(0)
        frame = self.frames.popleft()
        self.is_answered = frame.kind in _FINAL
        return Frame(frame.kind, frame.head, frame.tail, self.between)

    def await_ready(self, _events: int, seconds: float, ended: EndEvent | None) -> None:
        """Wait until a frame has arrived, `seconds` have passed or `ended` is set. May return early."""
        if ended is None:
            self._task.park(seconds)
            return
        wake = self._task.wake
        try:
            ended.on_set(wake)
            self._task.park(seconds)
        finally:
            ended.forget(wake)

    def cancel(self) -> None:
        """Ask the worker to end the call."""
        with suppress(ClosedError):
            self.send(Kind.CANCEL)

    def deliver(self, frame: Frame) -> None:
        """Pass on a frame."""
        self.frames.append(frame)
        self._task.wake()

    def wake(self) -> None:
        """Make the call notice the end of the worker."""
        self._task.wake()

    def close(self, *, is_well: bool) -> None:
        """End the call's use of the worker. The worker takes further calls only if the guest ended well.

        A guest that may still run has `LATE_SECONDS` to end.
        """
        self.waiting, self.between = _never, _never  # both refer to this lane
        self._lease.is_worn = self._lease.is_worn or not is_well
        self._lease.leave(self)

    def fail(self, error: WasmrtError) -> None:
        """End the worker, which has violated the protocol."""
        self._lease.fail(error)


class Lease:
    """Many calls that share one worker. `on_end` is called when no call is left, or the worker has failed."""

    def __init__(self, worker: Worker, most_lanes: int, on_end: Callable[[Lease], None], *, is_new: bool) -> None:
        self.worker = worker
        self.is_new = is_new
        """True if the worker has run no call yet."""
        self._channel = worker.channel
        self._most_lanes = most_lanes
        self._on_end = on_end
        self._lanes: dict[int, Lane] = {}
        self._late: dict[int, float] = {}
        self._unsent: deque[bytes | memoryview] = deque()
        self._pump: Task | None = None
        self.failure: WasmrtError | None = None
        self.is_large = False
        """True if the worker has run so many guests at once that it is not worth its memory when it is idle."""
        self.is_worn = False
        """True if the worker takes no further calls, because one of its guests failed."""

    @property
    def has_room(self) -> bool:
        """True if the worker can run another call."""
        return len(self._lanes) + len(self._late) < self._most_lanes and not self.is_worn and self.failure is None

    def open_lane(self, task: Task) -> Lane:
        """Return the lane of a new call."""
        lane = Lane(self, task, is_first=self.is_new)
        self.is_new = False
        self._lanes[lane.number] = lane
        self.is_large = self.is_large or len(self._lanes) > _KEPT_LANES
        if self._pump is None:
            self._pump = task.spawn(self._run)
        return lane

    def leave(self, lane: Lane) -> None:
        """Close a lane."""
        del self._lanes[lane.number]
        if not lane.is_answered and self.failure is None:
            self._late[lane.number] = time.monotonic() + LATE_SECONDS
        if not self._lanes or self._late:
            self._wake_pump()

    def check(self) -> None:
        """Raise the error that ended the worker.

        Raises:
            ClosedError, ProtocolError: the worker has ended.
        """
        if self.failure is not None:
            raise type(self.failure)(self.failure.message)

    def write(self, data: bytes) -> None:
        """Send bytes, in the background if the worker does not read them at once.

        Raises:
            ClosedError: the worker has ended.
        """
        self.check()
        self._unsent.append(data)
        if len(self._unsent) == 1:
            self._flush()
            if self._unsent:
                self._wake_pump()

    def fail(self, error: WasmrtError) -> None:
        """End all calls of this worker."""
        self.failure = self.failure or error
        for lane in self._lanes.values():
            lane.wake()
        self._wake_pump()

    def _wake_pump(self) -> None:
        if self._pump is not None:
            self._pump.wake()

    def _flush(self) -> None:
        while self._unsent:
            data = self._unsent[0]
            try:
                sent = self._channel.socket.send(data, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                raise ClosedError("the other end of the socket was closed") from error
            if sent < len(data):
                self._unsent[0] = memoryview(data)[sent:]
            else:
                self._unsent.popleft()

    def _run(self) -> None:
        channel = self._channel
        channel.waiting, channel.between = self._wait, self.check
        try:
            while True:
                frame = channel.receive_any(self._most)
                self._pass_on(channel.number, frame)
        except _NoCallsError:
            pass
        except (ClosedError, ProtocolError) as error:
            self.fail(error)
        finally:
            self._pump = None
            channel.waiting, channel.between = _never, _never
        self._on_end(self)

    def _wait(self, events: int) -> None:
        if not (self._lanes or self._late or self._unsent or self._channel.has_data):
            raise _NoCallsError
        now = time.monotonic()
        if any(at <= now for at in self._late.values()):
            raise ClosedError("a guest did not end in time")
        assert self._pump is not None
        wanted = events | (select.POLLOUT if self._unsent else 0)
        seconds = min(self._late.values()) - now if self._late else _PUMP_SECONDS
        self._pump.await_ready(self._channel.socket.fileno(), wanted, seconds)
        self.check()
        self._flush()

    def _most(self, number: int, kind: int) -> int:
        """Return the maximum size of a frame, from its call's number and its kind."""
        if (kind == Kind.BYE) == (number == NO_EXCHANGE):
            lane = self._lanes.get(number)
            if lane is not None:
                return lane.most
            if number in self._late or kind == Kind.BYE:
                return _LATE_BYTES
        raise ProtocolError("expected a frame of a running call, got one of another call")

    def _pass_on(self, number: int, frame: Frame) -> None:
        lane = self._lanes.get(number)
        if lane is not None:
            lane.deliver(frame)
            if len(lane.frames) >= _MAX_FRAMES:
                self._let_read(lane)
        elif frame.kind == Kind.BYE:
            for other in self._lanes.values():
                other.deliver(frame)
            raise ClosedError("the worker has exited")
        elif frame.kind in _FINAL:
            self._late.pop(number, None)
        elif frame.kind == Kind.IMPORT:
            self.write(b"".join(pack_frame(Kind.ANSWER, number, CALL_ENDED)))

    def _let_read(self, lane: Lane) -> None:
        assert self._pump is not None
        self._pump.wake()
        self._pump.park(None)
        if len(lane.frames) >= _MAX_FRAMES:
            raise ProtocolError("the worker sent frames while its request was handled")


class _NoCallsError(Exception):
    """The worker has no calls."""
