"""Copies of a workspace's small files, so that a command's changes can be undone.

A copy is kept for later commands. A file is copied again only if its stamp has changed.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from wasmrt.agent.builtin.shell._scan import Scan, Stamp, stamp_of
from wasmrt.core.files import UnfitFileError, open_file
from wasmrt.core.limits import MIB
from wasmrt.runtime.workspace import Walk, walking

MAX_COPIED_FILE_BYTES = MIB
MAX_COPIED_BYTES = 64 * MIB
_MAX_WORKSPACES = 8


class _Copy(NamedTuple):
    stamp: Stamp
    offset: int


class _CopyFile:
    """A temporary file without a name, closed when nothing refers to it any more."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile(prefix="wasmrt-copies-") as file:
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)


class Copies(NamedTuple):
    """The copies of the files of one scan."""

    file: _CopyFile
    places: dict[str, _Copy]

    def content(self, path: str, stamp: Stamp) -> bytes | None:
        """Return the content that a file had, or None if it was not copied."""
        place = self.places.get(path)
        if place is None or place.stamp != stamp:
            return None
        return os.pread(self.file.descriptor, stamp.size, place.offset)


class PriorContents:
    """Copies of the files in the workspaces of one shell tool, in unnamed temporary files. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Path, _Workspace] = {}

    def copy(self, root: Path, found: Scan) -> Copies:
        """Copy the files of a scan that have no copy yet, from the root down, up to `MAX_COPIED_BYTES`."""
        with self._lock:
            workspace = self._found.pop(root, None) or _Workspace()
            self._found[root] = workspace
            while len(self._found) > _MAX_WORKSPACES:
                del self._found[next(iter(self._found))]
        with workspace.lock:
            return workspace.copy(root, found)

    def close(self) -> None:
        """Delete the copies."""
        with self._lock:
            self._found.clear()


class _Workspace:
    """The copies of one workspace. Running commands may read the file, so it only grows until a new file is begun."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._file = _CopyFile()
        self._places: dict[str, _Copy] = {}
        self._end = 0

    def copy(self, root: Path, found: Scan) -> Copies:
        if self._end > 2 * MAX_COPIED_BYTES:
            self._begin()
        places: dict[str, _Copy] = {}
        missing: dict[str, list[tuple[str, Stamp]]] = {}
        left = MAX_COPIED_BYTES
        for path, stamp in found.stamps.items():
            if not stamp.is_file or stamp.size > min(MAX_COPIED_FILE_BYTES, left):
                continue
            left -= stamp.size
            if (place := self._places.get(path)) is not None and place.stamp == stamp:
                places[path] = place
            else:
                folder, _, name = path.rpartition("/")
                missing.setdefault(folder, []).append((name, stamp))
        for folder, names in missing.items():
            with suppress(OSError), walking(root) as walk:
                walk.down(folder)
                for name, stamp in names:
                    with suppress(OSError, UnfitFileError):
                        self._copy_file(walk, f"{folder}/{name}" if folder else name, name, stamp, places)
        self._places = places
        return Copies(self._file, places)

    def _copy_file(self, walk: Walk, path: str, name: str, stamp: Stamp, places: dict[str, _Copy]) -> None:
        with open_file(name, folder=walk.here, follow_link=False) as (file, _):
            content = file.read(stamp.size)
            if stamp_of(os.fstat(file.fileno())) != stamp or len(content) != stamp.size:
                return  # another process changes it
            if os.pwrite(self._file.descriptor, content, self._end) == stamp.size:
                places[path] = _Copy(stamp, self._end)
                self._end += stamp.size
