"""Walks from the root to one name by directory descriptors, so that no rename or link can win a race.

Every step opens one name inside a directory that is already open, and follows nothing. A relative link is read and its
words are walked like any others, from where they stand; a link that is absolute, or climbs over the root, ends the
walk, as does one of the kernel's magic links, which has no words to walk. The kernel's own RESOLVE_BENEATH does the
same, but is not reachable from Python.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_LINKS = 16
_MAX_DEPTH = 128
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutsideError(OSError):
    """A link leads out of the root."""


class LinkError(OSError):
    """A name on the way is a link, where none is followed."""


class Walk:
    """Open directories from the root down to one place; close it to close them all."""

    def __init__(self, root: Path) -> None:
        self._open = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._names: list[str] = []
        self._links = 0

    @property
    def here(self) -> int:
        """The descriptor of the directory reached."""
        return self._open[-1]

    def path_of(self, name: str | None = None) -> str:
        """The real path, from the root, of the directory reached or of a name in it."""
        return "/".join([*self._names, name] if name else self._names)

    def to(self, path: str) -> str | None:
        """Walk to the last word of `path`; return it when it is no directory, else enter it and return None.

        Raises:
            OSError: a word is missing, or leads out of the root.
        """
        words = [word for word in reversed(path.split("/")) if word not in ("", ".")]
        while words:
            word = words.pop()
            if word == "..":
                self._leave()
                continue
            mode = os.stat(word, dir_fd=self.here, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                words += self._read_link(word)
            elif stat.S_ISDIR(mode):
                self._enter(word)
            elif words:
                raise NotADirectoryError(errno.ENOTDIR, "not a directory")
            else:
                return word
        return None

    def down(self, path: str) -> None:
        """Enter every folder of a path without `..`, and follow no link.

        Raises:
            LinkError: a word is one.
            OSError: a word is missing, or no folder.
        """
        for word in path.split("/"):
            if word in ("", "."):
                continue
            if stat.S_ISLNK(os.stat(word, dir_fd=self.here, follow_symlinks=False).st_mode):
                raise LinkError(errno.ELOOP, "a link")
            self._enter(word)

    def up(self) -> None:
        """Go back to the folder that was entered before."""
        self._leave()

    def statuses(self) -> list[os.stat_result]:
        """Return the status of every folder from the root down to the one reached."""
        return [os.fstat(handle) for handle in self._open]

    def _enter(self, name: str) -> None:
        if len(self._open) > _MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, "too deep")
        self._open.append(os.open(name, _DIRECTORY, dir_fd=self.here))
        self._names.append(name)

    def _leave(self) -> None:
        if not self._names:
            raise OutsideError(errno.EXDEV, "climbs over the root")
        os.close(self._open.pop())
        self._names.pop()

    def _read_link(self, name: str) -> list[str]:
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, "too many links")
        target = os.readlink(name, dir_fd=self.here)
        if target.startswith("/"):
            raise OutsideError(errno.EXDEV, "absolute link")
        return [word for word in reversed(target.split("/")) if word not in ("", ".")]

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


@contextmanager
def walking(root: Path) -> Iterator[Walk]:
    """Open a walk at the root and close it in any case."""
    walk = Walk(root)
    try:
        yield walk
    finally:
        walk.close()
