"""Run commands on a pseudo-terminal and type answers."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path


def on_a_terminal(answer: bytes, *arguments: str | Path, prompt: bytes = b"") -> tuple[int, str]:
    """Run the command with a terminal for stdin and stderr, and type the answer, after the prompt if there is one."""
    return python_on_a_terminal(answer, "-m", "wasmrt", *arguments, prompt=prompt)


def python_on_a_terminal(
    answer: bytes, *arguments: str | Path, columns: int = 80, prompt: bytes = b""
) -> tuple[int, str]:
    """Run Python with a terminal of the given width for stdin and stderr, and type the answer."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)], stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL
    )
    os.close(theirs)
    said, typed = b"", False
    try:
        while True:
            if not typed and prompt in said:
                os.write(ours, answer)
                typed = True
            if not (chunk := os.read(ours, 4096)):
                break
            said += chunk
    except OSError:  # the process has closed the terminal
        pass
    os.close(ours)
    return process.wait(), said.decode()
