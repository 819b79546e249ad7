"""Find and run programs of the desktop.

A desktop program needs access to the user's session, so it is not confined like a shell command. The program is started
from a list of arguments, never from a command line. It has a minimal environment and its own process group, and is
ended when its call ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from typing import NamedTuple

from wasmrt.core.errors import DeadlineExceededError, NotAuthorizedError, OutputLimitError, ToolError, ToolErrorKind
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import PROGRAM_TAIL_CHARS
from wasmrt.core.model import Decision
from wasmrt.sandbox.isolation.confine import Command
from wasmrt.sandbox.isolation.programs import end_group, run_to_end, starting

PATH = "/usr/local/bin:/usr/bin:/bin"
SECONDS = 10.0
"""Time limit of one program, in seconds."""
_START_SECONDS = 0.3
"""Seconds within which a program that fails to start has exited."""
_ENVIRONMENT = (
    *("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"),
    *("XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "XDG_CURRENT_DESKTOP", "XDG_DATA_DIRS", "XDG_DATA_HOME"),
)
"""SECURITY: only variables that a program needs to use the session, and no variable with a key or token."""


class ProgramResult(NamedTuple):
    """The result of a program that exited."""

    code: int
    stdout: bytes
    stderr: str


def find_program(name: str) -> str | None:
    """Return the path of a system program, or None. The search ignores the PATH of this process."""
    return shutil.which(name, path=PATH)


def environment() -> dict[str, str]:
    """Return the environment of a desktop program."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | {"PATH": PATH}


def no_desktop_error(problem: str, hint: str) -> ToolError:
    """Create the error for a machine that lacks something that a tool requires."""
    return ToolError(problem, code="no-desktop", hint=hint, kind=ToolErrorKind.SANDBOX)


def refusal_error(decision: Decision) -> NotAuthorizedError:
    """Create the error of a refused call."""
    error = NotAuthorizedError(decision.refusal, code=str(decision.reason), hint=decision.hint)
    error.decisions = (decision,)
    return error


def run(argv: Sequence[str], stdin: bytes, lifetime: Lifetime | None, *, max_bytes: int) -> ProgramResult:
    """Run a program until it exits, then end all processes that the program started.

    Raises:
        ToolError: the program cannot be started, took too long, or printed more than `max_bytes`.
    """
    out, err = bytearray(), bytearray()

    def take(data: bytes) -> None:
        out.extend(data)
        if len(out) > max_bytes:
            raise OutputLimitError(
                f"the output has more than {max_bytes:,} bytes", limit=max_bytes, used=len(out), setting="",
                hint="copy less text",
            )  # fmt: skip

    with starting(argv[0]):
        code = run_to_end(
            Command(list(argv), environment()), stdin, "/", Lifetime(SECONDS, within=lifetime), take,
            lambda data: err.extend(data[: PROGRAM_TAIL_CHARS - len(err)]),
        )  # fmt: skip
    return ProgramResult(code, bytes(out), err.decode("utf-8", "replace").strip())


def leave(argv: Sequence[str], cwd: str) -> int | None:
    """Start a program that keeps running after the call. Return its exit code if it exits at once, otherwise None.

    Raises:
        ToolError: the program cannot be started.
    """
    process = _start(argv, cwd)
    assert process.stdin is not None
    process.stdin.close()
    try:
        return process.wait(_START_SECONDS)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, daemon=True).start()  # collects the exit status
        return None


def start_with_input(argv: Sequence[str], stdin: bytes) -> int:
    """Run a program that reads its input and continues in the background. Return its first process's exit code.

    Raises:
        ToolError: the program cannot be started, or took too long.
    """
    process = _start(argv, "/")
    try:
        process.communicate(stdin, SECONDS)
    except subprocess.TimeoutExpired:
        end_group(process)
        raise DeadlineExceededError(
            f"{argv[0]} took longer than {SECONDS:g} s, and was ended", limit=SECONDS, used=SECONDS, setting="",
            hint="check the desktop, and try again",
        ) from None  # fmt: skip
    return process.returncode


def _start(argv: Sequence[str], cwd: str) -> subprocess.Popen[bytes]:
    with starting(argv[0]):
        return subprocess.Popen(  # noqa: S603 - no shell is used
            list(argv), env=environment(), cwd=cwd, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
