"""Output of all commands: data on stdout, messages on stderr, with terminal control characters escaped."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Any, TextIO

import click

from wasmrt.core.errors import ConfigurationError, GrantRequiredError, WasmrtError
from wasmrt.core.terminal import in_ascii, printable, to_single_line


class Style(StrEnum):
    """Style of a line on a terminal with colours (ECMA-48, 8.3.117)."""

    PLAIN = ""
    ALARM = "\x1b[31m"
    GOOD = "\x1b[32m"
    FAINT = "\x1b[2m"
    STRONG = "\x1b[1m"


_END = "\x1b[0m"
_MIN_COLUMNS = 40
_MIN_CELL = 12
"""Minimum width, in characters, to which a wide column of a table is narrowed."""


def has_colours(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal with colours, and NO_COLOR (no-color.org) is not set."""
    return (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def print_message(text: str, style: Style = Style.PLAIN, *, indent: int = 0) -> None:
    """Print a message on stderr as a single line; on a terminal it is wrapped between words."""
    print_lines(_wrap_line(sys.stderr, to_single_line(text), indent), style)


def print_lines(text: str, style: Style = Style.PLAIN) -> None:
    """Print a message of several lines on stderr."""
    if sys.stderr is not None:  # None if it is closed
        _write(sys.stderr, printable(text), style)


def _wrap_line(stream: TextIO | None, text: str, indent: int) -> str:
    """Indent a line; on a terminal, also wrap it between words with a hanging indent."""
    margin = " " * indent
    if stream is None or not stream.isatty():
        return margin + text
    width = max(_MIN_COLUMNS, os.get_terminal_size(stream.fileno()).columns)
    wrapper = textwrap.TextWrapper(width, initial_indent=margin, subsequent_indent=f"{margin}  ")
    wrapper.break_long_words = wrapper.break_on_hyphens = False  # keep URLs whole, so that they can be copied
    return wrapper.fill(text)


def _write(stream: TextIO, text: str, style: Style = Style.PLAIN) -> None:
    styled = f"{style}{text}{_END}" if style and has_colours(stream) else text
    try:
        stream.write(styled + "\n")
    except UnicodeEncodeError:  # a terminal without UTF-8; the escapes keep JSON valid
        stream.write(in_ascii(text) + "\n")
    stream.flush()


def show_line(text: str, style: Style = Style.PLAIN, *, indent: int = 0) -> None:
    """Print a line on stdout; on a terminal it is wrapped between words.

    Raises:
        WasmrtError: as `show`.
    """
    show(_wrap_line(sys.stdout, to_single_line(text), indent), style)


def show(text: str, style: Style = Style.PLAIN) -> None:
    """Print text on stdout.

    Raises:
        WasmrtError: stdout cannot be written, for example because the disk is full.
    """
    if sys.stdout is None:  # Python's value for a closed stdout (`>&-`)
        raise WasmrtError("the output cannot be written (it is closed)", code="output")
    try:
        _write(sys.stdout, printable(text), style)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WasmrtError(f"cannot write the output ({error.strerror})", code="output") from error


def show_json(value: Any) -> None:
    """Print a value as JSON on stdout."""
    show(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False))


def show_json_list(values: Iterable[Any]) -> None:
    """Print a JSON array with one entry per line, which is ten times faster than indented JSON."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # `dumps` would create an encoder per entry
    lines = ",\n".join(map(encode, values))
    show(f"[\n{lines}\n]" if lines else "[]")


def show_columns(header: Sequence[str], rows: Iterable[Sequence[str]], *, indent: int = 0) -> None:
    """Print a table whose columns are as wide as their content, with two spaces between them.

    If the table is too wide for the terminal, its widest columns are wrapped. The first column has the names, and is
    never wrapped.
    """
    table = [list(header), *([to_single_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    excess = indent + sum(widths) + 2 * len(widths) - 2 - (terminal_width() or 10**9)
    while excess > 0 and max(widths[1:], default=0) > _MIN_CELL:
        widest = max(range(1, len(widths)), key=lambda index: widths[index])
        narrower = max(_MIN_CELL, widths[widest] - excess)
        excess, widths[widest] = excess - (widths[widest] - narrower), narrower
    margin, lines = " " * indent, []
    for row in table:
        cells = [_wrap_cell(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            lines.append(margin + "  ".join(padded).rstrip())
    show("\n".join(lines))


def _wrap_cell(text: str, width: int) -> list[str]:
    return [text] if len(text) <= width else textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def show_names(title: str, names: Iterable[str]) -> None:
    """Print a title and names, several on a line; nothing if there are no names."""
    text = ", ".join(map(to_single_line, names))
    if text:
        show(f"{title}:")
        show(textwrap.fill(text, terminal_width() or 100, initial_indent="  ", subsequent_indent="  ",
                           break_long_words=False, break_on_hyphens=False))  # fmt: skip


def terminal_width() -> int | None:
    """Return the width for tables: the variable COLUMNS, else the terminal's; None if stdout is not a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return max(_MIN_COLUMNS, shutil.get_terminal_size().columns)


def show_section(title: str, lines: Iterable[str]) -> None:
    """Print a title and indented lines; nothing if there are no lines."""
    listed = [f"  {to_single_line(line)}" for line in lines]
    if listed:
        show(f"{title}:\n" + "\n".join(listed))


def is_interactive() -> bool:
    """Return whether the user can be asked on a terminal."""
    return sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()


def confirm_change(question: str, *, unchanged: str, command: str, as_json: bool) -> None:
    """Ask the user to confirm a change.

    `unchanged` is the error message if the user does not confirm. `command` is the command that makes the change.

    Raises:
        ConfigurationError: the user declined, or cannot be asked.
    """
    if as_json or not is_interactive():
        hint = f"to confirm, run: {command} --yes"
        raise ConfigurationError(
            f"{unchanged}: a terminal is required to confirm the change", code="not-confirmed", hint=hint
        )
    if not click.confirm(question, default=False, err=True):
        raise ConfigurationError(unchanged, code="not-confirmed")


def require_consent(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask the user to agree to something that was shown, unless --yes was given.

    Raises:
        GrantRequiredError: the user declined, or cannot be asked.
    """
    if yes or (not as_json and is_interactive() and click.confirm(question, default=False, err=True)):
        return
    raise not_approved()


def not_approved() -> GrantRequiredError:
    """Return the error for something that the user did not agree to."""
    return GrantRequiredError("this was not approved, and nothing was changed", hint="review it, then pass --yes")


def format_size(size_bytes: int) -> str:
    """Format a size with its unit, such as `1.4 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    if size_bytes < 1024 * 1024:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / 1024 / 1024:.1f} MiB"
