"""Walk from the root to a name with directory descriptors, so that renames and links cannot cause a race.

Each step opens one name in an open directory without following links. A relative link is read, and its segments are
walked from the link's directory; absolute links, links above the root, and the kernel's magic links end the walk. The
kernel's RESOLVE_BENEATH would do the same, but Python does not support it.
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
    """A path contains a link, and this operation does not follow links."""


class Walk:
    """The open directories from the root to the current directory; `close` closes them."""

    def __init__(self, root: Path) -> None:
        self._open = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._names: list[str] = []
        self._links = 0

    @property
    def here(self) -> int:
        """The descriptor of the current directory."""
        return self._open[-1]

    def path_of(self, name: str | None = None) -> str:
        """Return the real path, relative to the root, of the current directory or of a name in it."""
        return "/".join([*self._names, name] if name else self._names)

    def to(self, path: str) -> str | None:
        """Walk along `path`. If it leads to a directory, enter it and return None, else return the last segment.

        Raises:
            OSError: a segment does not exist, or leads out of the root.
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
        """Enter every folder of a path without `..`, without following links.

        Raises:
            LinkError: a segment is a link.
            OSError: a segment does not exist, or is not a folder.
        """
        for word in path.split("/"):
            if word in ("", "."):
                continue
            if stat.S_ISLNK(os.stat(word, dir_fd=self.here, follow_symlinks=False).st_mode):
                raise LinkError(errno.ELOOP, "a link")
            self._enter(word)

    def up(self) -> None:
        """Return to the parent directory."""
        self._leave()

    def read_statuses(self) -> list[os.stat_result]:
        """Return the status of every directory from the root to the current one."""
        return [os.fstat(handle) for handle in self._open]

    def _enter(self, name: str) -> None:
        if len(self._open) > _MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, "too deep")
        self._open.append(os.open(name, _DIRECTORY, dir_fd=self.here))
        self._names.append(name)

    def _leave(self) -> None:
        if not self._names:
            raise OutsideError(errno.EXDEV, "leads above the root")
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
    """Yield a walk that begins at the root, and close it at the end."""
    walk = Walk(root)
    try:
        yield walk
    finally:
        walk.close()
