"""The clipboard, read and written by the desktop's clipboard program."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from wasmrt.agent.builtin.desktop._programs import find_program, no_desktop_error, run, start_with_input
from wasmrt.core.errors import DeadlineExceededError, InvalidParametersError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_CLIPBOARD_BYTES

_EMPTY = ("not available", "no selection", "nothing is copied", "no suitable type")
"""Each is part of the error message of a clipboard program if the clipboard has no text."""
_WRITE_SECONDS = 10.0
_POLL_SECONDS = 0.02


class Program(NamedTuple):
    """The commands of a program that reads and writes the clipboard."""

    read: tuple[str, ...]
    write: tuple[str, ...]


_WAYLAND = (Program(("wl-paste", "--no-newline", "--type", "text"), ("wl-copy", "--type", "text/plain")),)
_X11 = (
    Program(
        ("xclip", "-selection", "clipboard", "-out", "-target", "UTF8_STRING"), ("xclip", "-selection", "clipboard")
    ),
    Program(("xsel", "--clipboard", "--output"), ("xsel", "--clipboard", "--input")),
)
_MACOS = (Program(("pbpaste",), ("pbcopy",)),)


def read_clipboard(lifetime: Lifetime | None) -> str:
    """Return the text of the clipboard, or an empty string if it has no text.

    Raises:
        ToolError: there is no desktop or no clipboard program, or the text is too large.
    """
    argv = find_clipboard().read
    ran = run(argv, b"", lifetime, max_bytes=MAX_CLIPBOARD_BYTES)
    if ran.code == 0:
        return ran.stdout.decode("utf-8", "replace")
    if any(words in ran.stderr.lower() for words in _EMPTY):
        return ""
    raise _clipboard_error(argv[0], ran.stderr)


def write_clipboard(text: str, lifetime: Lifetime | None) -> None:
    """Replace the text of the clipboard, and wait until it can be read back.

    Raises:
        InvalidParametersError: the text contains control characters, or is too long.
        ToolError: there is no desktop or no clipboard program, or the text could not be read back in time.
    """
    # SECURITY: a terminal handles pasted control characters as if they were typed, and an escape sequence can end
    # a bracketed paste.
    if any((ord(each) < 32 and each not in "\n\t") or 0x7F <= ord(each) < 0xA0 for each in text):
        hint = "remove all control characters except line feeds and tabs"
        raise InvalidParametersError("the text contains control characters", hint=hint)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidParametersError("the text is not valid Unicode", hint="remove lone surrogates") from None
    if len(data) > MAX_CLIPBOARD_BYTES:
        problem = f"the text has {len(data):,} bytes, and the maximum is {MAX_CLIPBOARD_BYTES:,}"
        raise InvalidParametersError(problem, hint="write a file instead")
    argv = find_clipboard().write
    if (code := start_with_input(argv, data)) != 0:
        raise _clipboard_error(argv[0], f"exit code {code}")
    if sys.platform != "darwin":  # pbcopy exits after the clipboard has the text, so no wait is needed
        _wait_until_written(text, lifetime)


def _wait_until_written(text: str, lifetime: Lifetime | None) -> None:
    """Wait until the clipboard has the text. A program such as xclip can exit before the clipboard has it."""
    time_limit = Lifetime(_WRITE_SECONDS, within=lifetime)
    problem = "it has a different text"
    while not time_limit.is_over:
        try:
            if read_clipboard(time_limit) == text:
                return
        except DeadlineExceededError:  # this error is of the last read; errors of earlier reads explain more
            break
        except ToolError as error:  # for example, the previous text is too large, or its owner has just exited
            problem = error.message
        time_limit.cancelled.wait(min(_POLL_SECONDS, time_limit.remaining()))
    if lifetime is not None:
        lifetime.check()
    raise ToolError(
        f"the clipboard still does not contain the text after {_WRITE_SECONDS:g} s: {problem}", code="clipboard",
        hint="another program may have replaced the text; check the desktop, and try again",
    )  # fmt: skip


def find_clipboard() -> Program:
    """Return the clipboard commands of this desktop.

    Raises:
        ToolError: there is no desktop, or no clipboard program.
    """
    programs, package = _desktop_programs()
    for program in programs:
        if (path := find_program(program.read[0])) is not None and find_program(program.write[0]) is not None:
            writer = find_program(program.write[0]) or ""
            return Program((path, *program.read[1:]), (writer, *program.write[1:]))
    raise no_desktop_error("this machine has no clipboard program", f"install {package}")


def _desktop_programs() -> tuple[Sequence[Program], str]:
    if sys.platform == "darwin":
        return _MACOS, "the system's command line tools"
    if os.environ.get("WAYLAND_DISPLAY"):
        return _WAYLAND, "wl-clipboard"
    if os.environ.get("DISPLAY"):
        return _X11, "xclip or xsel"
    raise no_desktop_error(
        "there is no desktop, and therefore no clipboard",
        "run the agent in a desktop session: neither WAYLAND_DISPLAY nor DISPLAY is set",
    )


def _clipboard_error(program: str, reason: str) -> ToolError:
    return ToolError(f"{program} failed: {reason:.200}", code="clipboard", hint="check that the desktop is reachable")
