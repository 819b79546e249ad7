"""The small program that confines itself and becomes another: `python -I -S`, nothing but the standard library.

A host with threads must not run Python between fork and exec, so what has to happen there happens here, after exec.
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
"""The exit code where the process could not be confined; the program was not started. A sentence is on stderr."""
NOT_EXECUTED = 126
"""The exit code where the program could not be executed."""


def encode(plan: Plan) -> str:
    """Return a plan as text for the stub's command line. It holds paths and numbers, and nothing secret."""
    return json.dumps(plan._replace(filter=base64.b64encode(plan.filter).decode()))  # type: ignore[arg-type]


def decode(text: str) -> Plan:
    """Return the plan that `encode` wrote."""
    read = Plan(*json.loads(text))
    return read._replace(filter=base64.b64decode(read.filter))


def main() -> NoReturn:
    """Confine this process by the plan in the first argument and execute the rest of them."""
    text, *argv = sys.argv[1:]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # the interpreter ignores them, and a program would inherit that
    try:
        Prepared(decode(text)).apply()
    except ConfineError as error:
        _end(NOT_CONFINED, error.message)
    try:
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606
    except OSError as error:
        _end(NOT_EXECUTED, f"{argv[0]} could not be executed: {error.strerror}")


def _end(code: int, sentence: str) -> NoReturn:
    os.write(2, f"wasmrt: {sentence}\n".encode(errors="replace"))
    os._exit(code)
