"""The end of one run of a plugin's program: what it printed, and how it failed."""

from __future__ import annotations

from typing import NamedTuple

from wasmrt.core.errors import GuestExitError, ToolError
from wasmrt.core.limits import PROGRAM_TAIL_CHARS
from wasmrt.core.model import NOTHING_USED, Decision, LogEntry, Usage
from wasmrt.sandbox.component import last_lines, printable_line


class Printed(NamedTuple):
    """The output of a program. One that failed may have answered all the same, and said why."""

    stdout: str
    stderr: str = ""
    failure: ToolError | None = None
    usage: Usage = NOTHING_USED
    logs: tuple[LogEntry, ...] = ()
    decisions: tuple[Decision, ...] = ()


def exit_failure(code: int, stderr: str) -> GuestExitError | None:
    """Return the failure of a program that ended with an exit code; None for 0. Its errors hold no secret any more."""
    if code == 0:
        return None
    told = printable_line(last_lines(stderr, PROGRAM_TAIL_CHARS))
    message = f"the plugin ended with exit code {code}"
    return GuestExitError(f"{message}: {told}" if told else message, exit_code=code)
