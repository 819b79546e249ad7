"""The command line: one file a command, loaded when it is used. Data goes to stdout, messages to stderr.

Exit codes: 0 done, 1 the tool or a check failed, 2 usage or bad input, 3 denied or a grant is needed,
4 wasmrt's own fault, 130 interrupted.
"""

from __future__ import annotations

from wasmrt.cli.shared.root import cli, main

__all__ = ["cli", "main"]
