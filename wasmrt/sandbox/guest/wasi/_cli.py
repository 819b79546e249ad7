"""`wasi:cli@0.2`: an empty environment, no terminal, and the arguments and standard streams of a call's program.

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
from wasmrt.sandbox.guest.wasi._io import BytesStream, Handles, InputStream, OutputStream, drop_handle


class Printed(OutputStream):
    """A standard output stream of a program. Its bytes are part of the result and count towards the output limit."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._data = bytearray()

    def write(self, ctx: GuestCall, data: bytes) -> Ok:
        """Store the bytes.

        Raises:
            OutputLimitError: the program's output is over the limit.
        """
        self._program.printed_bytes += len(data)
        ctx.charge_text(self._program.printed_bytes)
        self._data += data
        return Ok()

    @property
    def text(self) -> str:
        """The output, decoded as UTF-8; each invalid byte becomes U+FFFD."""
        return self._data.decode("utf-8", "replace")


class ProgramFolder(NamedTuple):
    """A folder of the workspace, at the path where the program sees it."""

    name: str
    path: str
    """Relative to the workspace; empty for the whole workspace."""
    read_only: bool = False
    """True if nothing can be written through this folder, whatever the grant allows."""


class Program:
    """The arguments, folders and standard streams of a call.

    If `start` is not called, the guest is not a program: it has no arguments and no input, and its output is logged.
    """

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.stdin = InputStream()
        self.folders: tuple[ProgramFolder, ...] = (ProgramFolder("/", ""),)
        """The preopened folders."""
        self.stdout: Printed | None = None
        self.stderr: Printed | None = None
        self.printed_bytes = 0

    def start(self, arguments: list[str], stdin: bytes, folders: tuple[ProgramFolder, ...]) -> tuple[Printed, Printed]:
        """Set the program's arguments, input and folders; return the streams for its output and its errors."""
        self.arguments = arguments
        self.stdin = BytesStream(stdin)
        self.folders = folders
        self.stdout, self.stderr = Printed(self), Printed(self)
        return self.stdout, self.stderr


def log_printed(call: GuestCall, stream: Printed, level: LogLevel) -> None:
    """Log a program's output, one entry for each line. Lines over the limit are dropped and counted."""
    left = MAX_CAPTURED_OUTPUT_BYTES
    for line in stream.text.splitlines():
        left -= len(line) + 1
        if left < 0:
            call.log_entries_dropped += 1
        else:
            call.log(level, line)


class Captured(OutputStream):
    """A standard stream whose lines become log entries. Output over the limit is dropped and counted.

    An unfinished line is the last entry of the log and is replaced when the line grows, so nothing has to be flushed
    when the call ends.
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
            self._line = ""  # a different entry was added since, or this one was dropped
        # One character over the limit is enough to make the log truncate the line.
        self._line = (self._line + text)[: MAX_LOG_ENTRY_BYTES + 1]
        before = len(ctx.logs)
        ctx.log(self.level, self._line)
        self._at = before if len(ctx.logs) > before else None


class Stdout(Captured):
    pass


class Stderr(Captured):
    level = LogLevel.WARN


def _environment(_ctx: GuestCall) -> list[tuple[str, str]]:
    return []


def _arguments(ctx: GuestCall) -> list[str]:
    return ctx.part(Program).arguments


def _nothing(_ctx: GuestCall) -> None:
    return None


def _exit(_ctx: GuestCall, status: Any) -> None:
    raise GuestExitError(exit_code=0 if isinstance(status, Ok) else 1)


def _exit_with_code(_ctx: GuestCall, code: int) -> None:
    raise GuestExitError(exit_code=code)


def _stdin(ctx: GuestCall) -> int:
    return ctx.part(Handles).add(ctx.part(Program).stdin)


def _stdout(ctx: GuestCall) -> int:
    return ctx.part(Handles).add(ctx.part(Program).stdout or ctx.part(Stdout))


def _stderr(ctx: GuestCall) -> int:
    return ctx.part(Handles).add(ctx.part(Program).stderr or ctx.part(Stderr))


INTERFACES = (
    HostInterface(
        "wasi:cli/environment@0.2.0",
        {"get-environment": _environment, "get-arguments": _arguments, "initial-cwd": _nothing},
    ),
    HostInterface("wasi:cli/exit@0.2.0", {"exit": _exit, "exit-with-code": _exit_with_code}),
    HostInterface("wasi:cli/stdin@0.2.0", {"get-stdin": _stdin}),
    HostInterface("wasi:cli/stdout@0.2.0", {"get-stdout": _stdout}),
    HostInterface("wasi:cli/stderr@0.2.0", {"get-stderr": _stderr}),
    HostInterface("wasi:cli/terminal-input@0.2.0", {}, {"terminal-input": drop_handle}),
    HostInterface("wasi:cli/terminal-output@0.2.0", {}, {"terminal-output": drop_handle}),
    HostInterface("wasi:cli/terminal-stdin@0.2.0", {"get-terminal-stdin": _nothing}),
    HostInterface("wasi:cli/terminal-stdout@0.2.0", {"get-terminal-stdout": _nothing}),
    HostInterface("wasi:cli/terminal-stderr@0.2.0", {"get-terminal-stderr": _nothing}),
)
