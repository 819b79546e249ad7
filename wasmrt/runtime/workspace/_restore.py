"""Puts names of a workspace back into states that they had, by descriptors, following no link."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from blake3 import blake3

from wasmrt.core.errors import UndoError
from wasmrt.core.files import opened_file
from wasmrt.runtime.workspace._draft import draft, draft_name, give_to
from wasmrt.runtime.workspace._journal_file import JournalRecord, keep_contents, read_journal, read_kept
from wasmrt.runtime.workspace._states import ABSENT, Kind, State, state_at
from wasmrt.runtime.workspace._walk import LinkError, Walk, walking


class Act(StrEnum):
    """Kinds of steps, in the order in which they are done."""

    MAKE_FOLDER = "make-folder"
    RESTORE = "restore"
    REMOVE = "remove"
    REMOVE_FOLDER = "remove-folder"


class UndoStep(NamedTuple):
    """One name that becomes what it was."""

    do: Act
    path: str
    to: State
    """Its state then."""

    def as_dict(self) -> dict[str, Any]:
        """Return the step as JSON data."""
        shown: dict[str, Any] = {"do": str(self.do), "path": self.path}
        if self.do is Act.RESTORE:
            shown |= {"bytes": self.to.size_bytes, "mode": f"{self.to.mode:04o}"}
        return shown


def current_state(root: Path, path: str) -> State:
    """Return the state that a name in the workspace has now.

    Raises:
        UndoError: it cannot be looked at.
    """
    try:
        with _at(root, path) as (walk, name):
            return state_at(walk.here, name)
    except LinkError:
        return State(Kind.OTHER)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError as error:
        raise UndoError(f"{path} cannot be looked at ({error.strerror})") from error


@contextmanager
def _at(root: Path, path: str) -> Iterator[tuple[Walk, str]]:
    folder, _, name = path.rpartition("/")
    with walking(root) as walk:
        walk.down(folder)
        yield walk, name


class Restorer:
    """Takes the steps. Every file is drafted before the first takes its place, since one may be made from another."""

    def __init__(self, root: Path, journal: Path, record: JournalRecord, current: dict[str, State]) -> None:
        self._root = root
        self._journal = journal
        self._record = record
        self._current = current
        self._places = {state.digest: path for path, state in current.items() if state.kind is Kind.FILE}
        self._moved: list[str] = []
        """Names that go: what was moved there can be linked to where it was."""
        self._taken: set[tuple[int, int]] = set()
        """Files, by device and inode, that have a name already which stays."""

    def run(self, steps: tuple[UndoStep, ...]) -> None:
        """Take every step.

        Raises:
            UndoError: the journal is damaged.
            OSError: a step failed; those before it were taken.
        """
        made, restored, removed, folders = ([step for step in steps if step.do is act] for act in Act)
        self._moved = [step.path for step in removed if self._current[step.path].kind is Kind.FILE]
        going = {step.path for step in steps}
        stay = (path for path, state in self._current.items() if state.kind is Kind.FILE and path not in going)
        self._taken = {self._inode(path) for path in stay}
        self._keep_what_is_replaced(made, restored)
        for step in made:
            if self._current[step.path].kind is Kind.FILE:
                self._remove(step.path)
            self._make_folder(step.path, step.to.mode)
        with ExitStack() as drafts:
            drafted = [(step.path, self._draft(step, drafts)) for step in restored]
            late = [(path, name) for path, name in drafted if self._current[path].kind is Kind.DIRECTORY]
            self._name(each for each in drafted if each not in late)
            for step in removed:
                self._remove(step.path)
            for path in sorted([*(step.path for step in folders), *(path for path, _ in late)], reverse=True):
                self._remove(path, folder=True)
            self._name(late)

    def _name(self, drafted: Iterable[tuple[str, str]]) -> None:
        for path, name in drafted:
            with _at(self._root, path) as (walk, target):
                os.rename(name, target, src_dir_fd=walk.here, dst_dir_fd=walk.here)

    def _remove(self, path: str, *, folder: bool = False) -> None:
        with suppress(FileNotFoundError), _at(self._root, path) as (walk, name):
            (os.rmdir if folder else os.unlink)(name, dir_fd=walk.here)

    def _keep_what_is_replaced(self, made: list[UndoStep], restored: list[UndoStep]) -> None:
        """Keep what was moved to a name that will be replaced: after a kill it would be nowhere else."""
        replaced = {step.path for step in (*made, *restored)}
        contents = {}
        for step in restored:
            digest = step.to.digest
            if digest in self._record.kept or digest in contents:
                continue
            path = self._places[digest]
            if path in replaced or self._current[step.path].kind is Kind.DIRECTORY:
                contents[digest] = self._read(path)
        if contents:
            keep_contents(self._journal, contents.items())
            self._record = read_journal(self._journal)

    def _read(self, path: str) -> bytes:
        with (
            _at(self._root, path) as (walk, name),
            opened_file(name, folder=walk.here, follow_link=False) as (file, _),
        ):
            return file.read()

    def _make_folder(self, path: str, mode: int | None = None) -> None:
        folder = path.rpartition("/")[0]
        if folder and current_state(self._root, folder).kind is Kind.ABSENT:
            self._make_folder(folder)
        with _at(self._root, path) as (walk, name):
            os.mkdir(name, dir_fd=walk.here)
            if mode is not None:
                walk.down(name)
                os.fchmod(walk.here, mode)

    def _draft(self, step: UndoStep, drafts: ExitStack) -> str:
        folder = step.path.rpartition("/")[0]
        if folder and current_state(self._root, folder).kind is Kind.ABSENT:
            self._make_folder(folder)
        walk, _ = drafts.enter_context(_at(self._root, step.path))
        kept = self._record.kept.get(step.to.digest)
        if kept is None:
            moved = self._moved_file(step.to)
            if moved is not None:
                return self._linked(moved, walk, drafts)
        content = self._read(self._places[step.to.digest]) if kept is None else read_kept(self._journal, kept)
        if blake3(content).hexdigest() != step.to.digest:
            raise UndoError("the journal of the call is damaged", code="undo-damaged")
        return drafts.enter_context(draft(walk.here, content, _finish(step.to)))

    def _moved_file(self, to: State) -> str | None:
        """Return the name of a file that has the state, goes, and becomes no other name; the one of the same time."""
        fit = [path for path in self._moved if self._current[path].same_as(to)]
        for path in sorted(fit, key=lambda each: self._current[each] != to):
            inode = self._inode(path)
            if inode not in self._taken:
                self._taken.add(inode)
                return path
        return None

    def _inode(self, path: str) -> tuple[int, int]:
        with _at(self._root, path) as (walk, name):
            status = os.stat(name, dir_fd=walk.here, follow_symlinks=False)
        return status.st_dev, status.st_ino

    def _linked(self, path: str, walk: Walk, drafts: ExitStack) -> str:
        """Draft a file that was moved: another name of the one it is now."""
        name = draft_name()
        with _at(self._root, path) as (source, moved):
            os.link(moved, name, src_dir_fd=source.here, dst_dir_fd=walk.here, follow_symlinks=False)
        drafts.callback(_forget, walk.here, name)
        return name


def _forget(folder: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _finish(to: State) -> Callable[[int], None]:
    def finish(handle: int) -> None:
        give_to(handle, to.uid, to.gid)
        os.fchmod(handle, to.mode)
        os.utime(handle, ns=(to.mtime_ns, to.mtime_ns))

    return finish
