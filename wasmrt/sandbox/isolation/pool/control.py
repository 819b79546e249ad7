"""Questions to a process that forks others: answered in order, and waited for no longer than a call lasts."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from wasmrt.core.errors import InternalError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.isolation.wire import (
    MAX_CONTROL_BYTES,
    MAX_DESCRIPTION_HEAD,
    Channel,
    ClosedError,
    Frame,
    Kind,
    ProtocolError,
    send_with_descriptors,
)

TICK_SECONDS = 0.02
"""The interval at which a host that waits for another process looks whether its call is over."""


class GoneError(InternalError):
    """A process that forks others is gone, does not answer, or answers something else than it was asked."""


def unhurried() -> Lifetime:
    """Return the lifetime of what no call waits for: `Control` itself bounds how long a process may take."""
    return Lifetime(float("inf"))


@contextmanager
def held(lock: threading.RLock, lifetime: Lifetime) -> Iterator[None]:
    """Hold a lock, waiting for it as long as `lifetime` lasts.

    It is of the kind that knows its owner: one that a signal's handler came between is not left behind.

    Raises:
        DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended before the lock came free.
    """
    try:
        while not lock.acquire(timeout=min(TICK_SECONDS, lifetime.remaining())):
            lifetime.check()
        yield
    finally:
        with suppress(RuntimeError):  # it is not this thread's
            lock.release()


class Control:
    """The host's end of the socket of a zygote or a template. Used by one thread at a time.

    Who gives up on an answer leaves it to whoever asks next, to be passed over; a process that was forked for nobody
    is ended then. `first` is the kind of the frame that the process begins with.
    """

    def __init__(self, end: socket.socket, first: Kind, patience: float) -> None:
        self._channel = Channel(end).patient(TICK_SECONDS)
        self._owed = deque([first])
        self._since = time.monotonic()
        self._patience = patience
        self._ended: list[int] = []
        self._greeting: Frame | None = None
        self._torn = False

    @property
    def is_open(self) -> bool:
        """False once it was closed."""
        return self._channel.socket.fileno() >= 0

    @property
    def is_greeted(self) -> bool:
        """True once the process has said its first word."""
        return self._greeting is not None

    @contextmanager
    def _talk(self) -> Iterator[None]:
        """Talk; what interrupts it other than a call that is over, as a signal's handler does, may tear a frame."""
        if self._torn:
            raise GoneError("talking to a process that workers come from was interrupted")
        try:
            yield
        except ToolError:
            raise
        except BaseException:
            self._torn = True
            raise

    def greeting(self, lifetime: Lifetime) -> Frame:
        """Wait for the frame that the process begins with, and for all answers that nobody took.

        Raises:
            GoneError: it did not come.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended; it can be waited for again.
        """
        with self._talk():
            while self._owed:
                frame = self._answer(lifetime)
                if self._greeting is None:
                    self._greeting = frame
                elif frame.kind == Kind.SPAWNED:
                    self._ended.append(_number(frame, "pid"))
        assert self._greeting is not None
        return self._greeting

    def ask(
        self, kind: Kind, head: dict[str, Any], descriptors: Sequence[int], expected: Kind, lifetime: Lifetime
    ) -> Frame:
        """Ask, and wait for the answer; processes that were left are waited for before.

        Raises:
            GoneError: there is none.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended; what was asked is done.
        """
        self.greeting(lifetime)
        with self._talk():
            while self._ended:
                self._send(Kind.REAP, {"pid": self._ended.pop()}, (), Kind.ENDED)
                self._answer(lifetime)
            self._send(kind, head, descriptors, expected)
            return self._answer(lifetime)

    def number(
        self, kind: Kind, head: dict[str, Any], descriptors: Sequence[int], expected: Kind, field: str,
        lifetime: Lifetime,
    ) -> int:  # fmt: skip
        """Ask for a number, as `ask`."""
        return _number(self.ask(kind, head, descriptors, expected, lifetime), field)

    def status(self, pid: int, lifetime: Lifetime) -> int:
        """Wait for a process to end, and return its status as `waitpid` gives it; raises as `ask`."""
        return self.number(Kind.REAP, {"pid": pid}, (), Kind.ENDED, "status", lifetime)

    def leave(self, pid: int) -> None:
        """Leave a process that was ended, or is to be, to whoever asks next. Safe from any thread."""
        self._ended.append(pid)

    def close(self) -> None:
        """Close this end; the process ends by it."""
        self._channel.close()

    def _send(self, kind: Kind, head: dict[str, Any], descriptors: Sequence[int], expected: Kind) -> None:
        try:
            send_with_descriptors(self._channel.socket, kind, head, descriptors)
        except ClosedError as error:
            raise GoneError("a process that workers come from is gone") from error
        self._owed.append(expected)
        self._since = time.monotonic()

    def _answer(self, lifetime: Lifetime) -> Frame:
        def look() -> None:
            lifetime.check()
            if time.monotonic() - self._since > self._patience:
                raise GoneError(
                    "a process that workers come from does not answer",
                    hint='see wasmrt doctor; isolation = "in-process" runs guests without workers',
                )

        self._channel.waiting = self._channel.between = look
        most = MAX_DESCRIPTION_HEAD if self._owed[0] == Kind.DESCRIBED else MAX_CONTROL_BYTES
        try:
            frame = self._channel.receive(most)
        except (ClosedError, ProtocolError) as error:
            raise GoneError("a process that workers come from is gone") from error
        self._since = time.monotonic()
        expected = self._owed.popleft()
        if frame.kind not in (expected, Kind.REFUSED if expected == Kind.READY else expected):
            raise GoneError("a process that workers come from answered something else than it was asked")
        return frame


def _number(frame: Frame, field: str) -> int:
    with suppress(ProtocolError):
        return frame.fields().whole(field, 2**31)
    raise GoneError("a process that workers come from answered without a number")
