"""The command line: one file a command, loaded when it is used. Data on stdout, words on stderr.

Exit codes: 0 done, 1 the tool or a check failed, 2 usage or bad input, 3 denied or a grant is needed,
4 wasmrt's own fault.
"""

from wasmrt.cli._root import cli, main

__all__ = ["cli", "main"]
