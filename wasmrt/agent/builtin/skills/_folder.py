"""The files of a skill, read without following links, their digest, and the record of the skill's approval."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from blake3 import blake3

from wasmrt.capabilities import path_problem
from wasmrt.core.errors import IntegrityError, PackageError
from wasmrt.core.files import UnfitFileError, open_file, read_file, replace_file
from wasmrt.core.names import path_key
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.runtime.workspace import LinkError, Walk, walking

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 128 * 1024
"""Maximum size of SKILL.md, which is passed to a model."""
MAX_FILE_BYTES = 512 * 1024
MAX_FOLDER_BYTES = 8 * 1024 * 1024
MAX_FILES = 128
MAX_FOLDERS = 64
MAX_DEPTH = 6
_DOMAIN = b"wasmrt skill v1\0"


@dataclass(frozen=True)
class SkillFiles:
    """The files of a skill, read into memory. The bytes that are checked are therefore the bytes that are used."""

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
    """Return the files of a skill that consists of only a SKILL.md.

    Raises:
        PackageError: the text is too large.
    """
    files = {SKILL_FILE: text}
    _check_sizes(files)
    return SkillFiles(files)


def read_folder(parent: Path, name: str) -> SkillFiles:
    """Read the folder of a skill. Names that begin with a dot are ignored.

    Raises:
        FileNotFoundError: there is no such folder.
        PackageError: the folder contains links, special files, names that differ only in case or Unicode form, or too
            many or too large files.
        OSError: the folder cannot be read.
    """
    files: dict[str, bytes] = {}
    with walking(parent) as walk:
        try:
            walk.down(name)
        except LinkError:
            raise PackageError(f"the skill {name} is a symbolic link", code="skill-link", hint=_COPY) from None
        except NotADirectoryError:
            raise PackageError(f"the skill {name} is not a folder", code="skill-file", hint=_COPY) from None
        _read_into(files, walk, "", [0])
    _check_names(files)
    _check_sizes(files)
    return SkillFiles(files)


_COPY = "copy the files into the skill's folder"


def _read_into(files: dict[str, bytes], walk: Walk, at: str, folders: list[int]) -> None:
    folders[0] += 1
    if folders[0] > MAX_FOLDERS or at.count("/") > MAX_DEPTH:
        raise _too_large_error(f"{MAX_FOLDERS} folders, {MAX_DEPTH} deep")
    for name in _list_names(walk.here):
        path = f"{at}{name}"
        if path_problem(name) is not None or not name.isprintable():
            raise PackageError(f"invalid file name: {name!r:.80}", code="skill-name", hint="use plain names")
        mode = os.stat(name, dir_fd=walk.here, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            walk.down(name)
            _read_into(files, walk, f"{path}/", folders)
            walk.up()
        else:
            files[path] = _read_file(walk.here, name, path, mode)
            _check_sizes(files)


def _list_names(folder: int) -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                found.append(entry.name)
            if len(found) > MAX_FILES + MAX_FOLDERS:
                raise _too_large_error(f"{MAX_FILES} files")
    return sorted(found)


def _read_file(folder: int, name: str, path: str, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        raise PackageError(f"{path} is a symbolic link", code="skill-link", hint=_COPY)
    if not stat.S_ISREG(mode):  # check before opening: opening a device can have effects
        raise PackageError(f"{path} is not a regular file", code="skill-file", hint=_COPY)
    try:
        with open_file(name, folder=folder, follow_link=False) as (file, status):
            if status.st_nlink > 1:
                raise PackageError(f"{path} has more than one hard link", code="skill-link", hint=_COPY)
            return file.read(MAX_FILE_BYTES + 1)
    except UnfitFileError as error:
        raise PackageError(f"{path} {error.reason}", code="skill-file", hint=_COPY) from None


def _check_sizes(files: Mapping[str, bytes]) -> None:
    if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_FOLDER_BYTES:
        raise _too_large_error(f"{MAX_FILES} files and {MAX_FOLDER_BYTES:,} bytes")
    for path, content in files.items():
        most = MAX_SKILL_BYTES if path == SKILL_FILE else MAX_FILE_BYTES
        if len(content) > most:
            raise PackageError(f"{path} is over {most:,} bytes", code="skill-too-large", hint="split the file")


def _check_names(files: Mapping[str, bytes]) -> None:
    seen: dict[str, str] = {}
    for path in files:
        for part in _iter_prefixes(path):
            other = seen.setdefault(path_key(part), part)
            if other != part:
                problem = f"{other} and {part} are the same name on some systems"
                raise PackageError(problem, code="skill-name", hint="rename one of them")


def _iter_prefixes(path: str) -> Iterator[str]:
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def _too_large_error(most: str) -> PackageError:
    hint = "remove files that the skill does not need"
    return PackageError(f"the skill is too large: the maximum is {most}", code="skill-too-large", hint=hint)


_VERSION = 1
_MAX_BYTES = 8192
_MAX_ORIGIN_CHARS = 500


class SkillTrust(StrEnum):
    """Levels of trust in a skill."""

    OWN = "own"
    """A user put the skill into their own folder of skills."""
    TRUSTED = "trusted"
    """The skill was installed, and a user trusted these files."""
    INSTALLED = "installed"
    """A user approved the installation of the skill. The text of the skill is untrusted."""

    @property
    def foreign(self) -> bool:
        """True if the text of the skill is untrusted."""
        return self is SkillTrust.INSTALLED


class SkillRecord(NamedTuple):
    """The approval of an installed skill. A skill is not read if the record is missing or has a different digest."""

    digest: str
    trust: SkillTrust
    origin: str
    """A description of the source of the skill."""
    at_ms: int


def read_record(path: Path) -> SkillRecord | None:
    """Read a record, or return None if the record does not exist.

    Raises:
        IntegrityError: the record is invalid, or other users could have written it.
    """
    hint = f"review the skill and trust it: wasmrt skills trust {path.stem}"
    try:
        # SECURITY: a user who can write the record decides which skills are trusted.
        raw = read_file(path, max_bytes=_MAX_BYTES, follow_link=False, private=True)
        tree = read_json(raw, max_bytes=_MAX_BYTES, max_depth=4, exact=True)
        if tree["schema_version"] != _VERSION:
            raise ValueError("unsupported version")
        trust = SkillTrust(tree["trust"])
        if trust is SkillTrust.OWN:
            raise ValueError("an installed skill cannot have the level own")
        return SkillRecord(str(tree["digest"]), trust, str(tree["origin"]), int(tree["at_ms"]))
    except FileNotFoundError:
        return None
    except UnfitFileError as error:
        raise IntegrityError(f"the record of the skill {path.stem} {error.reason}", hint=hint) from None
    except OSError as error:
        raise IntegrityError(f"the record of the skill {path.stem} cannot be read ({error.strerror})") from error
    except (JsonError, KeyError, TypeError, ValueError) as error:
        raise IntegrityError(f"the record of the skill {path.stem} was not written by wasmrt", hint=hint) from error


def write_record(path: Path, record: SkillRecord) -> None:
    """Write a record atomically.

    Raises:
        OSError: the record cannot be written.
    """
    data = record._asdict() | {"schema_version": _VERSION, "origin": record.origin[:_MAX_ORIGIN_CHARS]}
    replace_file(path, json.dumps(data, ensure_ascii=False).encode() + b"\n")
