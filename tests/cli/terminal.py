"""Run commands on a pseudo-terminal and type answers."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path


def on_a_terminal(answer: bytes, *arguments: str | Path) -> tuple[int, str]:
    """Run the command with a terminal for stdin and stderr, and type the answer."""
    return python_on_a_terminal(answer, "-m", "wasmrt", *arguments)


def python_on_a_terminal(answer: bytes, *arguments: str | Path, columns: int = 80) -> tuple[int, str]:
    """Run Python with a terminal of the given width for stdin and stderr, and type the answer."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)], stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL
    )
    os.close(theirs)
    os.write(ours, answer)
    said = b""
    try:
        while chunk := os.read(ours, 4096):
            said += chunk
    except OSError:  # the process has closed the terminal
        pass
    os.close(ours)
    return process.wait(), said.decode()
