"""Exchange JSON lines with a confined program, which is ended when its call ends."""

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
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MIB, PROGRAM_TAIL_CHARS
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.sandbox.isolation.confine import Command
from wasmrt.sandbox.isolation.programs import end_group

_CHUNK = 64 * 1024
_POLL_SECONDS = 0.05
"""Seconds between two checks whether the call was cancelled."""
_MAX_LINE = 1 * MIB


class Conversation:
    """A running program that reads and writes lines of JSON."""

    def __init__(self, process: subprocess.Popen[bytes], lifetime: Lifetime) -> None:
        self._process = process
        self._lifetime = lifetime
        self._ahead = bytearray()
        self._stderr = bytearray()
        self._stdin_fd, self._stdout_fd, self._stderr_fd = (pipe.fileno() for pipe in _get_pipes(process))
        for descriptor in (self._stdin_fd, self._stdout_fd, self._stderr_fd):
            os.set_blocking(descriptor, False)

    @property
    def stderr(self) -> str:
        """The last part of the program's standard error."""
        return self._stderr.decode("utf-8", "replace")

    def send(self, line: dict[str, Any]) -> None:
        """Write a line.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call ended first.
        """
        left = memoryview(json.dumps(line).encode() + b"\n")
        while left:
            self._wait(self._stdin_fd)
            try:
                left = left[os.write(self._stdin_fd, left[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return  # the program has exited; `receive` returns None

    def receive(self) -> dict[str, Any] | None:
        """Return the next line, or None at the end.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call ended first.
            ToolError: the line is not a JSON object, or is too long.
        """
        while b"\n" not in self._ahead:
            if len(self._ahead) > _MAX_LINE:
                raise _make_invalid_line_error()
            self._wait(None)
            data = _read(self._stdout_fd)
            if data == b"":
                return None
            self._ahead += data or b""
        line, _, rest = bytes(self._ahead).partition(b"\n")
        self._ahead = bytearray(rest)
        try:
            found = read_json(line, max_bytes=2 * _MAX_LINE, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
        except JsonError:
            raise _make_invalid_line_error() from None
        if not isinstance(found, dict):
            raise _make_invalid_line_error()
        return found

    def _wait(self, writing: int | None) -> None:
        """Wait until the descriptor `writing` is writable, or until output is available if `writing` is None."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._stderr_fd, selectors.EVENT_READ)
            if writing is None:
                selector.register(self._stdout_fd, selectors.EVENT_READ)
            else:
                selector.register(writing, selectors.EVENT_WRITE)
            while True:
                ready = {key.fd for key, _ in selector.select(min(self._lifetime.remaining(), _POLL_SECONDS))}
                if (ended := self._lifetime.interruption()) is not None:
                    raise ended
                if self._stderr_fd in ready:
                    data = _read(self._stderr_fd)
                    if data == b"":
                        selector.unregister(self._stderr_fd)
                    self._stderr = (self._stderr + (data or b""))[-PROGRAM_TAIL_CHARS:]
                if ready - {self._stderr_fd}:
                    return


@contextmanager
def start_conversation(command: Command, cwd: str, lifetime: Lifetime) -> Iterator[Conversation]:
    """Start a program. All processes of the program are ended when the context ends.

    Raises:
        OSError: the program cannot be started.
    """
    process = command.start(cwd)
    try:
        yield Conversation(process, lifetime)
    finally:
        end_group(process)
        for pipe in _get_pipes(process):
            with suppress(OSError):
                pipe.close()


def _get_pipes(process: subprocess.Popen[bytes]) -> tuple[Any, Any, Any]:
    return process.stdin, process.stdout, process.stderr


def _read(descriptor: int) -> bytes | None:
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


def _make_invalid_line_error() -> ToolError:
    problem = f"the browser sent a line that is not a JSON object of up to {_MAX_LINE:,} bytes"
    return ToolError(problem, code="browser", kind=ToolErrorKind.SANDBOX)
