"""Watch a workspace while a command runs: list its changes, undo dangerous ones, and record the others for an undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from wasmrt.agent.builtin.shell._changes import INCOMPLETE, FileChange, compare, shown_path
from wasmrt.agent.builtin.shell._guard import guarded_git
from wasmrt.agent.builtin.shell._prior import Copies, PriorContents
from wasmrt.agent.builtin.shell._scan import Scan, scan
from wasmrt.core.model import Decision
from wasmrt.runtime.workspace import Earlier, JournalHead, UndoJournal, record_observed


@dataclass
class Watched:
    """Changes in a workspace while a command ran."""

    undone: list[Decision] = field(default_factory=list)
    """Changes of git's files that were undone."""
    changes: list[FileChange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Sentences about changes that were not noticed, or cannot be undone."""


class Recorder:
    """Records changes in the undo journal, for one shell tool. Thread-safe."""

    def __init__(self, journal: UndoJournal) -> None:
        self._journal = journal
        self._copies = PriorContents()

    def copy(self, root: Path, found: Scan) -> Copies:
        """Copy the files that a command might change."""
        return self._copies.copy(root, found)

    def record(
        self, head: JournalHead, changes: Iterable[FileChange], before: Scan, copies: Copies
    ) -> tuple[set[str], list[str]]:
        """Record changes. Return the paths that did not change after all, and the paths that cannot be undone."""
        earlier = (_record_earlier(change.path, before, copies) for change in changes)
        observed = record_observed(self._journal, head, earlier)
        return set(observed.unchanged), list(observed.lost)

    def close(self) -> None:
        """Delete the copies of files."""
        self._copies.close()


def _record_earlier(path: str, before: Scan, copies: Copies) -> Earlier:
    stamp = before.stamps.get(path)
    if stamp is None:
        return Earlier(path, None)
    content = copies.content(path, stamp) if stamp.is_file else None
    return Earlier(path, stamp.mode, stamp.mtime_ns, content)


@contextmanager
def watched(head: JournalHead, recorder: Recorder | None, *, keep_git: bool) -> Iterator[Watched]:
    """Watch the workspace `head.root` while a command runs in the `with` block. Read the result after the block.

    With `keep_git`, changes of git's hooks and settings are not undone. Changes that other processes make in the
    meantime are also attributed to the command.

    Raises:
        ToolError: dangerous changes cannot be undone.
    """
    root, found, seen = Path(head.root), [scan(Path(head.root))], Watched()

    def look() -> Scan:
        found.append(scan(root, make_readable=True))
        return found[-1]

    copies: Copies | None = None
    try:
        with nullcontext() if keep_git else guarded_git(root, found[0], look, seen.undone):
            copies = None if recorder is None else _copy(recorder, root, found[0], seen.notes)
            yield seen
    finally:
        before, after = found[0], found[1] if len(found) > 1 else look()
        changes = compare(before, after)
        if not (before.is_complete and after.is_complete):
            seen.notes.append(INCOMPLETE)
        if recorder is not None and copies is not None and changes:
            same, lost = recorder.record(head, changes, before, copies)
            changes = [each for each in changes if each.path not in same]
            seen.notes += _describe_lost(lost)
        seen.changes = changes


def _copy(recorder: Recorder, root: Path, found: Scan, notes: list[str]) -> Copies | None:
    try:
        return recorder.copy(root, found)
    except OSError as error:
        notes.append(f"wasmrt: wasmrt undo cannot take back changes, because no copy can be stored ({error.strerror})")
        return None


def _describe_lost(lost: list[str]) -> Iterator[str]:
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        yield f"wasmrt: wasmrt undo cannot take back the change of {shown_path(lost[0])}{more}"
