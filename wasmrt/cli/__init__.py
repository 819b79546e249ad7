"""The command line: one module per command, imported on use. Data goes to stdout, messages to stderr.

Exit codes: 0 success, 1 the tool or a check failed, 2 usage or bad input, 3 denied or a grant is needed,
4 internal error of wasmrt, 130 interrupted.
"""

from __future__ import annotations

from wasmrt.cli.shared.root import cli, main

__all__ = ["cli", "main"]
