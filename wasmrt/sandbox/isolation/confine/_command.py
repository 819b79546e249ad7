"""Programs that are executed confined: their command line, in front of it the stub's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine._confinement import Confinement
from wasmrt.sandbox.isolation.confine._prepare import Specifics, plan
from wasmrt.sandbox.isolation.confine.stub import encode

_ROOT = str(Path(__file__).resolve().parents[4])
# The faces of the packages above are not loaded: they would double the stub's start.
_STUB = """import sys, types
root = sys.argv.pop(1)
for name in ("wasmrt", "wasmrt.sandbox", "wasmrt.sandbox.isolation", "wasmrt.sandbox.isolation.confine"):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = [root + "/" + name.replace(".", "/")]
from wasmrt.sandbox.isolation.confine.{} import main
main()
"""


class Command(NamedTuple):
    """A command to start with `subprocess`, `asyncio` or anything else that executes without running Python between.

    Keep `close_fds` at True. Descriptors in `pass_fds` need to be granted with `keep` as well.
    """

    argv: list[str]
    env: dict[str, str]
    passed: tuple[int, ...] = ()
    """Descriptors that the stub needs, for `pass_fds`."""

    def start(self, cwd: str) -> subprocess.Popen[bytes]:
        """Start it in a folder, with three pipes that nothing buffers.

        Raises:
            OSError: it cannot be started.
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
            start_new_session=True,  # SECURITY: its group is all that it starts: it may not leave it
        )


def confined_command(
    confinement: Confinement,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    **specifics: Unpack[Specifics],
) -> Command:
    """Return the command that runs `argv` confined, by way of a stub that takes 30 to 40 ms.

    The process ends with `stub.NOT_CONFINED` where it could not be confined, and then the program did not start.

    Args:
        confinement: What the program may do; one of a kind that executes.
        argv: The program and its arguments; it is searched in the PATH of `env`.
        env: Variables beside those of this process that the confinement keeps.
        specifics: What this start grants.

    Raises:
        ConfineError: the arguments do not fit, or this interpreter cannot be started again.
    """
    if not confinement.executes:
        raise ConfineError(f"a {confinement.kind} executes no programs")
    if not argv:
        raise ConfineError("no program is named")
    kept = {name: os.environ[name] for name in confinement.environment if name in os.environ}
    outlet = specifics.get("outlet")
    return Command(
        [*stub_command("stub"), encode(plan(confinement, **specifics)), *argv],
        {**kept, **(env or {})},
        () if outlet is None else (outlet,),
    )


def stub_command(module: str) -> list[str]:
    """Return the command that runs `main` of a module of this package in a bare interpreter.

    Raises:
        ConfineError: this process does not know its interpreter.
    """
    if not sys.executable:
        raise ConfineError("this process does not know its interpreter, so nothing can be started confined")
    return [sys.executable, "-I", "-S", "-c", _STUB.format(module), _ROOT]
