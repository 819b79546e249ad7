"""Scan a workspace: the status of its files, and the folders that git uses as repositories. Links are not followed."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MAX_FILES = 20_000
"""Files and folders whose changes are noticed, those near the root first."""
MAX_GIT_SEARCH = 200_000
"""Files and folders among which repositories of git are searched."""
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
    """The first `MAX_FILES` files and folders, by path."""
    repositories: tuple[str, ...]
    """Folders that git would use as a repository; empty text is the workspace itself."""
    pointers: tuple[str, ...]
    """Files and links named `.git`."""
    is_complete: bool
    """False if the workspace has more than `MAX_FILES` files and folders."""
    unread: tuple[str, ...]
    """Folders that this process cannot read."""


def scan(root: Path) -> Scan:
    """Scan a workspace, beginning with the files near its root. Objects of git are left out."""
    stamps: dict[str, Stamp] = {}
    repositories, pointers, unread = [], [], []
    waiting, seen, base = deque([""]), 0, str(root)
    while waiting and seen < MAX_GIT_SEARCH:
        folder = waiting.popleft()
        prefix = f"{folder}/" if folder else ""
        try:
            entries = list(_entries(f"{base}/{folder}"))
        except OSError:
            unread.append(folder)
            continue
        seen += len(entries)
        if folder.rpartition("/")[2] == _DOT_GIT or _is_repository({entry.name for entry in entries}):
            repositories.append(folder)
        of_objects = folder.endswith("/objects") and folder.removesuffix("/objects") in repositories
        for entry in entries:
            path = prefix + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and not (of_objects and _LOOSE_OBJECTS.fullmatch(entry.name)):
                waiting.append(path)
            if entry.name == _DOT_GIT and not is_folder:
                pointers.append(path)
            if len(stamps) < MAX_FILES:
                with suppress(FileNotFoundError):  # another process deleted it
                    stamps[path] = stamp_of(entry.stat(follow_symlinks=False))
    is_complete = not waiting and seen <= MAX_FILES
    return Scan(stamps, tuple(repositories), tuple(pointers), is_complete, tuple(unread))


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file or folder. A folder's size and times are left out: its content is compared itself."""
    if stat.S_ISDIR(status.st_mode):
        return Stamp(status.st_mode, 0, 0, 0, 0)
    return Stamp(status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _is_repository(names: set[str]) -> bool:
    """Return whether git accepts a folder with these names as a repository, whatever the folder's own name is."""
    return "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names)


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        yield from found
