"""A small program that confines itself, then executes another: `python -I -S`, standard library only.

A multithreaded host must not run Python between fork and exec, so these steps run after exec, in this program.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from typing import NoReturn

from wasmrt.core.errors import ConfineError
from wasmrt.sandbox.isolation.confine._sealing import Plan, Prepared

NOT_CONFINED = 125
"""Exit code if the process could not be confined; the program was not started. The reason is on stderr."""
NOT_EXECUTED = 126
"""Exit code if the program could not be executed."""


def encode(plan: Plan) -> str:
    """Encode a plan for the stub's command line. It contains paths and numbers, but no secrets."""
    return json.dumps(plan._replace(filter=base64.b64encode(plan.filter).decode()))  # type: ignore[arg-type]


def decode(text: str) -> Plan:
    """Decode a plan written by `encode`."""
    read = Plan(*json.loads(text))
    return read._replace(filter=base64.b64decode(read.filter))


def main() -> NoReturn:
    """Confine this process with the plan in the first argument, then execute the remaining arguments."""
    text, *argv = sys.argv[1:]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores these signals, and the program would too
    try:
        Prepared(decode(text)).apply()
    except ConfineError as error:
        _exit(NOT_CONFINED, error.message)
    try:
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606
    except OSError as error:
        _exit(NOT_EXECUTED, f"cannot execute {argv[0]}: {error.strerror}")


def _exit(code: int, message: str) -> NoReturn:
    os.write(2, f"wasmrt: {message}\n".encode(errors="replace"))
    os._exit(code)
