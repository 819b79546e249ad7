"""Applications, by the desktop entries of the machine, and of those the ones that the operator allows.

https://specifications.freedesktop.org/desktop-entry-spec/latest/exec-variables.html
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from wasmrt.agent.builtin.desktop._programs import PATH, find_program, leave, no_desktop
from wasmrt.core.errors import ToolError
from wasmrt.core.files import UnfitFileError, read_file

_SECTION = "Desktop Entry"
_MAX_ENTRY_BYTES = 256 * 1024
_RESERVED = re.compile(r"[\s\"'\\><~|&;$*?#()`]")
"""Characters that stand only within quotes, by the specification."""
_WORD = re.compile(r'"((?:[^"\\`$]|\\["`$\\])*)"|(\S+)')


class Application(NamedTuple):
    """An application that can be opened."""

    id: str
    name: str
    argv: tuple[str, ...]


def find_application(app: str) -> Application:
    """Return an application by the id of its desktop entry, which an operator named.

    Raises:
        ToolError: there is no such entry here, or it is not one of a program with windows.
    """
    for folder in entry_folders():
        path = folder / f"{app}.desktop"
        try:
            text = read_file(path, max_bytes=_MAX_ENTRY_BYTES, follow_link=True).decode("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnfitFileError, UnicodeDecodeError) as error:
            raise _unusable(app, f"its desktop entry cannot be read ({type(error).__name__})") from None
        return _read_entry(app, text)
    raise no_desktop(f"there is no application {app} on this machine", "install it, or have the operator name another")


def open_application(application: Application) -> None:
    """Start an application, which goes on when the call has ended.

    Raises:
        ToolError: there is no desktop, or it ended at once with an error.
    """
    if not (os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY")):
        raise no_desktop(
            "there is no desktop here to open an application on",
            "run the agent in a desktop session: neither WAYLAND_DISPLAY nor DISPLAY is set",
        )
    if (code := leave(application.argv, str(Path.home()))) not in (None, 0):
        raise _unusable(application.id, f"it ended at once, with exit code {code}")


def entry_folders() -> Iterable[Path]:
    """Return the folders of desktop entries: the user's own stand before the system's."""
    home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    system = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    return [Path(each, "applications") for each in (home, *system.split(":")) if each.startswith("/")]


def _read_entry(app: str, text: str) -> Application:
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(text)
        entry = dict(parser[_SECTION])
    except (configparser.Error, KeyError):
        raise _unusable(app, "its desktop entry cannot be read") from None
    if entry.get("Type") != "Application" or entry.get("Hidden") == "true" or not entry.get("Exec"):
        raise _unusable(app, "its desktop entry is none of an application")
    if entry.get("Terminal") == "true":
        raise _unusable(app, "it runs in a terminal")
    return Application(app, entry.get("Name", app), _arguments(app, entry["Exec"], entry.get("Name", app)))


def _arguments(app: str, line: str, name: str) -> tuple[str, ...]:
    """Return the arguments of an Exec line; no shell reads it. Codes for files and addresses stand for none here."""
    found: list[str] = []
    line = line.replace("\\\\", "\\")  # the escape of strings of the file, under that of quotes
    for match in _WORD.finditer(line):
        quoted, plain = match.groups()
        if plain is not None and _RESERVED.search(plain):
            raise _unusable(app, "the command of its desktop entry is not well-formed")
        word = re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain
        if word in ("%f", "%F", "%u", "%U", "%i", "%k", "%d", "%D", "%n", "%N", "%v", "%m"):
            continue
        found.append(re.sub(r"%(.)", lambda code: {"c": name, "%": "%"}.get(code[1], ""), word))
    program = found[0] if found else ""
    path = program if program.startswith("/") else find_program(program)
    if not path or not os.access(path, os.X_OK):
        raise _unusable(app, f"its program {program!r:.80} is not in {PATH}")
    return (path, *found[1:])


def _unusable(app: str, why: str) -> ToolError:
    return ToolError(f"{app} cannot be opened: {why}", code="application", hint="have the operator look at it")
