"""Programs of the desktop: which are here, their environment, and one run of each.

A program of the desktop has to reach the person's session, so it is not confined like a shell. It is a list of
arguments and never a command line, has an environment of its own, leads a process group, and ends with its call.
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
"""Of one program that answers, or takes something over."""
_SETTLED_SECONDS = 0.3
"""A program that cannot start says so within this time."""
_ENVIRONMENT = (
    *("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"),
    *("XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "XDG_CURRENT_DESKTOP", "XDG_DATA_DIRS", "XDG_DATA_HOME"),
)
"""SECURITY: the variables that lead to the session. Keys and tokens of this process are in none of them."""


class Ran(NamedTuple):
    """A program that ended by itself."""

    code: int
    stdout: bytes
    stderr: str


def find_program(name: str) -> str | None:
    """Return the path of a program of the system; None where there is none. The PATH of this process does not count."""
    return shutil.which(name, path=PATH)


def environment() -> dict[str, str]:
    """Return the environment of a program of the desktop."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | {"PATH": PATH}


def no_desktop(what: str, step: str) -> ToolError:
    """Return the refusal of a machine that has not what a tool needs, with the next step."""
    return ToolError(what, code="no-desktop", hint=step, kind=ToolErrorKind.SANDBOX)


def refused(decision: Decision) -> NotAuthorizedError:
    """Return a refusal as the error of a call."""
    error = NotAuthorizedError(decision.refusal, code=str(decision.reason), hint=decision.hint)
    error.decisions = (decision,)
    return error


def run(argv: Sequence[str], stdin: bytes, lifetime: Lifetime | None, *, max_bytes: int) -> Ran:
    """Run a program to its end; all that it started ends with it.

    Raises:
        ToolError: it cannot be started, took too long, or printed more than `max_bytes`.
    """
    out, err = bytearray(), bytearray()

    def take(data: bytes) -> None:
        out.extend(data)
        if len(out) > max_bytes:
            raise OutputLimitError(
                f"there are more than {max_bytes:,} bytes",
                limit=max_bytes,
                used=len(out),
                setting="",
                hint="copy less at once",
            )

    with starting(argv[0]):
        code = run_to_end(
            Command(list(argv), environment()), stdin, "/", Lifetime(SECONDS, within=lifetime), take,
            lambda data: err.extend(data[: PROGRAM_TAIL_CHARS - len(err)]),
        )  # fmt: skip
    return Ran(code, bytes(out), err.decode("utf-8", "replace").strip())


def leave(argv: Sequence[str], cwd: str) -> int | None:
    """Start a program that outlives its call; return its exit code where it ended at once, else None.

    Raises:
        ToolError: it cannot be started.
    """
    process = _started(argv, cwd)
    assert process.stdin is not None
    process.stdin.close()
    try:
        return process.wait(_SETTLED_SECONDS)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, daemon=True).start()  # or it would stay a zombie
        return None


def hand_over(argv: Sequence[str], stdin: bytes) -> int:
    """Have a program take its input, and stay in the background with it; return the exit code of its first process.

    Raises:
        ToolError: it cannot be started, or took too long.
    """
    process = _started(argv, "/")
    try:
        process.communicate(stdin, SECONDS)
    except subprocess.TimeoutExpired:
        end_group(process)
        raise DeadlineExceededError(
            f"{argv[0]} took longer than {SECONDS:g} s, and was ended",
            limit=SECONDS,
            used=SECONDS,
            setting="",
            hint="look at the desktop, and try it again",
        ) from None
    return process.returncode


def _started(argv: Sequence[str], cwd: str) -> subprocess.Popen[bytes]:
    with starting(argv[0]):
        return subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
            list(argv), env=environment(), cwd=cwd, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
