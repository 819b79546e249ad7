"""Output of every command: data on stdout, messages on stderr, nothing that could drive the terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from wasmrt.errors import WasmrtError

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SUSPECT = re.compile(r"[^\n\x20-\x7e]")


def printable(text: str) -> str:
    """Return `text` with every character that a terminal might obey written as an escape; line ends stay.

    SECURITY: tools, sidecars and file names choose text that is shown here.
    """
    if text.replace("\n", " ").isprintable():
        return text
    return _SUSPECT.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else _escape(found)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    above = code - 0x10000  # a pair of surrogates: JSON has no other way to say it (RFC 8259, 7)
    return f"\\u{0xD800 + (above >> 10):04x}\\u{0xDC00 + (above & 0x3FF):04x}"


def in_one_line(text: str) -> str:
    """Return `text` for a place where one line is expected.

    SECURITY: what begins at the margin is ours; no tool, sidecar or file name writes a line of its own there.
    """
    return printable(text.replace("\n", " "))


def say(text: str) -> None:
    """Print a message on stderr, in one line."""
    say_lines(in_one_line(text))


def say_lines(text: str) -> None:
    """Print a message of several lines on stderr."""
    if sys.stderr is not None:  # None where it was closed
        _write(sys.stderr, printable(text))


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text + "\n")
    except UnicodeEncodeError:  # a terminal that is not UTF-8; JSON stays JSON
        stream.write(_NOT_ASCII.sub(_escape, text) + "\n")
    stream.flush()


def show(text: str) -> None:
    """Print data for people on stdout.

    Raises:
        WasmrtError: it cannot be written, because the disk behind it is full, say.
    """
    if sys.stdout is None:  # what Python makes of `>&-`
        raise WasmrtError("the output cannot be written (it is closed)", code="output")
    try:
        _write(sys.stdout, printable(text))
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
    """Show a line on stderr while something takes its time and somebody watches, and take it away after."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(f"{in_one_line(text)} ..."[: os.get_terminal_size(sys.stderr.fileno()).columns - 1])
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")  # to the margin, and erase the line (ECMA-48, 8.3.41)
        sys.stderr.flush()


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
