"""`wasmrt` as a process, and `wasmrt serve` with a client on its standard streams."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.interop.mcp_server.world import Line

BUNDLED = Path(__import__("wasmrt").__file__).parent / "catalog/shipped"
WASMRT = [sys.executable, "-m", "wasmrt"]
OPEN = "[tools.filter]\nallow_external = true\n"


def wasmrt(*arguments: str, stdin: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run([*WASMRT, *arguments], input=stdin, capture_output=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr.decode()
    return done


def configure(home: Path, text: str) -> None:
    (home / "data" / "config.toml").write_text(text)


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[Line, subprocess.Popen[bytes]]]:
    process = subprocess.Popen(
        [*WASMRT, "serve", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    line = Line(process.stdout.fileno(), process.stdin.fileno())
    try:
        yield line, process
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()
        process.stderr.close()


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@contextmanager
def served(*more: str) -> Iterator[tuple[str, list[str]]]:
    """`wasmrt serve --http`: yields its address and first lines, and checks that it exits cleanly without output."""
    process = subprocess.Popen([*WASMRT, "serve", "--http", "0", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        said = []
        while not said or "Authorization" not in said[-1]:
            said.append(process.stderr.readline().decode())
        yield said[0].partition("serving at ")[2].partition(";")[0], said
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"")
