"""Watches a project's source for changes, by comparing sizes and times at intervals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from wasmrt.authoring.project._project import PROJECT_FILE, Project
from wasmrt.authoring.project._template import load_template
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_PROJECT_FILES, WATCH_SECONDS

# What builds write themselves.
_SKIPPED = frozenset({"build", "target", "node_modules", "__pycache__"})

Wait = Callable[[float], bool]
"""Waits for so many seconds, and returns True to look again."""
_Seen = dict[str, tuple[int, int]]


def changes(project: Project, wait: Wait) -> Iterator[tuple[str, ...]]:
    """Yield the names of the files that changed, each time some did and are at rest again; end when `wait` says so.

    Changes count from the call on, also those that come while the caller is at work.

    Raises:
        ConfigurationError: the folder holds more files than can be watched.
    """
    return _changes(project, wait, _look(project))  # from now on, not from when the first change is asked for


def is_stale(project: Project) -> bool:
    """Return True where a file that is compiled is newer than the component that was built of it.

    Raises:
        ConfigurationError: the folder holds more files than can be watched.
    """
    patterns = ("*.wit", *load_template(project.language).sources)
    try:
        built = project.component.stat().st_mtime_ns
    except OSError:
        return True
    newer = (name.rpartition("/")[2] for name, (changed, _) in _look(project).items() if changed > built)
    return any(fnmatchcase(name, pattern) for name in newer for pattern in patterns)


def _changes(project: Project, wait: Wait, seen: _Seen) -> Iterator[tuple[str, ...]]:
    while wait(WATCH_SECONDS):
        now = _look(project)
        if now == seen:
            continue
        # An editor writes several files, and some twice.
        while wait(WATCH_SECONDS) and (later := _look(project)) != now:
            now = later
        changed = sorted(name for name in seen.keys() | now.keys() if seen.get(name) != now.get(name))
        seen = now
        if changed:
            yield tuple(changed)


def _look(project: Project) -> _Seen:
    seen: _Seen = {}
    root = str(project.folder)
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
        for name in files:
            if name.startswith(".") or (folder == root and name == PROJECT_FILE):  # builds complete it
                continue
            path = os.path.join(folder, name)  # noqa: PTH118 - half the time of a Path, for every file and look
            try:
                about = os.lstat(path)
            except OSError:
                continue
            seen[os.path.relpath(path, root)] = (about.st_mtime_ns, about.st_size)
            if len(seen) > MAX_PROJECT_FILES:
                raise ConfigurationError(
                    f"the folder holds over {MAX_PROJECT_FILES} files",
                    hint="keep a tool's source in a folder of its own",
                )
    return seen
