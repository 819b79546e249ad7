"""Run untrusted programs: report why one did not start, wait for its end, and end all its processes."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from wasmrt.core.errors import ConfineError, ToolError, ToolErrorKind
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import PROGRAM_TAIL_CHARS
from wasmrt.sandbox.component import last_lines, printable_line
from wasmrt.sandbox.isolation.confine import NOT_CONFINED, NOT_EXECUTED, Command

_CHUNK = 64 * 1024
_LOOK_SECONDS = 0.05
"""Seconds between checks whether the call was cancelled."""
_POLL_SECONDS = 0.02
"""Seconds between checks whether a process has ended, on systems without pidfds."""
_END_SECONDS = 5.0
"""Seconds to wait for the other processes of a killed group."""
_END_POLL_SECONDS = 0.002
_DRAIN_SECONDS = 1.0
"""Seconds to read the rest of a finished program's pipes."""

Sink = Callable[[bytes], None]
"""Receives a program's output as it arrives; an exception from it ends the program."""


@contextmanager
def starting(what: str) -> Iterator[None]:
    """Raise a ToolError if the block cannot start a program; `what` names the program in the message."""
    try:
        yield
    except ConfineError as error:
        raise ToolError(error.message, code=error.code, hint=error.hint, kind=ToolErrorKind.SANDBOX) from error
    except OSError as error:
        raise ToolError(
            f"{what} cannot be started ({error.strerror})", code="not-started", kind=ToolErrorKind.SANDBOX
        ) from error


def not_started(what: str, code: int, stderr: str) -> ToolError | None:
    """Return why a program did not start, from its launcher's exit code and `stderr`. Return None if it started."""
    told = printable_line(last_lines(stderr, PROGRAM_TAIL_CHARS)).strip()
    if code not in (NOT_CONFINED, NOT_EXECUTED) or not told.startswith("wasmrt: "):
        return None
    return ToolError(
        f"{what} was not started: {told.removeprefix('wasmrt: ')}",
        code="not-started", hint="wasmrt doctor lists what confinement needs", kind=ToolErrorKind.SANDBOX,
    )  # fmt: skip


def run_to_end(command: Command, stdin: bytes, cwd: str, lifetime: Lifetime, stdout: Sink, stderr: Sink) -> int:
    """Run a program until it exits; return its exit code, or the negative number of the signal that killed it.

    All of its child processes end with it.

    Raises:
        DeadlineExceededError, CancelledError, RuntimeClosedError: the call ended before the program did.
        OSError: the program could not be started.
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
        """Watch the pipes, and the process itself if the system has pidfds."""
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
            self._watch(pipe, selectors.EVENT_READ, _make_reader(sink))

    def has_ended(self, seconds: float) -> bool:
        """Transfer bytes for at most `seconds`, or until some were transferred; return whether the program ended."""
        step = seconds if self._handle >= 0 else min(seconds, _POLL_SECONDS)
        for key, _ in self._selector.select(max(0.0, step)):
            if key.data is None:
                return True
            self._move(key)
        return self._handle < 0 and is_over(self._process)

    def drain(self, until: float) -> None:
        """Read the rest of the pipes."""
        if self._handle >= 0:
            self._selector.unregister(self._handle)
        self._drop(self._process.stdin)
        while self._selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._move(key)

    def end(self) -> int:
        """End the program, and return its exit code. Idempotent."""
        return end_group(self._process)

    def close(self) -> None:
        """End the program, and close its pipes."""
        try:
            self.end()
        finally:
            if self._handle >= 0:
                os.close(self._handle)
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                with suppress(OSError):  # input that the program has not read
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


def _make_reader(sink: Sink) -> Callable[[int], bool]:
    def read(descriptor: int) -> bool:
        data = os.read(descriptor, _CHUNK)
        sink(data)
        return bool(data)

    return read


def _handle_of(process: subprocess.Popen[bytes]) -> int:
    """Return a descriptor that becomes readable when the process ends, or -1 if the system has no pidfds."""
    try:
        return os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return -1


def end_group(process: subprocess.Popen[bytes]) -> int:
    """Kill a program and its child processes; return its exit code. Idempotent."""
    if process.returncode is None:
        # SECURITY: kill the group before reaping its leader: afterwards, its number could belong to another process.
        signal_group(process, signal.SIGKILL)
        code = process.wait()
        _wait_for_group(process.pid)
        return code
    return process.returncode


def _wait_for_group(group: int) -> None:
    """Wait until every process of a killed group has ended. A killed process first finishes its last system call."""
    until = time.monotonic() + _END_SECONDS
    while _has_living(group) and time.monotonic() < until:
        time.sleep(_END_POLL_SECONDS)


def _has_living(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    for process in Path("/proc").glob("[0-9]*/stat"):  # a process that is not reaped stays in the group
        with suppress(OSError):
            state, _, its_group = process.read_bytes().rpartition(b")")[2].split(None, 3)[:3]
            if int(its_group) == group and state not in (b"Z", b"X"):
                return True
    return False


def signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a program and its child processes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended, without reaping it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
