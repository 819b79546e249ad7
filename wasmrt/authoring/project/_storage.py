"""The build folders: downloaded toolchains, caches of compilers, and records of builds, in a bounded size.

Every build holds a shared lock. Folders are only removed under the exclusive lock, so never during a build.
"""

from __future__ import annotations

import fcntl
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from wasmrt.authoring.project._template import template_names
from wasmrt.authoring.project._toolchain import ADAPTERS, DONE, toolchains_dir
from wasmrt.core.files import folder_size
from wasmrt.core.places import find_places

_TOOLCHAIN = re.compile(r"(?:pypi|npm)-[0-9a-f]{12}")
_REMOVED = ".removed-"
"""Prefix of the name of a folder that is being removed."""


class BuildFolder(NamedTuple):
    """A folder or record that builds created; the next build that needs it creates it again."""

    path: Path
    size_bytes: int
    used: float
    """Time of the last build that used it, in seconds since 1970."""


@contextmanager
def use_build_folders() -> Iterator[None]:
    """Keep all build folders until the block ends."""
    root = toolchains_dir()
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".in-use").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def build_folders() -> list[BuildFolder]:
    """Return all build folders, the least recently used one first."""
    root = toolchains_dir()
    found = [(path, path / DONE) for path in _list(root) if _TOOLCHAIN.fullmatch(path.name)]
    found += [(path, path) for name in template_names() if (path := root / "cache" / name).is_dir()]
    found += [(adapters, adapters)] if (adapters := root / ADAPTERS).is_dir() else []
    found += [(path, path) for path in _list(find_places().builds) if path.suffix == ".json"]
    folders = []
    for path, marker in found:
        with suppress(OSError):  # removed since
            size = path.stat().st_size if path.is_file() else folder_size(path)
            folders.append(BuildFolder(path, size, (marker if marker.exists() else path).stat().st_mtime))
    return sorted(folders, key=lambda folder: folder.used)


def remove_build_folders(max_bytes: int, *, unused_since: float | None = None) -> list[BuildFolder] | None:
    """Remove the least recently used build folders until at most `max_bytes` remain, and return them.

    Folders that were used after `unused_since` are not removed. If a build is running, nothing is removed, and the
    result is None.

    Raises:
        OSError: the folder of the toolchains cannot be written.
    """
    root = toolchains_dir()
    if not root.is_dir():
        return []
    with (root / ".in-use").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        for path in _list(root):
            if path.name.startswith(_REMOVED):  # left by a killed process
                shutil.rmtree(path, ignore_errors=True)
        folders, removed = build_folders(), []
        excess = sum(folder.size_bytes for folder in folders) - max_bytes
        for folder in folders:
            if excess <= 0 or (unused_since is not None and folder.used >= unused_since):
                break
            if _remove(folder.path, root):
                excess -= folder.size_bytes
                removed.append(folder)
        return removed


def _remove(path: Path, root: Path) -> bool:
    """Remove a folder or file. A folder is renamed first, so that no build finds a part of it."""
    try:
        if path.is_dir():
            path = path.rename(root / f"{_REMOVED}{secrets.token_hex(4)}")
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    except OSError:
        return False
    return True


def _list(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if not path.is_symlink()]
    except OSError:
        return []
