"""Find an application by its desktop entry, and open it.

https://specifications.freedesktop.org/desktop-entry-spec/latest/exec-variables.html
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from wasmrt.agent.builtin.desktop._programs import PATH, find_program, leave, no_desktop_error
from wasmrt.core.errors import ToolError
from wasmrt.core.files import UnfitFileError, read_file

_SECTION = "Desktop Entry"
_MAX_ENTRY_BYTES = 256 * 1024
_RESERVED = re.compile(r"[\s\"'\\><~|&;$*?#()`]")
"""Characters that must be quoted, according to the specification."""
_WORD = re.compile(r'"((?:[^"\\`$]|\\["`$\\])*)"|(\S+)')


class Application(NamedTuple):
    """An application that can be opened."""

    id: str
    name: str
    argv: tuple[str, ...]


def find_application(app: str) -> Application:
    """Find an application by the ID of its desktop entry.

    Raises:
        ToolError: the entry does not exist, or does not describe a graphical application.
    """
    for folder in entry_folders():
        path = folder / f"{app}.desktop"
        try:
            text = read_file(path, max_bytes=_MAX_ENTRY_BYTES, follow_link=True).decode("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnfitFileError, UnicodeDecodeError) as error:
            raise _make_unusable_error(app, f"its desktop entry cannot be read ({type(error).__name__})") from None
        return _read_entry(app, text)
    hint = "install it, or ask the operator to allow a different application"
    raise no_desktop_error(f"there is no application {app} on this machine", hint)


def open_application(application: Application) -> None:
    """Start an application. It keeps running after the call.

    Raises:
        ToolError: there is no desktop, or the application exited immediately with an error.
    """
    if not (os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY")):
        raise no_desktop_error(
            "there is no desktop to open an application on",
            "run the agent in a desktop session: neither WAYLAND_DISPLAY nor DISPLAY is set",
        )
    if (code := leave(application.argv, str(Path.home()))) not in (None, 0):
        raise _make_unusable_error(application.id, f"it exited at once with code {code}")


def entry_folders() -> Iterable[Path]:
    """Return the folders of desktop entries, the user's folder first."""
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
        raise _make_unusable_error(app, "its desktop entry cannot be read") from None
    if entry.get("Type") != "Application" or entry.get("Hidden") == "true" or not entry.get("Exec"):
        raise _make_unusable_error(app, "its desktop entry does not describe an application")
    if entry.get("Terminal") == "true":
        raise _make_unusable_error(app, "it runs in a terminal")
    return Application(app, entry.get("Name", app), _read_exec_arguments(app, entry["Exec"], entry.get("Name", app)))


def _read_exec_arguments(app: str, line: str, name: str) -> tuple[str, ...]:
    """Split an Exec line into arguments, without a shell. Field codes for files and URLs are removed."""
    found: list[str] = []
    line = line.replace("\\\\", "\\")  # undo the escapes of the file format; text in quotes has additional escapes
    for match in _WORD.finditer(line):
        quoted, plain = match.groups()
        if plain is not None and _RESERVED.search(plain):
            raise _make_unusable_error(app, "the command of its desktop entry is not well-formed")
        word = re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain
        if word in ("%f", "%F", "%u", "%U", "%i", "%k", "%d", "%D", "%n", "%N", "%v", "%m"):
            continue
        found.append(re.sub(r"%(.)", lambda code: {"c": name, "%": "%"}.get(code[1], ""), word))
    program = found[0] if found else ""
    path = program if program.startswith("/") else find_program(program)
    if not path or not os.access(path, os.X_OK):
        raise _make_unusable_error(app, f"its program {program!r:.80} is not in {PATH}")
    return (path, *found[1:])


def _make_unusable_error(app: str, why: str) -> ToolError:
    hint = "ask the operator to check its desktop entry"
    return ToolError(f"{app} cannot be opened: {why}", code="application", hint=hint)
