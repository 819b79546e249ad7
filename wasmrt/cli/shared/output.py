"""Output of every command: data on stdout, messages on stderr, nothing that could drive the terminal."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TextIO

import click

from wasmrt.core.errors import WasmrtError
from wasmrt.core.terminal import in_ascii, in_one_line, printable

PATIENCE_SECONDS = 1.0
"""Time that something may take without a word."""


class Style(StrEnum):
    """The looks of a line on a terminal that has colours (ECMA-48, 8.3.117)."""

    PLAIN = ""
    ALARM = "\x1b[31m"
    GOOD = "\x1b[32m"
    FAINT = "\x1b[2m"
    STRONG = "\x1b[1m"


_END = "\x1b[0m"
_MIN_COLUMNS = 40


def has_colours(stream: TextIO | None) -> bool:
    """Tell whether a stream shows colours: a terminal that is not dumb, and NO_COLOR (no-color.org) is not set."""
    return (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def print_message(text: str, style: Style = Style.PLAIN, *, indent: int = 0) -> None:
    """Print a message on stderr, in one line; on a terminal it is wrapped between words."""
    print_lines(_wrapped(sys.stderr, in_one_line(text), indent), style)


def print_lines(text: str, style: Style = Style.PLAIN) -> None:
    """Print a message of several lines on stderr."""
    if sys.stderr is not None:  # None where it was closed
        _write(sys.stderr, printable(text), style)


def _wrapped(stream: TextIO | None, text: str, indent: int) -> str:
    """Indent a line; on a terminal, break it between words as well, and go on a little deeper."""
    margin = " " * indent
    if stream is None or not stream.isatty():
        return margin + text
    width = max(_MIN_COLUMNS, os.get_terminal_size(stream.fileno()).columns)
    wrapper = textwrap.TextWrapper(width, initial_indent=margin, subsequent_indent=f"{margin}  ")
    wrapper.break_long_words = wrapper.break_on_hyphens = False  # an address stays whole, to be copied
    return wrapper.fill(text)


def _write(stream: TextIO, text: str, style: Style = Style.PLAIN) -> None:
    styled = f"{style}{text}{_END}" if style and has_colours(stream) else text
    try:
        stream.write(styled + "\n")
    except UnicodeEncodeError:  # a terminal that is not UTF-8; JSON stays JSON
        stream.write(in_ascii(text) + "\n")
    stream.flush()


def show_line(text: str, style: Style = Style.PLAIN, *, indent: int = 0) -> None:
    """Print a line for people on stdout; on a terminal it is wrapped between words.

    Raises:
        WasmrtError: as `show`.
    """
    show(_wrapped(sys.stdout, in_one_line(text), indent), style)


def show(text: str, style: Style = Style.PLAIN) -> None:
    """Print data for people on stdout.

    Raises:
        WasmrtError: it cannot be written, because the disk behind it is full, say.
    """
    if sys.stdout is None:  # what Python makes of `>&-`
        raise WasmrtError("the output cannot be written (it is closed)", code="output")
    try:
        _write(sys.stdout, printable(text), style)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WasmrtError(f"the output cannot be written ({error.strerror})", code="output") from error


def show_json(value: Any) -> None:
    """Print data for programs on stdout."""
    show(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def show_json_list(values: Iterable[Any]) -> None:
    """Print a JSON array, one entry a line: an indented one takes ten times as long to write."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # `dumps` would make an encoder for each
    lines = ",\n".join(map(encode, values))
    show(f"[\n{lines}\n]" if lines else "[]")


def show_columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a plain table: columns as wide as they need to be, two blanks between."""
    table = [list(header), *([in_one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    layout = "  ".join(f"{{:<{width}}}" for width in widths)
    show("\n".join(layout.format(*row).rstrip() for row in table))


def show_section(title: str, lines: Iterable[str]) -> None:
    """Print a title and indented lines; nothing where there are none."""
    listed = [f"  {in_one_line(line)}" for line in lines]
    if listed:
        show(f"{title}:\n" + "\n".join(listed))


@contextmanager
def status(text: str) -> Iterator[None]:
    """Say on stderr what takes its time: on a terminal in a line that goes away after, else as `announced` does.

    A program that reads JSON is told nothing.
    """
    context = click.get_current_context(silent=True)
    if sys.stderr is None or (context is not None and context.params.get("as_json")):
        yield
        return
    if not sys.stderr.isatty():
        with announced(text, print_message):
            yield
        return
    sys.stderr.write(f"{in_one_line(text)} ..."[: os.get_terminal_size(sys.stderr.fileno()).columns - 1])
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")  # to the margin, and erase the line (ECMA-48, 8.3.41)
        sys.stderr.flush()


@contextmanager
def announced(
    text: str, say: Callable[[str], None], *, after_seconds: float = PATIENCE_SECONDS, always: bool = False
) -> Iterator[None]:
    """Say a line when something takes its time, and one when it is over, with its seconds.

    With `always` the second comes for what is quick as well.
    """
    started = time.monotonic()
    told = threading.Event()

    def tell() -> None:
        told.set()
        say(f"{text} ...")

    late = threading.Timer(after_seconds, tell)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
    if always or told.is_set():
        say(f"{text} ({time.monotonic() - started:.1f} s)")


def is_interactive() -> bool:
    """Tell whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def size_in_words(size_bytes: int) -> str:
    """Format a size for people: `1.4 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    if size_bytes < 1024 * 1024:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / 1024 / 1024:.1f} MiB"
