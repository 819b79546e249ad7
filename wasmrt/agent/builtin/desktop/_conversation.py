"""Lines to and from a confined program, within the time of one call; all of its processes end with it."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from wasmrt.core.errors import ToolError, ToolErrorKind
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MIB, PROGRAM_TAIL_CHARS
from wasmrt.sandbox.isolation.confine import Command
from wasmrt.sandbox.isolation.programs import end_group

_CHUNK = 64 * 1024
_LOOK_SECONDS = 0.05
"""Between two looks at whether the call was cancelled."""
_MAX_LINE = 1 * MIB


class Conversation:
    """A program that speaks in lines of JSON."""

    def __init__(self, process: subprocess.Popen[bytes], lifetime: Lifetime) -> None:
        self._process = process
        self._lifetime = lifetime
        self._ahead = bytearray()
        self._stderr = bytearray()
        self._to, self._back, self._errors = (pipe.fileno() for pipe in _pipes(process))
        for descriptor in (self._to, self._back, self._errors):
            os.set_blocking(descriptor, False)

    @property
    def stderr(self) -> str:
        """The end of what it printed besides."""
        return self._stderr.decode("utf-8", "replace")

    def say(self, line: dict[str, Any]) -> None:
        """Write a line.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call ended first.
        """
        left = memoryview(json.dumps(line).encode() + b"\n")
        while left:
            self._wait(self._to)
            try:
                left = left[os.write(self._to, left[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return  # it has ended, and the next look at its output says so

    def hear(self) -> dict[str, Any] | None:
        """Return the next line; None at the end.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call ended first.
            ToolError: it said what is no object of JSON, or too much.
        """
        while b"\n" not in self._ahead:
            if len(self._ahead) > _MAX_LINE:
                raise _odd()
            self._wait(None)
            data = _read(self._back)
            if data == b"":
                return None
            self._ahead += data or b""
        line, _, rest = bytes(self._ahead).partition(b"\n")
        self._ahead = bytearray(rest)
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            raise _odd() from None
        if not isinstance(found, dict):
            raise _odd()
        return found

    def _wait(self, writing: int | None) -> None:
        """Wait until something can be read, or written; drain what it prints besides."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._errors, selectors.EVENT_READ)
            if writing is None:
                selector.register(self._back, selectors.EVENT_READ)
            else:
                selector.register(writing, selectors.EVENT_WRITE)
            while True:
                ready = {key.fd for key, _ in selector.select(min(self._lifetime.remaining(), _LOOK_SECONDS))}
                if (ended := self._lifetime.interruption()) is not None:
                    raise ended
                if self._errors in ready:
                    data = _read(self._errors)
                    if data == b"":
                        selector.unregister(self._errors)
                    self._stderr = (self._stderr + (data or b""))[-PROGRAM_TAIL_CHARS:]
                if ready - {self._errors}:
                    return


@contextmanager
def talking(command: Command, cwd: str, lifetime: Lifetime) -> Iterator[Conversation]:
    """Start a program to talk with; at the end nothing of it is left running.

    Raises:
        OSError: it cannot be started.
    """
    process = command.start(cwd)
    try:
        yield Conversation(process, lifetime)
    finally:
        end_group(process)
        for pipe in _pipes(process):
            with suppress(OSError):
                pipe.close()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[Any, Any, Any]:
    return process.stdin, process.stdout, process.stderr


def _read(descriptor: int) -> bytes | None:
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


def _odd() -> ToolError:
    return ToolError("the browser said what cannot be read", code="browser", kind=ToolErrorKind.SANDBOX)
