"""Run all attempts in a separate process, and read the results."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from wasmrt.core.errors import InternalError
from wasmrt.sandbox.isolation.confine import Kind

KINDS = (Kind.RUN_WORKER, Kind.COMPILE_WORKER, Kind.SHELL)

_SECONDS = 120.0
_REFUSALS = {"killed by SIGSYS", "EPERM", "EACCES", "ENOSYS"}
"""Outcomes that count as blocked; any other error may mean that the call was allowed."""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of an attempt by a kind of process."""

    attempt: str
    kind: str
    user: int
    """The user ID of the process."""
    control: str
    """The outcome without confinement: "done" or an error."""
    outcome: str
    """The outcome with confinement: "killed by SIGSYS", an error, or "done"."""

    @property
    def proven(self) -> bool:
        """True if the control succeeded, so that only the confinement can have stopped the attempt."""
        return self.control == "done"

    @property
    def held(self) -> bool:
        """True if the confinement blocked the attempt."""
        return self.outcome in _REFUSALS


def run_wall() -> tuple[Row, ...]:
    """Try every attempt for each kind of process, as the current user, and also as `nobody` if that user is root.

    Each attempt runs in two processes: one without confinement as a control, and one with confinement.

    Raises:
        InternalError: the process that makes the attempts failed.
    """
    command = [sys.executable, "-I", "-m", "wasmrt.authoring.testing.wall"]
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True, env={}
        )
        return tuple(Row(**row) for row in json.loads(done.stdout))
    except (subprocess.SubprocessError, ValueError) as error:
        raise InternalError("the forbidden calls could not be tried", hint="please report this") from error
