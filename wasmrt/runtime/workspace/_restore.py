"""Restore paths of a workspace to earlier states. Folders are opened by descriptors, and links are not followed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from blake3 import blake3

from wasmrt.core.errors import UndoError
from wasmrt.core.files import open_file
from wasmrt.runtime.workspace._draft import draft, draft_name, set_owner
from wasmrt.runtime.workspace._journal_file import JournalRecord, add_contents, read_content, read_journal
from wasmrt.runtime.workspace._states import ABSENT, Kind, State, state_at
from wasmrt.runtime.workspace._walk import LinkError, Walk, walking


class Act(StrEnum):
    """Kinds of steps, in the order in which they are carried out."""

    MAKE_FOLDER = "make-folder"
    RESTORE = "restore"
    REMOVE = "remove"
    REMOVE_FOLDER = "remove-folder"


class UndoStep(NamedTuple):
    """A step of an undo: one name to restore."""

    do: Act
    path: str
    to: State
    """The state to restore."""

    def as_dict(self) -> dict[str, Any]:
        """Return the step as JSON data."""
        shown: dict[str, Any] = {"do": str(self.do), "path": self.path}
        if self.do is Act.RESTORE:
            shown |= {"bytes": self.to.size_bytes, "mode": f"{self.to.mode:04o}"}
        return shown


def current_state(root: Path, path: str) -> State:
    """Return the current state of a name in the workspace.

    Raises:
        UndoError: the name cannot be read.
    """
    try:
        with _open_parent(root, path) as (walk, name):
            return state_at(walk.here, name)
    except LinkError:
        return State(Kind.OTHER)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError as error:
        raise UndoError(f"cannot read {path} ({error.strerror})") from error


@contextmanager
def _open_parent(root: Path, path: str) -> Iterator[tuple[Walk, str]]:
    folder, _, name = path.rpartition("/")
    with walking(root) as walk:
        walk.down(folder)
        yield walk, name


class Restorer:
    """Carries out the steps of an undo.

    Every restored file is first written as a draft, because its content may come from a file that another step
    replaces.

    SECURITY: directly before a name is replaced or removed, its state is compared with the state in the plan, so that
    work that was saved since then is not lost.
    """

    def __init__(self, root: Path, journal: Path, record: JournalRecord, current: dict[str, State]) -> None:
        self._root = root
        self._journal = journal
        self._record = record
        self._current = current
        self._places = {state.digest: path for path, state in current.items() if state.kind is Kind.FILE}
        self._moved: list[str] = []
        """Files that will be removed. If the call moved a file there, a hard link can restore the file."""
        self._taken: set[tuple[int, int]] = set()
        """Device and inode of files that must not be linked, because another name refers to them after the undo."""

    def run(self, steps: tuple[UndoStep, ...]) -> None:
        """Carry out every step.

        Raises:
            UndoError: the journal is damaged.
            OSError: a step failed; earlier steps were carried out.
        """
        made, restored, removed, folders = ([step for step in steps if step.do is act] for act in Act)
        self._moved = [step.path for step in removed if self._current[step.path].kind is Kind.FILE]
        going = {step.path for step in steps}
        stay = (path for path, state in self._current.items() if state.kind is Kind.FILE and path not in going)
        self._taken = {self._get_inode(path) for path in stay}
        self._save_replaced_files(made, restored)
        for step in made:
            if self._current[step.path].kind is Kind.FILE:
                self._remove(step.path)
            self._make_folder(step.path, step.to.mode)
        with ExitStack() as drafts:
            drafted = [(step.path, self._write_draft(step, drafts)) for step in restored]
            late = [(path, name) for path, name in drafted if self._current[path].kind is Kind.DIRECTORY]
            self._move_into_place(each for each in drafted if each not in late)
            for step in removed:
                self._remove(step.path)
            for path in sorted([*(step.path for step in folders), *(path for path, _ in late)], reverse=True):
                self._remove(path, folder=True)
            self._move_into_place(late)

    def _move_into_place(self, drafted: Iterable[tuple[str, str]]) -> None:
        for path, name in drafted:
            with _open_parent(self._root, path) as (walk, target):
                self._check_unchanged(path, walk.here, target)
                os.rename(name, target, src_dir_fd=walk.here, dst_dir_fd=walk.here)

    def _remove(self, path: str, *, folder: bool = False) -> None:
        with suppress(FileNotFoundError), _open_parent(self._root, path) as (walk, name):
            if not folder:
                self._check_unchanged(path, walk.here, name)
            (os.rmdir if folder else os.unlink)(name, dir_fd=walk.here)

    def _check_unchanged(self, path: str, folder: int, name: str) -> None:
        """Check that an entry is still in the state in which the undo was planned, or that it is missing.

        Raises:
            UndoError: the name has changed.
        """
        now = state_at(folder, name)
        if now != ABSENT and not now.is_same_as(self._current[path]):
            raise UndoError(
                f"{path} was changed during the undo, which stopped there",
                code="undo-conflict", hint="run the command again: it shows the remaining changes",
            )  # fmt: skip

    def _save_replaced_files(self, made: list[UndoStep], restored: list[UndoStep]) -> None:
        """Save the content of moved files that will be replaced, so that it is not lost if the process is killed."""
        replaced = {step.path for step in (*made, *restored)}
        contents = {}
        for step in restored:
            digest = step.to.digest
            if digest in self._record.contents or digest in contents:
                continue
            path = self._places[digest]
            if path in replaced or self._current[step.path].kind is Kind.DIRECTORY:
                contents[digest] = self._read_file(path)
        if contents:
            add_contents(self._journal, contents.items())
            self._record = read_journal(self._journal)

    def _read_file(self, path: str) -> bytes:
        with (
            _open_parent(self._root, path) as (walk, name),
            open_file(name, folder=walk.here, follow_link=False) as (file, _),
        ):
            return file.read()

    def _make_folder(self, path: str, mode: int | None = None) -> None:
        folder = path.rpartition("/")[0]
        if folder and current_state(self._root, folder).kind is Kind.ABSENT:
            self._make_folder(folder)
        with _open_parent(self._root, path) as (walk, name):
            os.mkdir(name, dir_fd=walk.here)
            if mode is not None:
                walk.down(name)
                os.fchmod(walk.here, mode)

    def _write_draft(self, step: UndoStep, drafts: ExitStack) -> str:
        folder = step.path.rpartition("/")[0]
        if folder and current_state(self._root, folder).kind is Kind.ABSENT:
            self._make_folder(folder)
        walk, _ = drafts.enter_context(_open_parent(self._root, step.path))
        saved = self._record.contents.get(step.to.digest)
        if saved is None:
            moved = self._find_moved_file(step.to)
            if moved is not None:
                return self._draft_link(moved, walk, drafts)
        content = self._read_file(self._places[step.to.digest]) if saved is None else read_content(self._journal, saved)
        if blake3(content).hexdigest() != step.to.digest:
            raise UndoError("the call's undo journal is damaged", code="undo-damaged")
        return drafts.enter_context(draft(walk.here, content, _make_attribute_setter(step.to)))

    def _find_moved_file(self, to: State) -> str | None:
        """Return a file to remove, not used yet, with the state `to`, preferably with the same time, or None."""
        fit = [path for path in self._moved if self._current[path].is_same_as(to)]
        for path in sorted(fit, key=lambda each: self._current[each] != to):
            inode = self._get_inode(path)
            if inode not in self._taken:
                self._taken.add(inode)
                return path
        return None

    def _get_inode(self, path: str) -> tuple[int, int]:
        with _open_parent(self._root, path) as (walk, name):
            status = os.stat(name, dir_fd=walk.here, follow_symlinks=False)
        return status.st_dev, status.st_ino

    def _draft_link(self, path: str, walk: Walk, drafts: ExitStack) -> str:
        """Create a draft that is a hard link to the moved file `path`, and return the draft's name."""
        name = draft_name()
        with _open_parent(self._root, path) as (source, moved):
            os.link(moved, name, src_dir_fd=source.here, dst_dir_fd=walk.here, follow_symlinks=False)
        drafts.callback(_remove_draft, walk.here, name)
        return name


def _remove_draft(folder: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _make_attribute_setter(to: State) -> Callable[[int], None]:
    def finish(handle: int) -> None:
        set_owner(handle, to.uid, to.gid)
        os.fchmod(handle, to.mode)
        os.utime(handle, ns=(to.mtime_ns, to.mtime_ns))

    return finish
