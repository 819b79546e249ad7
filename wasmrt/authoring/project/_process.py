"""Run a command of a build without a shell or terminal, with a time limit, and return the end of its output."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from wasmrt.core.errors import BuildError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import BUILD_STEP_SECONDS, MAX_BUILD_LOG_BYTES, MAX_BUILD_OUTPUT_BYTES, MIB
from wasmrt.sandbox.isolation.programs import end_group

_POLL_SECONDS = 1.0
"""Interval for checking the size of a running command's output."""
# The output is not written to a terminal directly, and control characters are escaped.
_NO_TERMINAL = {"NO_COLOR": "1", "TERM": "dumb", "CARGO_TERM_COLOR": "never", "CARGO_TERM_PROGRESS_WHEN": "never"}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code of a command and the end of its output."""

    code: int
    output: str


def run_command(
    words: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    seconds: float = BUILD_STEP_SECONDS,
    bounds: Mapping[int, int] | None = None,
    shown: str | None = None,
    lifetime: Lifetime | None = None,
) -> CommandResult:
    """Run a command until it exits. If an error occurs first, kill the command and its children.

    Args:
        words: The program and its arguments.
        cwd: The working directory.
        env: All environment variables of the command; None passes the variables of this process.
        seconds: The time limit.
        bounds: Resource limits by RLIMIT_ number.
        shown: The name in error messages; None for the program's name.
        lifetime: The call that the command is part of.

    Raises:
        BuildError: the command cannot be started, took longer than `seconds`, or printed too much.
        DeadlineExceededError, CancelledError: the call has ended.
    """
    command = [str(word) for word in words]
    shown = shown or Path(command[0]).name
    with TemporaryFile() as output:
        try:
            process = subprocess.Popen(  # noqa: S603 - arguments from a template, no shell
                command,
                cwd=cwd,
                env=dict(os.environ if env is None else env) | _NO_TERMINAL,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that its child processes can be killed with it
            )
        except OSError as error:
            raise BuildError(f"{shown} cannot be started ({error.strerror})") from error
        try:
            _set_limits(process, bounds or {})
            return CommandResult(_wait(process, output, shown, seconds, lifetime), _read_tail(output))
        except BaseException:
            end_group(process)
            raise


def _set_limits(process: subprocess.Popen[bytes], bounds: Mapping[int, int]) -> None:
    """Set the limits of a started process. Setting them between fork and exec is not safe in a program with threads."""
    if not hasattr(resource, "prlimit"):  # not available on macOS
        return
    for bound, most in bounds.items():
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, bound, (most, most))


def _wait(
    process: subprocess.Popen[bytes], output: IO[bytes], shown: str, seconds: float, lifetime: Lifetime | None
) -> int:
    ends_at = time.monotonic() + seconds
    while True:
        if lifetime is not None:
            lifetime.check()
        # The output is a file, because a server that a compiler leaves running would keep a pipe open.
        if os.fstat(output.fileno()).st_size > MAX_BUILD_LOG_BYTES:
            raise BuildError(f"{shown} printed more than {MAX_BUILD_LOG_BYTES // MIB} MiB", output=_read_tail(output))
        left = ends_at - time.monotonic()
        if left <= 0:
            raise BuildError(f"{shown} took longer than {seconds:g} s", output=_read_tail(output))
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(left, _POLL_SECONDS))


def _read_tail(output: IO[bytes]) -> str:
    end = output.seek(0, os.SEEK_END)
    output.seek(max(0, end - MAX_BUILD_OUTPUT_BYTES))
    return output.read(MAX_BUILD_OUTPUT_BYTES).decode("utf-8", "replace").strip()
