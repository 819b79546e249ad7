"""Scan a workspace: the status of its files, and the folders that git uses as repositories. Links are not followed."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MAX_FILES = 20_000
"""Maximum number of scanned files and folders. A folder is scanned completely or not at all, from the root down."""
MAX_GIT_SEARCH = 200_000
"""Maximum number of files and folders that are searched for git repositories."""
_LOOSE_OBJECTS = re.compile(r"[0-9a-f]{2}|pack|info")
_DOT_GIT = ".git"


class Stamp(NamedTuple):
    """The status of a file or folder. A program cannot set `ctime_ns`, so a changed file has another stamp."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def is_folder(self) -> bool:
        """True for a folder."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """True for a regular file."""
        return stat.S_ISREG(self.mode)


class Scan(NamedTuple):
    """The content of a workspace at one time. All paths are relative to it."""

    stamps: dict[str, Stamp]
    """Up to `MAX_FILES` files and folders, by path; nothing in folders named `.git`."""
    listed: frozenset[str]
    """The folders whose content is in `stamps`."""
    repositories: tuple[str, ...]
    """Folders that git would use as a repository; empty text is the workspace itself."""
    pointers: tuple[str, ...]
    """Files and links named `.git`."""
    is_complete: bool
    """False if `stamps` lacks files, because there are too many or a folder cannot be read."""


def scan(root: Path, *, make_readable: bool = False) -> Scan:
    """Scan a workspace, beginning with the files near its root.

    With `make_readable`, folders that this process cannot read get the permission. SECURITY: git needs no permission to
    list a repository, so a command could hide one.
    """
    stamps: dict[str, Stamp] = {}
    repositories: list[str] = []
    pointers: list[str] = []
    listed: set[str] = set()
    waiting, seen, base, is_complete = deque([("", True)]), 0, str(root), True
    while waiting and seen < MAX_GIT_SEARCH:
        folder, is_watched = waiting.popleft()
        prefix = f"{folder}/" if folder else ""
        try:
            entries = _list_entries(f"{base}/{folder}", make_readable=make_readable)
        except OSError:
            is_complete = False
            continue
        seen += len(entries)
        name = folder.rpartition("/")[2]
        if name == _DOT_GIT or _is_repository({entry.name for entry in entries}):
            repositories.append(folder)
        if is_watched and name != _DOT_GIT and len(stamps) + len(entries) <= MAX_FILES:
            listed.add(folder)
            for entry in entries:
                with suppress(FileNotFoundError):  # another process deleted it
                    stamps[prefix + entry.name] = stamp_of(entry.stat(follow_symlinks=False))
        elif is_watched and name != _DOT_GIT:
            is_complete = False
        of_objects = name == "objects" and folder.rpartition("/")[0] in repositories
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not (of_objects and _LOOSE_OBJECTS.fullmatch(entry.name)):
                    waiting.append((prefix + entry.name, folder in listed and entry.name != _DOT_GIT))
            elif entry.name == _DOT_GIT:
                pointers.append(prefix + entry.name)
    return Scan(stamps, frozenset(listed), tuple(repositories), tuple(pointers), is_complete and not waiting)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file or folder. For a folder, size and times are left out: its content has other stamps."""
    if stat.S_ISDIR(status.st_mode):
        return Stamp(status.st_mode, 0, 0, 0, 0)
    return Stamp(status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _is_repository(names: set[str]) -> bool:
    """Return whether git accepts a folder with these names as a repository, whatever the folder's own name is."""
    return "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names)


def _list_entries(folder: str, *, make_readable: bool) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except PermissionError:
        if not make_readable:
            raise
        _make_readable(folder)
        return _list_entries(folder, make_readable=False)


def _make_readable(folder: str) -> None:
    """Make a folder readable for this user, who must own the folder. A link is not followed."""
    handle = os.open(folder, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        os.chmod(f"/proc/self/fd/{handle}", mode | stat.S_IRWXU)  # noqa: PTH101
    finally:
        os.close(handle)
