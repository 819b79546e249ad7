"""Run untrusted programs: report why one did not start, wait for its end, and end all its processes."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

from wasmrt.core.errors import ConfineError, ToolError, ToolErrorKind
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import PROGRAM_TAIL_CHARS
from wasmrt.sandbox.component import last_lines, printable_line
from wasmrt.sandbox.isolation.confine import NOT_CONFINED, NOT_EXECUTED, Command

_CHUNK = 64 * 1024
_LOOK_SECONDS = 0.05
"""Interval of checks whether the call was cancelled."""
_POLL_SECONDS = 0.02
"""Interval of checks whether a process has ended, on systems without pidfd."""
_DRAIN_SECONDS = 1.0
"""Time to read the rest of the pipes of a program that has ended."""

Sink = Callable[[bytes], None]
"""Receives a program's output as it arrives; an exception ends the program."""


@contextmanager
def starting(what: str) -> Iterator[None]:
    """Raise a ToolError if a program cannot be started; `what` names the program."""
    try:
        yield
    except ConfineError as error:
        raise ToolError(error.message, code=error.code, hint=error.hint, kind=ToolErrorKind.SANDBOX) from error
    except OSError as error:
        raise ToolError(
            f"{what} cannot be started ({error.strerror})", code="not-started", kind=ToolErrorKind.SANDBOX
        ) from error


def not_started(what: str, code: int, stderr: str) -> ToolError | None:
    """Return why a program was not started, from its stub's status and `stderr` (without secrets); None if it was."""
    told = printable_line(last_lines(stderr, PROGRAM_TAIL_CHARS)).strip()
    if code not in (NOT_CONFINED, NOT_EXECUTED) or not told.startswith("wasmrt: "):
        return None
    return ToolError(
        f"{what} was not started: {told.removeprefix('wasmrt: ')}",
        code="not-started", hint="wasmrt doctor lists what confinement needs", kind=ToolErrorKind.SANDBOX,
    )  # fmt: skip


def run_to_end(command: Command, stdin: bytes, cwd: str, lifetime: Lifetime, stdout: Sink, stderr: Sink) -> int:
    """Run a program to its end and return its exit code, negative for the number of the signal that ended it.

    Every process that it started ends with it, however it ends.

    Raises:
        DeadlineExceededError, CancelledError, RuntimeClosedError: its time was over before it ended.
        OSError: it could not be started.
    """
    with selectors.DefaultSelector() as selector:
        run = _Run(command.start(cwd), selector)
        try:
            run.connect(stdin, stdout, stderr)
            while not run.has_ended(min(lifetime.remaining(), _LOOK_SECONDS)):
                if (ended := lifetime.interruption()) is not None:
                    raise ended
            code = run.end()
            run.drain(time.monotonic() + _DRAIN_SECONDS)
            return code
        finally:
            run.close()


class _Run:
    """A started program with its three pipes."""

    def __init__(self, process: subprocess.Popen[bytes], selector: selectors.BaseSelector) -> None:
        self._process = process
        self._selector = selector
        self._left = memoryview(b"")
        self._handle = -1

    def connect(self, stdin: bytes, stdout: Sink, stderr: Sink) -> None:
        """Watch the pipes, and the process itself where the system has a handle of it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._left = memoryview(stdin)
        self._handle = _handle_of(process)
        if self._handle >= 0:
            self._selector.register(self._handle, selectors.EVENT_READ, None)
        self._watch(process.stdin, selectors.EVENT_WRITE, self._feed)
        for pipe, sink in ((process.stdout, stdout), (process.stderr, stderr)):
            self._watch(pipe, selectors.EVENT_READ, _reader(sink))

    def has_ended(self, seconds: float) -> bool:
        """Move bytes until the program ends, something was moved, or `seconds` are over; tell whether it has ended."""
        step = seconds if self._handle >= 0 else min(seconds, _POLL_SECONDS)
        for key, _ in self._selector.select(max(0.0, step)):
            if key.data is None:
                return True
            self._move(key)
        return self._handle < 0 and is_over(self._process)

    def drain(self, until: float) -> None:
        """Read what is left in the pipes."""
        if self._handle >= 0:
            self._selector.unregister(self._handle)
        self._drop(self._process.stdin)
        while self._selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._move(key)

    def end(self) -> int:
        """End it, and return its exit code. Safe to call twice."""
        return end_group(self._process)

    def close(self) -> None:
        """End it, and let go of the pipes."""
        try:
            self.end()
        finally:
            if self._handle >= 0:
                os.close(self._handle)
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                with suppress(OSError):  # input that it never read
                    if pipe is not None:
                        pipe.close()

    def _watch(self, pipe: IO[bytes], event: int, move: Callable[[int], bool]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, event, move)

    def _move(self, key: selectors.SelectorKey) -> None:
        if not key.data(key.fd):
            self._drop(key.fileobj)  # type: ignore[arg-type]

    def _drop(self, pipe: IO[bytes] | None) -> None:
        if pipe is not None and not pipe.closed:
            self._selector.unregister(pipe)
            with suppress(OSError):
                pipe.close()

    def _feed(self, descriptor: int) -> bool:
        try:
            self._left = self._left[os.write(descriptor, self._left[:_CHUNK]) :]
        except BrokenPipeError:
            return False
        return bool(self._left)


def _reader(sink: Sink) -> Callable[[int], bool]:
    def read(descriptor: int) -> bool:
        data = os.read(descriptor, _CHUNK)
        sink(data)
        return bool(data)

    return read


def _handle_of(process: subprocess.Popen[bytes]) -> int:
    """Return a descriptor that becomes readable when the process ends; -1 where the system has none."""
    try:
        return os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return -1


def end_group(process: subprocess.Popen[bytes]) -> int:
    """End a program and all that it started, and return its exit code. Safe to call twice."""
    if process.returncode is None:
        # SECURITY: the group is killed before its first process is waited for: until then nobody else has its number.
        signal_group(process, signal.SIGKILL)
    return process.wait()


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a program and all that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether a process has ended, without taking its number from it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
