"""The program of one call: its arguments, standard input and working folder, and what it printed."""

from __future__ import annotations

from typing import NamedTuple

from wasmrt.core.limits import MAX_CAPTURED_OUTPUT_BYTES
from wasmrt.core.model import LogLevel
from wasmrt.sandbox.component import Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.wasi._streams import BytesStream, InputStream, OutputStream


class Printed(OutputStream):
    """A standard stream of a program: its bytes are part of the result, and count as that."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._data = bytearray()

    def write(self, ctx: GuestCall, data: bytes) -> Ok:
        """Keep the bytes.

        Raises:
            OutputLimitError: the program printed more than a tool may answer.
        """
        self._program.printed_bytes += len(data)
        ctx.charge_text(self._program.printed_bytes)
        self._data += data
        return Ok()

    @property
    def text(self) -> str:
        """Everything it got, as UTF-8; a byte that is none becomes U+FFFD."""
        return self._data.decode("utf-8", "replace")


class ProgramFolder(NamedTuple):
    """A folder of the workspace, under a name of the program's own."""

    name: str
    path: str
    """Relative to the workspace; empty for all of it."""
    read_only: bool = False
    """True where nothing is written by way of it, whatever the grant allows."""


class Program:
    """Standard input and output of a call. Without `start` the guest is a tool of another world.

    Such a tool has no arguments, its input is at its end, and what it prints goes to the log.
    """

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.stdin = InputStream()
        self.folders: tuple[ProgramFolder, ...] = (ProgramFolder("/", ""),)
        """The folders that it finds when it starts."""
        self.stdout: Printed | None = None
        self.stderr: Printed | None = None
        self.printed_bytes = 0

    def start(self, arguments: list[str], stdin: bytes, folders: tuple[ProgramFolder, ...]) -> tuple[Printed, Printed]:
        """Give it arguments and input, keep what it prints, and return its output and its errors."""
        self.arguments = arguments
        self.stdin = BytesStream(stdin)
        self.folders = folders
        self.stdout, self.stderr = Printed(self), Printed(self)
        return self.stdout, self.stderr


def log_printed(call: GuestCall, stream: Printed, level: LogLevel) -> None:
    """Put what a program printed into the log of its call, a line an entry; whole lines over the cap are counted."""
    left = MAX_CAPTURED_OUTPUT_BYTES
    for line in stream.text.splitlines():
        left -= len(line) + 1
        if left < 0:
            call.log_entries_dropped += 1
        else:
            call.log(level, line)
