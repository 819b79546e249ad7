"""Implement `wasi:cli@0.2`: a program's arguments and standard streams, an empty environment, and no terminal.

If the guest is not a program, its standard input is empty and its output becomes log entries.
"""

from __future__ import annotations

import codecs
from typing import Any, NamedTuple

from wasmrt.core.errors import GuestExitError
from wasmrt.core.limits import MAX_CAPTURED_OUTPUT_BYTES, MAX_LOG_ENTRY_BYTES
from wasmrt.core.model import LogLevel
from wasmrt.sandbox.component import Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.outcome import take_written_failure
from wasmrt.sandbox.guest.wasi._io import BytesStream, Handles, InputStream, OutputStream, drop_handle


class Printed(OutputStream):
    """The standard output or standard error of a program. Its bytes become part of the call's result."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._data = bytearray()

    def write(self, ctx: GuestCall, data: bytes) -> Ok:
        """Store the bytes.

        Raises:
            OutputLimitError: the program's standard output and error together are over the output limit.
        """
        self._program.printed_bytes += len(data)
        ctx.charge_text(self._program.printed_bytes)
        self._data += data
        return Ok()

    @property
    def text(self) -> str:
        """The output, decoded as UTF-8. U+FFFD replaces invalid bytes."""
        return self._data.decode("utf-8", "replace")


class ProgramFolder(NamedTuple):
    """A folder of the workspace, which the program sees at the path `name`."""

    name: str
    path: str
    """The folder's path relative to the workspace; empty for the complete workspace."""
    read_only: bool = False
    """True if the program cannot write through this folder, even if the grant would allow it."""


class Program:
    """The arguments, folders and standard streams of a program that a call runs.

    If `start` is not called, the guest is not a program. It then has no arguments and no input, and its output is
    logged.
    """

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.stdin = InputStream()
        self.folders: tuple[ProgramFolder, ...] = (ProgramFolder("/", ""),)
        """The folders that are open when the program starts."""
        self.stdout: Printed | None = None
        self.stderr: Printed | None = None
        self.printed_bytes = 0

    def start(self, arguments: list[str], stdin: bytes, folders: tuple[ProgramFolder, ...]) -> tuple[Printed, Printed]:
        """Set the program's arguments, input and folders. Return the streams of its standard output and error."""
        self.arguments = arguments
        self.stdin = BytesStream(stdin)
        self.folders = folders
        self.stdout, self.stderr = Printed(self), Printed(self)
        return self.stdout, self.stderr


def log_printed(call: GuestCall, stream: Printed, level: LogLevel) -> None:
    """Log a program's output, one entry for each line. Lines beyond the limit are dropped and counted."""
    left = MAX_CAPTURED_OUTPUT_BYTES
    for line in stream.text.splitlines():
        left -= len(line) + 1
        if left < 0:
            call.log_entries_dropped += 1
        else:
            call.log(level, line)


class Captured(OutputStream):
    """A standard stream whose lines become log entries. Output beyond the limit is dropped and counted.

    An unfinished line is logged at once, and its log entry is replaced when the line grows. Therefore nothing has to be
    flushed when the call ends.
    """

    level = LogLevel.INFO

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self._at: int | None = None
        self._left = MAX_CAPTURED_OUTPUT_BYTES

    def write(self, ctx: GuestCall, data: bytes) -> Ok:
        if len(data) > self._left:
            ctx.log_entries_dropped += max(1, data.count(b"\n"))
            return Ok()
        self._left -= len(data)
        *whole, rest = self._decoder.decode(data).split("\n")
        for line in whole:
            self._show(ctx, line)
            self._line, self._at = "", None
        if rest:
            self._show(ctx, rest)
        return Ok()

    def _show(self, ctx: GuestCall, text: str) -> None:
        if self._at is not None and self._at == len(ctx.logs) - 1:
            ctx.logs.pop()
        else:
            self._line = ""  # another entry was logged after the unfinished line, or that line was dropped
        # One character over the limit is enough to make the log truncate the line.
        self._line = (self._line + text)[: MAX_LOG_ENTRY_BYTES + 1]
        before = len(ctx.logs)
        ctx.log(self.level, self._line)
        self._at = before if len(ctx.logs) > before else None


class Stdout(Captured):
    pass


class Stderr(Captured):
    level = LogLevel.WARN

    def write(self, ctx: GuestCall, data: bytes) -> Ok:
        if ctx.written_failure is not None or take_written_failure(ctx, data):
            return Ok()  # after a failure, the language's runtime only reports that it aborts
        return super().write(ctx, data)


def _get_environment(_ctx: GuestCall) -> list[tuple[str, str]]:
    return []


def _get_arguments(ctx: GuestCall) -> list[str]:
    return ctx.part(Program).arguments


def _get_nothing(_ctx: GuestCall) -> None:
    return None


def _exit(_ctx: GuestCall, status: Any) -> None:
    raise GuestExitError(exit_code=0 if isinstance(status, Ok) else 1)


def _exit_with_code(_ctx: GuestCall, code: int) -> None:
    raise GuestExitError(exit_code=code)


def _get_stdin(ctx: GuestCall) -> int:
    return ctx.part(Handles).add(ctx.part(Program).stdin)


def _get_stdout(ctx: GuestCall) -> int:
    return ctx.part(Handles).add(ctx.part(Program).stdout or ctx.part(Stdout))


def _get_stderr(ctx: GuestCall) -> int:
    return ctx.part(Handles).add(ctx.part(Program).stderr or ctx.part(Stderr))


INTERFACES = (
    HostInterface(
        "wasi:cli/environment@0.2.0",
        {"get-environment": _get_environment, "get-arguments": _get_arguments, "initial-cwd": _get_nothing},
    ),
    HostInterface("wasi:cli/exit@0.2.0", {"exit": _exit, "exit-with-code": _exit_with_code}),
    HostInterface("wasi:cli/stdin@0.2.0", {"get-stdin": _get_stdin}),
    HostInterface("wasi:cli/stdout@0.2.0", {"get-stdout": _get_stdout}),
    HostInterface("wasi:cli/stderr@0.2.0", {"get-stderr": _get_stderr}),
    HostInterface("wasi:cli/terminal-input@0.2.0", {}, {"terminal-input": drop_handle}),
    HostInterface("wasi:cli/terminal-output@0.2.0", {}, {"terminal-output": drop_handle}),
    HostInterface("wasi:cli/terminal-stdin@0.2.0", {"get-terminal-stdin": _get_nothing}),
    HostInterface("wasi:cli/terminal-stdout@0.2.0", {"get-terminal-stdout": _get_nothing}),
    HostInterface("wasi:cli/terminal-stderr@0.2.0", {"get-terminal-stderr": _get_nothing}),
)
