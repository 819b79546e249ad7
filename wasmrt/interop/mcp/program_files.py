"""The files outside the system that a program needs to start."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SYSTEM = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")))
_MODULES = "node_modules"
_MAX_LINKS = 16
_SHEBANG_BYTES = 512


def required_files(program: Path) -> Iterator[Path]:
    """Yield the files outside the system that a program needs: itself, its links, its interpreter."""
    path = program
    for _ in range(_MAX_LINKS):
        if not is_system(path):
            yield _find_home(path)
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
        path = Path(os.path.normpath(path))
    if (interpreter := _read_interpreter(path)) is not None and interpreter != program:
        yield from required_files(interpreter)
    if (base := _find_base(program)) is not None and not is_system(base):
        yield base


def _find_home(path: Path) -> Path:
    """Return the folder that belongs to a program: a virtual environment, or Node packages."""
    if (modules := find_modules_folder(path)) is not None:
        return modules
    prefix = path.parent.parent
    if path.parent.name == "bin":
        if (prefix / "pyvenv.cfg").is_file():
            return prefix
        # A whole installation, but not a user's home directory or a parent of it.
        home = Path.home()
        if (prefix / "lib").is_dir() and not home.is_relative_to(prefix) and prefix != home / ".local":
            return prefix
    return path


def find_modules_folder(path: Path) -> Path | None:
    """Return the outermost `node_modules` folder that contains a path, or None."""
    parts = path.parts
    return Path(*parts[: parts.index(_MODULES) + 1]) if _MODULES in parts else None


def _read_interpreter(script: Path) -> Path | None:
    """Return the interpreter in a script's first line (execve(2)), or None for a binary."""
    try:
        with script.open("rb") as file:
            line = file.readline(_SHEBANG_BYTES)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        found = shutil.which(names[0]) if names else None
        return None if found is None else Path(found)
    return Path(words[0]) if words else None


def _find_base(program: Path) -> Path | None:
    """Return the base installation of a virtual environment, from `home` in its pyvenv.cfg (PEP 405)."""
    with suppress(OSError, UnicodeDecodeError):
        for line in (program.parent.parent / "pyvenv.cfg").read_text().splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "home":
                return Path(value.strip()).parent
    return None


def is_system(path: Path) -> bool:
    """Return whether a path belongs to the system, so that every confined program may read and execute it."""
    return any(path.is_relative_to(folder) for folder in _SYSTEM)
