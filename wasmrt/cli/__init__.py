"""The command line: one file a command, loaded when it is used. Data on stdout, words on stderr.

Exit codes: 0 done, 1 the tool or a check failed, 2 usage or bad input, 3 denied or a grant is needed,
4 wasmrt's own fault, 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from wasmrt._lazy import lazy

if TYPE_CHECKING:
    from wasmrt.cli._root import cli

__all__ = ["cli", "main"]

_RARELY = 100_000

__getattr__ = lazy(__name__, {"_root": ("cli",)}, globals())


def main() -> None:
    """The console script.

    A command is a short process: it does not look for garbage that dies with it, not even while it imports, and once
    its words are written it ends without taking the interpreter apart, which would take longer than many a call.
    """
    gc.set_threshold(_RARELY)
    _occupy_standard_descriptors()
    from wasmrt.cli._errors import FAILED
    from wasmrt.cli._run import run_plainly

    code = run_plainly(sys.argv[1:])
    if code is None:
        code = _parsed()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # None where it was closed before the start
                stream.flush()
        except OSError:  # the reader went away, as `head` does
            code = code or FAILED
    os._exit(code)


def _parsed() -> int:
    from wasmrt.cli._errors import INTERNAL
    from wasmrt.cli._root import cli

    try:
        cli(prog_name="wasmrt")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return INTERNAL


def _occupy_standard_descriptors() -> None:
    """SECURITY: where one was closed, the next file that is opened would take its place, and words go into it."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
