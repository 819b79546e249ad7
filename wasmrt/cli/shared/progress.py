"""Show the progress of long work: one line on a terminal, which is erased when the work ends. Pipes get nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

import click

from wasmrt.cli.shared.output import print_message
from wasmrt.core.terminal import in_ascii, to_single_line

if TYPE_CHECKING:
    from wasmrt.authoring.project import Progress

PATIENCE_SECONDS = 1.0
"""Seconds before the line of some work is shown, and between two updates of the line."""
_BAR_CELLS = 20
_ERASE = "\r\x1b[K"
"""Return to column 1, and erase the line (ECMA-48, 8.3.41)."""


class StatusLine:
    """A line with the current step and its duration, written by a separate thread."""

    def __init__(self, text: str, stream: TextIO | None) -> None:
        self._stream = stream
        self._ended = threading.Event()
        self._started = time.monotonic()
        self._text = text
        self._is_plain = os.environ.get("TERM") == "dumb"  # cannot erase a line, so it gets one that remains
        self._shown = False
        self._thread = threading.Thread(target=self._run, daemon=True) if stream is not None else None
        if self._thread is not None:
            self._thread.start()

    def update(self, text: str, done: int, total: int) -> None:
        """Set the current step, and how many of all steps have ended; the line shows them as a bar."""
        cells = _BAR_CELLS * done // total
        self._text = f"[{'#' * cells}{'-' * (_BAR_CELLS - cells)}] {done}/{total} {text}"

    def end(self) -> None:
        """Erase the line."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._shown and not self._is_plain:
            with suppress(OSError, ValueError):  # the terminal was closed
                self._write(_ERASE)

    def _run(self) -> None:
        with suppress(OSError, ValueError):  # the terminal was closed
            while not self._ended.wait(PATIENCE_SECONDS):
                text = to_single_line(self._text)
                if self._is_plain:
                    self._write("" if self._shown else f"{text} ...\n")
                else:
                    line = f"{text} ... {time.monotonic() - self._started:.0f} s"
                    self._write(_ERASE + line[: self._count_columns() - 1])
                self._shown = True

    def _count_columns(self) -> int:
        assert self._stream is not None
        return os.get_terminal_size(self._stream.fileno()).columns

    def _write(self, text: str) -> None:
        assert self._stream is not None
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            self._stream.write(in_ascii(text))
        self._stream.flush()


@contextmanager
def status(text: str) -> Iterator[StatusLine]:
    """Show a status line on stderr while the block runs, if it takes more than a second; not with --json or --quiet."""
    context = click.get_current_context(silent=True)
    quiet = context is not None and (context.params.get("as_json") or context.params.get("quiet"))
    line = StatusLine(text, None if quiet or sys.stderr is None or not sys.stderr.isatty() else sys.stderr)
    try:
        yield line
    finally:
        line.end()


def report_progress(*, quiet: bool) -> Progress:
    """Return a function that shows each step as a status line, and prints the step with its duration when it ends."""

    @contextmanager
    def report(label: str) -> Iterator[None]:
        if quiet:
            yield
            return
        started = time.monotonic()
        with status(label):
            yield
        print_message(f"{label} ({time.monotonic() - started:.1f} s)")

    return report
