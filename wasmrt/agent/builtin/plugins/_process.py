"""One run of a plugin's program, within the bounds of its manifest."""

from __future__ import annotations

from typing import NamedTuple

from wasmrt.core.errors import DeadlineExceededError, OutputLimitError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.isolation.confine import Command
from wasmrt.sandbox.isolation.programs import Sink, run_to_end


class Bounds(NamedTuple):
    """The bounds of one run."""

    seconds: float
    stdout_bytes: int
    stderr_bytes: int


class Ended(NamedTuple):
    """A run that ended by itself."""

    code: int
    """The exit code; negative for the number of the signal that ended it."""
    stdout: bytes
    stderr: bytes


def run_program(command: Command, stdin: bytes, cwd: str, bounds: Bounds, within: Lifetime | None = None) -> Ended:
    """Run a program to its end; every process that it started ends with it, however it ends.

    `within` is the call that it runs for, which can be cancelled.

    Raises:
        DeadlineExceededError, CancelledError: it took longer than it may, or its call was cancelled.
        OutputLimitError: it printed more than it may.
        OSError: it could not be started.
    """
    stdout, stderr = bytearray(), bytearray()
    sinks = (
        _sink(stdout, bounds.stdout_bytes, "max_stdout_bytes"),
        _sink(stderr, bounds.stderr_bytes, "max_stderr_bytes"),
    )
    try:
        code = run_to_end(command, stdin, cwd, Lifetime(bounds.seconds, within=within), *sinks)
    except DeadlineExceededError:
        raise _late(bounds) from None
    return Ended(code, bytes(stdout), bytes(stderr))


def _late(bounds: Bounds) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"the plugin took longer than {bounds.seconds:g} s, and was ended",
        limit=bounds.seconds, used=None, setting="max_runtime_ms",
        hint="raise max_runtime_ms in its manifest if it really needs more",
    )  # fmt: skip


def _sink(kept: bytearray, cap: int, setting: str) -> Sink:
    def take(data: bytes) -> None:
        if len(kept) + len(data) > cap:
            raise OutputLimitError(
                f"the plugin printed more than its {setting} of {cap:,}",
                limit=cap, used=len(kept) + len(data), setting=setting,
                hint=f"raise {setting} in its manifest if it really needs more",
            )  # fmt: skip
        kept.extend(data)

    return take
