"""The files that a command created, modified or deleted, found by comparing two scans of the workspace."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Hashable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from wasmrt.agent.builtin.shell._executed import executed_by, may_be_code
from wasmrt.agent.builtin.shell._scan import MAX_FILES, Scan, Stamp
from wasmrt.core.limits import MAX_SHELL_SESSIONS
from wasmrt.egress.leaks import LeakDetector
from wasmrt.sandbox.component import printable_line

MAX_SHOWN = 50
"""Maximum number of changed files in the result of a command."""
_MAX_TOLD = 20
_MAX_KEPT = 1_000
_DETECTOR = LeakDetector()
INCOMPLETE = (
    f"wasmrt: changed lists only part of the workspace, because it has more than {MAX_FILES} files,"
    " or a folder that cannot be read"
)


class Deed(StrEnum):
    """A kind of change."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"


class FileChange(NamedTuple):
    """The change of one file, link or folder. The path is relative to the workspace."""

    path: str
    deed: Deed
    executed_by: str = ""
    """The kind of program that executes the file; empty if none is known."""

    @property
    def shown_path(self) -> str:
        """The path as a single line of valid text."""
        return shown_path(self.path)

    def as_dict(self) -> dict[str, Any]:
        """Return the change as JSON data."""
        shown = {"path": self.shown_path, "change": str(self.deed)}
        return shown | ({"executed_by": self.executed_by} if self.executed_by else {})


def shown_path(path: str) -> str:
    """Return a path, which a command chose, as a single line of valid text without secrets."""
    return _DETECTOR.redact(printable_line(os.fsencode(path).decode("utf-8", "replace")))


def compare(before: Scan, after: Scan) -> list[FileChange]:
    """Return every change between two scans, as far as both list the files' folders."""
    old, new = before.stamps, after.stamps
    found = []
    gone: set[str] = set()
    for path, stamp in old.items():  # a folder comes before its content
        now, folder = new.get(path), path.rpartition("/")[0]
        if now is None and (folder in after.listed or folder in gone or not _is_folder(new, folder)):
            gone.add(path)
            found.append(FileChange(path, Deed.DELETED, executed_by(path, None)))
        elif now is not None and now != stamp:
            found.append(FileChange(path, Deed.MODIFIED, executed_by(path, now)))
    for path, stamp in new.items():
        folder = path.rpartition("/")[0]
        if path not in old and (folder in before.listed or not _is_folder(old, folder)):
            found.append(FileChange(path, Deed.CREATED, executed_by(path, stamp)))
    return found


def _is_folder(stamps: Mapping[str, Stamp], path: str) -> bool:
    return not path or (path in stamps and stamps[path].is_folder)


def shown_changes(changes: Collection[FileChange]) -> dict[str, Any]:
    """Return the part of a result that lists changes: executed files first, then those near the root.

    The content of a new or deleted folder is left out, except executed files.
    """
    folders = {each.path for each in changes if each.deed is not Deed.MODIFIED}
    listed = [each for each in changes if each.executed_by or each.path.rpartition("/")[0] not in folders]
    if not listed:
        return {}
    listed.sort(key=lambda each: (not each.executed_by, each.path.count("/"), each.path))
    shown: dict[str, Any] = {"changed": [each.as_dict() for each in listed[:MAX_SHOWN]]}
    return shown | ({"more_changed": len(listed) - MAX_SHOWN} if len(listed) > MAX_SHOWN else {})


class Notices:
    """Stores changed files that programs execute, until a conversation's next approval shows them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Hashable, dict[str, FileChange]] = {}

    def add(self, conversation: Hashable, changes: Collection[FileChange], *, was_shown: bool, ran_code: bool) -> None:
        """Add the changes of a command. If the approval of this command showed the earlier changes, they are dropped.

        If the command ran code of the workspace (`ran_code`), only files that programs execute by themselves are added.
        Builds and tests write many other files, which the approval for their code covers.
        """
        with self._lock:
            kept = {} if was_shown else self._found.pop(conversation, {})
            for each in changes:
                if each.executed_by or (each.deed is not Deed.DELETED and not ran_code and may_be_code(each.path)):
                    kept[each.path] = each
            kept = dict(islice(kept.items(), _MAX_KEPT))
            self._found.pop(conversation, None)
            while len(self._found) >= MAX_SHELL_SESSIONS:
                del self._found[next(iter(self._found))]
            if kept:
                self._found[conversation] = kept

    def written(self, conversation: Hashable) -> tuple[str, ...]:
        """Return the changed files, shown as single lines, that a program could execute."""
        with self._lock:
            kept = list(self._found.get(conversation, {}).values())
        return tuple(sorted(each.shown_path for each in kept if each.deed is not Deed.DELETED))

    def lines(self, conversation: Hashable) -> Iterator[str]:
        """Yield the lines that an approval shows."""
        with self._lock:
            kept = list(self._found.get(conversation, {}).values())
        if kept:
            yield "earlier commands changed files that programs execute, possibly without confinement:"
        for each in sorted(kept)[:_MAX_TOLD]:
            yield f"  {each.deed} {each.shown_path}" + (
                f" (executed by {each.executed_by})" if each.executed_by else ""
            )
        if len(kept) > _MAX_TOLD:
            yield f"  and {len(kept) - _MAX_TOLD} more"
