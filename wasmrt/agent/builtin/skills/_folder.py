"""The files of a skill: a folder read whole, by a walk that follows nothing, within bounds, with one digest of all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from blake3 import blake3

from wasmrt.capabilities import path_problem
from wasmrt.core.errors import PackageError
from wasmrt.core.files import UnfitFileError, opened_file
from wasmrt.core.names import path_key
from wasmrt.runtime.workspace import LinkError, Walk, walking

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 64 * 1024
"""Of SKILL.md, which is given to a model."""
MAX_FILE_BYTES = 512 * 1024
MAX_FOLDER_BYTES = 2 * 1024 * 1024
MAX_FILES = 128
MAX_FOLDERS = 64
MAX_DEPTH = 6
_DOMAIN = b"wasmrt skill v1\0"


@dataclass(frozen=True)
class SkillFiles:
    """The files of a skill as they were read: what was looked at is what is used, whatever happens on the disk."""

    files: Mapping[str, bytes]
    """Content by path, with forward slashes."""

    @cached_property
    def digest(self) -> str:
        """BLAKE3 of all paths and contents, in hexadecimal."""
        hasher = blake3(_DOMAIN)
        for path in sorted(self.files):
            name, content = path.encode(), self.files[path]
            hasher.update(len(name).to_bytes(8, "big") + name + len(content).to_bytes(8, "big") + content)
        return hasher.hexdigest()


def single_file(text: bytes) -> SkillFiles:
    """Return the files of a skill that is a SKILL.md alone.

    Raises:
        PackageError: it is too large.
    """
    files = {SKILL_FILE: text}
    _check_sizes(files)
    return SkillFiles(files)


def read_folder(parent: Path, name: str) -> SkillFiles:
    """Read the folder of a skill. Names that begin with a dot are no part of it.

    Raises:
        FileNotFoundError: there is no such folder.
        PackageError: it holds a link, something that is no file, two names that some systems take for one, or too much.
        OSError: it cannot be read.
    """
    files: dict[str, bytes] = {}
    with walking(parent) as walk:
        try:
            walk.down(name)
        except LinkError:
            raise PackageError(f"the skill {name} is a symbolic link", code="skill-link", hint=_COPY) from None
        except NotADirectoryError:
            raise PackageError(f"the skill {name} is no folder", code="skill-file", hint=_COPY) from None
        _read_into(files, walk, "", [0])
    _check_names(files)
    _check_sizes(files)
    return SkillFiles(files)


_COPY = "put the files themselves into the skill's folder"


def _read_into(files: dict[str, bytes], walk: Walk, at: str, folders: list[int]) -> None:
    folders[0] += 1
    if folders[0] > MAX_FOLDERS or at.count("/") > MAX_DEPTH:
        raise _too_much(f"{MAX_FOLDERS} folders, {MAX_DEPTH} deep")
    for name in _names(walk.here):
        path = f"{at}{name}"
        if path_problem(name) is not None or not name.isprintable():
            raise PackageError(f"the name {name!r:.80} cannot be used", code="skill-name", hint="use plain names")
        mode = os.stat(name, dir_fd=walk.here, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            walk.down(name)
            _read_into(files, walk, f"{path}/", folders)
            walk.up()
        else:
            files[path] = _read(walk.here, name, path, mode)
            _check_sizes(files)


def _names(folder: int) -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                found.append(entry.name)
            if len(found) > MAX_FILES + MAX_FOLDERS:
                raise _too_much(f"{MAX_FILES} files")
    return sorted(found)


def _read(folder: int, name: str, path: str, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        raise PackageError(f"{path} is a symbolic link", code="skill-link", hint=_COPY)
    if not stat.S_ISREG(mode):  # looked at first: to open a device can already do something
        raise PackageError(f"{path} is no regular file", code="skill-file", hint=_COPY)
    try:
        with opened_file(name, folder=folder, follow_link=False) as (file, status):
            if status.st_nlink > 1:
                raise PackageError(f"{path} has several names (hard links)", code="skill-link", hint=_COPY)
            return file.read(MAX_FILE_BYTES + 1)
    except UnfitFileError as error:
        raise PackageError(f"{path} {error.reason}", code="skill-file", hint=_COPY) from None


def _check_sizes(files: Mapping[str, bytes]) -> None:
    if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_FOLDER_BYTES:
        raise _too_much(f"{MAX_FILES} files and {MAX_FOLDER_BYTES:,} bytes")
    for path, content in files.items():
        most = MAX_SKILL_BYTES if path == SKILL_FILE else MAX_FILE_BYTES
        if len(content) > most:
            raise PackageError(f"{path} is over {most:,} bytes", code="skill-too-large", hint="split it")


def _check_names(files: Mapping[str, bytes]) -> None:
    seen: dict[str, str] = {}
    for path in files:
        for part in _parents(path):
            other = seen.setdefault(path_key(part), part)
            if other != part:
                said = f"{other} and {part} are one name to some systems"
                raise PackageError(said, code="skill-name", hint="rename one of them")


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def _too_much(most: str) -> PackageError:
    return PackageError(f"a skill has up to {most}", code="skill-too-large", hint="leave out what it does not need")
