"""One run of a confined program: its input fed, its output read within bounds, all of its processes ended with it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NamedTuple

from wasmrt.errors import DeadlineExceededError, OutputLimitError, ToolError, ToolErrorKind
from wasmrt.isolation.confine import Command
from wasmrt.lifetime import Lifetime

_CHUNK = 64 * 1024
_LOOK_SECONDS = 0.05
"""Between two looks at whether the call was cancelled."""
_POLL_SECONDS = 0.02
"""Between two looks at a process, on a system that has no handle of it to wait for."""
_DRAIN_SECONDS = 1.0
"""For what lies in the pipes of a program that has ended; nobody is left to write more."""


class Bounds(NamedTuple):
    """The bounds of one run."""

    seconds: float
    stdout_bytes: int
    stderr_bytes: int


class Ended(NamedTuple):
    """A run that ended by itself."""

    code: int
    """The exit code; negative for the number of the signal that ended it."""
    stdout: bytes
    stderr: bytes


def run_program(command: Command, stdin: bytes, cwd: str, bounds: Bounds, within: Lifetime | None = None) -> Ended:
    """Run a program to its end; every process that it started ends with it, however it ends.

    `within` is the call that it runs for, which can be cancelled.

    Raises:
        DeadlineExceededError, CancelledError: it took longer than it may, or its call was cancelled.
        OutputLimitError: it printed more than it may.
        ToolError: it could not be started.
    """
    lifetime = Lifetime(bounds.seconds, within=within)
    with selectors.DefaultSelector() as selector:
        run = _Run(_started(command, cwd), selector)
        try:
            run.connect(stdin, bounds)
            while not run.has_ended(min(lifetime.remaining(), _LOOK_SECONDS)):
                if (ended := lifetime.interruption()) is not None:
                    raise _late(bounds) if isinstance(ended, DeadlineExceededError) else ended
            code = run.end()
            run.drain(time.monotonic() + _DRAIN_SECONDS)
            return Ended(code, bytes(run.stdout), bytes(run.stderr))
        finally:
            run.close()


def _started(command: Command, cwd: str) -> subprocess.Popen[bytes]:
    try:
        return command.start(cwd)
    except OSError as error:
        raise ToolError(
            f"the plugin cannot be started ({error.strerror})", code="not-started", kind=ToolErrorKind.SANDBOX
        ) from error


def _late(bounds: Bounds) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"the plugin took longer than {bounds.seconds:g} s, and was ended",
        limit=bounds.seconds, used=None, setting="max_runtime_ms",
        hint="raise max_runtime_ms in its manifest if it really needs more",
    )  # fmt: skip


class _Run:
    """A started program with its three pipes."""

    def __init__(self, process: subprocess.Popen[bytes], selector: selectors.BaseSelector) -> None:
        self._process = process
        self._selector = selector
        self._left = memoryview(b"")
        self.stdout, self.stderr = bytearray(), bytearray()
        self._handle = -1

    def connect(self, stdin: bytes, bounds: Bounds) -> None:
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
        pipes = (
            (process.stdout, self.stdout, bounds.stdout_bytes, "max_stdout_bytes"),
            (process.stderr, self.stderr, bounds.stderr_bytes, "max_stderr_bytes"),
        )
        for pipe, kept, cap, setting in pipes:
            self._watch(pipe, selectors.EVENT_READ, _reader(kept, cap, setting))

    def has_ended(self, seconds: float) -> bool:
        """Move bytes until the program ends, something was moved, or `seconds` are over; tell whether it has ended."""
        step = seconds if self._handle >= 0 else min(seconds, _POLL_SECONDS)
        for key, _ in self._selector.select(max(0.0, step)):
            if key.data is None:
                return True
            self._move(key)
        return self._handle < 0 and _is_over(self._process)

    def drain(self, until: float) -> None:
        """Read what is left in the pipes."""
        if self._handle >= 0:
            self._selector.unregister(self._handle)
        self._drop(self._process.stdin)
        while self._selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._move(key)

    def end(self) -> int:
        """End every process of the program's group, and return the exit code of the first. Safe to call twice."""
        if self._process.returncode is None:
            # SECURITY: the group is killed before its first process is waited for: until then nobody else has its
            # number.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

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


def _reader(kept: bytearray, cap: int, setting: str) -> Callable[[int], bool]:
    def read(descriptor: int) -> bool:
        data = os.read(descriptor, _CHUNK)
        if len(kept) + len(data) > cap:
            raise OutputLimitError(
                f"the plugin printed more than its {setting} of {cap:,}",
                limit=cap, used=len(kept) + len(data), setting=setting,
                hint=f"raise {setting} in its manifest if it really needs more",
            )  # fmt: skip
        kept.extend(data)
        return bool(data)

    return read


def _handle_of(process: subprocess.Popen[bytes]) -> int:
    """Return a descriptor that becomes readable when the process ends; -1 where the system has none."""
    try:
        return os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return -1


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether a process has ended, without taking its number from it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
