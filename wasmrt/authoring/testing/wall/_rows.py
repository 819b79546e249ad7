"""Runs all attempts in a process of their own and reads what became of them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from wasmrt.core.errors import InternalError
from wasmrt.sandbox.isolation.confine import Kind

KINDS = (Kind.RUN_WORKER, Kind.COMPILE_WORKER, Kind.SHELL)
"""The kinds that are tried."""

_SECONDS = 120.0
_REFUSALS = {"killed by SIGSYS", "EPERM", "EACCES", "ENOSYS"}
"""Ends of an attempt that say "no". Any other error may mean that the call was let through."""


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt by one kind of process."""

    attempt: str
    kind: str
    user: int
    """The user id that tried."""
    control: str
    """"done" where the same process could do it before it was sealed, or the error that it met even then."""
    outcome: str
    """"killed by SIGSYS", the error that it met, or "done"."""

    @property
    def proven(self) -> bool:
        """True where the control shows that only the confinement stops it."""
        return self.control == "done"

    @property
    def held(self) -> bool:
        """True where the sealed process was refused."""
        return self.outcome in _REFUSALS


def run_wall() -> tuple[Row, ...]:
    """Try every attempt, for each kind, as this user and, where this is root, as nobody.

    Each attempt has two processes: one that is not sealed, the control, and one that is.

    Raises:
        InternalError: the process that tries them broke.
    """
    command = [sys.executable, "-I", "-m", "wasmrt.authoring.testing.wall"]
    try:
        done = subprocess.run(  # noqa: S603
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True, env={}
        )
        return tuple(Row(**row) for row in json.loads(done.stdout))
    except (subprocess.SubprocessError, ValueError) as error:
        raise InternalError("the forbidden calls could not be tried", hint="please report it") from error
