"""`wasi:cli@0.2`: an empty environment, no terminal, and the standard streams of the call's program.

A guest that is no program has no input, and its output becomes log lines.
"""

from __future__ import annotations

import codecs
from typing import Any

from wasmrt.core.errors import GuestExitError
from wasmrt.core.limits import MAX_CAPTURED_OUTPUT_BYTES, MAX_LOG_ENTRY_BYTES
from wasmrt.core.model import LogLevel
from wasmrt.sandbox.component import Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import HostInterface
from wasmrt.sandbox.guest.wasi._handles import Handles, drop_handle
from wasmrt.sandbox.guest.wasi._program import Program
from wasmrt.sandbox.guest.wasi._streams import OutputStream


class Captured(OutputStream):
    """One standard stream of one call: whole lines become log entries, a flood is dropped and counted.

    An unfinished line is already in the log, as its last entry, and is replaced as it grows; so nothing has to
    be flushed when the call ends, however it ends.
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
            self._line = ""  # another entry came between, or this one was dropped
        # One character over the cap is enough for the log to see that the line has to be cut.
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
