"""The clipboard, by the program that this desktop has for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from wasmrt.agent.builtin.desktop._programs import find_program, hand_over, no_desktop, run
from wasmrt.core.errors import InvalidParametersError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_CLIPBOARD_BYTES

_EMPTY = ("not available", "no selection", "nothing is copied", "no suitable type")
"""Parts of what the programs say where there is no text to read."""


class Program(NamedTuple):
    """One way to the clipboard."""

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
    """Return the text of the clipboard; empty where it holds none.

    Raises:
        ToolError: there is no desktop or no program for its clipboard, or what it holds is too large.
    """
    argv = find_clipboard().read
    ran = run(argv, b"", lifetime, max_bytes=MAX_CLIPBOARD_BYTES)
    if ran.code == 0:
        return ran.stdout.decode("utf-8", "replace")
    if any(words in ran.stderr.lower() for words in _EMPTY):
        return ""
    raise _failed(argv[0], ran.stderr)


def write_clipboard(text: str) -> None:
    """Put a text into the clipboard, in place of what it holds.

    Raises:
        InvalidParametersError: the text holds control characters, or is too long.
        ToolError: there is no desktop, or no program for its clipboard.
    """
    # SECURITY: whoever pastes into a terminal would type them: an escape sequence ends a bracketed paste.
    if any((ord(each) < 32 and each not in "\n\t") or 0x7F <= ord(each) < 0xA0 for each in text):
        raise InvalidParametersError(
            "the text holds control characters", hint="leave out all but line feeds and tabulators"
        )
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidParametersError("the text is not valid Unicode", hint="pass whole characters") from None
    if len(data) > MAX_CLIPBOARD_BYTES:
        raise InvalidParametersError(f"the text has more than {MAX_CLIPBOARD_BYTES:,} bytes", hint="write a file")
    argv = find_clipboard().write
    if (code := hand_over(argv, data)) != 0:
        raise _failed(argv[0], f"exit code {code}")


def find_clipboard() -> Program:
    """Return the programs of this desktop's clipboard.

    Raises:
        ToolError: there is no desktop, or no program.
    """
    programs, package = _of_this_desktop()
    for program in programs:
        if (path := find_program(program.read[0])) is not None and find_program(program.write[0]) is not None:
            writer = find_program(program.write[0]) or ""
            return Program((path, *program.read[1:]), (writer, *program.write[1:]))
    raise no_desktop("this machine has no program for the clipboard", f"install {package}")


def _of_this_desktop() -> tuple[Sequence[Program], str]:
    if sys.platform == "darwin":
        return _MACOS, "the system's command line tools"
    if os.environ.get("WAYLAND_DISPLAY"):
        return _WAYLAND, "wl-clipboard"
    if os.environ.get("DISPLAY"):
        return _X11, "xclip or xsel"
    raise no_desktop(
        "there is no desktop here, and so no clipboard",
        "run the agent in a desktop session: neither WAYLAND_DISPLAY nor DISPLAY is set",
    )


def _failed(program: str, said: str) -> ToolError:
    return ToolError(f"{program} failed: {said:.200}", code="clipboard", hint="check that the desktop can be reached")
