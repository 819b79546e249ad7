"""Build the command lines of confined programs: the stub's command, followed by the program's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine._prepare import Specifics, plan
from wasmrt.sandbox.isolation.confine.kinds import Confinement
from wasmrt.sandbox.isolation.confine.stub import encode

_ROOT = str(Path(__file__).resolve().parents[4])
# The real packages are not imported: that would double the stub's start time.
_STUB = """import sys, types
root = sys.argv.pop(1)
for name in ("wasmrt", "wasmrt.sandbox", "wasmrt.sandbox.isolation", "wasmrt.sandbox.isolation.confine"):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = [root + "/" + name.replace(".", "/")]
from wasmrt.sandbox.isolation.confine.{} import main
main()
"""


class Command(NamedTuple):
    """A command for `subprocess`, `asyncio` or any API that executes it without running Python between fork and exec.

    Keep `close_fds` at True.
    """

    argv: list[str]
    env: dict[str, str]
    passed: tuple[int, ...] = ()
    """Descriptors that the stub and the program need; add them to `pass_fds`."""

    def start(self, cwd: str) -> subprocess.Popen[bytes]:
        """Start the command in the directory `cwd`, with three unbuffered pipes.

        Raises:
            OSError: the command cannot be started.
        """
        return subprocess.Popen(  # noqa: S603 - a stub that confines itself, then the program; no shell
            self.argv,
            env=self.env,
            pass_fds=self.passed,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # SECURITY: its processes cannot leave this group, so a kill ends them all
        )


def confined_command(
    confinement: Confinement,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    **specifics: Unpack[Specifics],
) -> Command:
    """Return the command that runs `argv` confined. Its stub takes 30 to 40 ms to start.

    If confinement fails, the process exits with `stub.NOT_CONFINED` and the program is not started.

    Args:
        confinement: The program's permissions; its kind must allow executing programs.
        argv: The program and its arguments. The program is searched for in the PATH of `env`.
        env: Additional variables; the confinement's `environment` lists the variables inherited from this process.
        specifics: Permissions for this start only.

    Raises:
        ConfineError: the arguments are invalid, or the path of this interpreter is unknown.
    """
    if not confinement.executes:
        raise ConfineError(f"a {confinement.kind} cannot execute programs")
    if not argv:
        raise ConfineError("argv must name a program, got an empty list")
    kept = {name: os.environ[name] for name in confinement.environment if name in os.environ}
    outlet = specifics.get("outlet")
    specifics["keep"] = keep = tuple(specifics.get("keep", ()))
    return Command(
        [*stub_command("stub"), encode(plan(confinement, **specifics)), *argv],
        {**kept, **(env or {})},
        keep if outlet is None else (*keep, outlet),
    )


def stub_command(module: str) -> list[str]:
    """Return the command that runs `main` of a module of this package in a bare interpreter.

    Raises:
        ConfineError: the path of this interpreter is unknown.
    """
    if not sys.executable:
        raise ConfineError("sys.executable is not set, so no confined process can be started")
    return [sys.executable, "-I", "-S", "-c", _STUB.format(module), _ROOT]
