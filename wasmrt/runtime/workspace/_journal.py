"""The journal of what calls change in a workspace: the previous content, written down before each change.

A change whose previous content cannot be kept is refused, so that every change that was made can be taken back.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blake3 import blake3

from wasmrt.core.errors import CapabilityDeniedError, UndoError
from wasmrt.core.limits import MAX_UNDO_BYTES, MAX_UNDO_CALL_BYTES, MAX_UNDO_CALLS, MAX_UNDO_FILE_BYTES, MIB
from wasmrt.core.model import Reason
from wasmrt.runtime.workspace._draft import draft_name
from wasmrt.runtime.workspace._journal_file import (
    Change,
    JournalHead,
    JournalRecord,
    append_entry,
    append_head,
    read_head,
    read_journal,
)
from wasmrt.runtime.workspace._refusals import refusal
from wasmrt.runtime.workspace._states import ABSENT, Kind, State, content_at, state_at

_SUFFIX = ".undo"
_ROOM_BYTES = MAX_UNDO_BYTES - MAX_UNDO_CALL_BYTES
"""All that may be there when a call begins."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class CallJournal:
    """The journal of one call. Nothing is on the disk before its first change. Used by one thread.

    A change is made within the context that writes it down. One that fails with an OSError was none: what its names
    hold is kept as before, or anew.
    """

    def __init__(self, journal: UndoJournal, head: JournalHead) -> None:
        self._journal = journal
        self._head = head
        self._handle = -1
        self._bytes = 0
        self._after: dict[str, State] = {}
        self._kept: set[str] = set()
        self._in_place: dict[str, State] = {}
        """Files that were moved: their content is kept nowhere else."""

    @contextmanager
    def change(self, path: str, folder: int, name: str, after: State) -> Iterator[None]:
        """Write down that `path`, a name in an open folder, is about to become `after`.

        Raises:
            CapabilityDeniedError: its content cannot be kept.
            OSError: it cannot be looked at.
        """
        contents: list[tuple[str, bytes]] = []
        before = self._before(path, folder, name, contents)
        with self._written(path, [Change(path, before, after)], contents):
            self._in_place.pop(path, None)
            yield

    @contextmanager
    def move(self, path: str, place: tuple[int, str], to: str, target: tuple[int, str]) -> Iterator[None]:
        """Write down that the file at `path` is about to become the one at `to`; places are open folders and names.

        Raises:
            CapabilityDeniedError: the content of the file that it replaces cannot be kept.
            OSError: they cannot be looked at.
        """
        contents: list[tuple[str, bytes]] = []
        replaced = self._before(to, *target, contents)
        moving = state_at(*place)
        known = path in self._after
        changes = [Change(path, None if known else moving, ABSENT), Change(to, replaced, moving)]
        with self._written(to, changes, contents):
            kept_there = self._in_place.pop(path, None) or (None if known else moving)
            self._in_place.pop(to, None)
            if kept_there is not None:
                self._in_place[to] = kept_there
            yield

    @contextmanager
    def move_directory(self, path: str, to: str) -> Iterator[None]:
        """Write down that a folder that the call has made is about to move, with all that the call has put into it.

        Raises:
            CapabilityDeniedError: the journal cannot be written.
        """
        changes = []
        for known in [each for each in self._after if each == path or each.startswith(f"{path}/")]:
            new, state = to + known[len(path) :], self._after[known]
            changes.append(Change(known, None, ABSENT))
            changes.append(Change(new, None if new in self._after else ABSENT, state))
        with self._written(path, changes, []):
            for change in changes[::2]:
                if change.path in self._in_place:
                    self._in_place[to + change.path[len(path) :]] = self._in_place.pop(change.path)
            yield

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _before(self, path: str, folder: int, name: str, contents: list[tuple[str, bytes]]) -> State | None:
        """Return the state of a name that the journal has not had; add the content that is about to be lost."""
        if path in self._after and path not in self._in_place:
            return None
        state, content = content_at(folder, name, MAX_UNDO_FILE_BYTES)
        if state.kind is Kind.FILE and state.digest not in self._kept:
            if content is None:
                rule = f"the file has more than {MAX_UNDO_FILE_BYTES // MIB} MiB, so that it could not be taken back"
                raise _refused(path, rule)
            contents.append((state.digest, content))
        return None if path in self._after else state

    @contextmanager
    def _written(self, path: str, changes: list[Change], contents: list[tuple[str, bytes]]) -> Iterator[None]:
        known = [(each.path, self._after.get(each.path), self._in_place.get(each.path)) for each in changes]
        self._append(path, changes, contents)
        try:
            yield
        except OSError:
            # SECURITY: a name that only seems to have changed would be taken for one whose content is kept elsewhere.
            for name, after, in_place in known:
                _set(self._after, name, after)
                _set(self._in_place, name, in_place)
            raise

    def _append(self, path: str, changes: list[Change], contents: list[tuple[str, bytes]]) -> None:
        size = sum(len(content) for _, content in contents)
        if self._bytes + size > MAX_UNDO_CALL_BYTES:
            rule = f"the call changes more than {MAX_UNDO_CALL_BYTES // MIB} MiB, so that it could not be taken back"
            raise _refused(path, rule)
        try:
            if self._handle < 0:
                self._handle = self._journal.create(self._head)
            self._bytes += append_entry(self._handle, changes, contents)
        except OSError as error:
            if error.errno in _NO_SPACE:
                rule, hint = "there is no room left for the journal of changes", "free some space"
                raise refusal(Reason.NO_SPACE, rule, path, hint, writing=True) from error
            raise _refused(path, "the journal of changes cannot be written") from error
        self._kept.update(digest for digest, _ in contents)
        self._after.update((change.path, change.after) for change in changes)


def program_of(call_id: str) -> str:
    """Return the id of a program, by that of one of its passes through the interpreter."""
    return call_id.partition(".")[0]


def _set(states: dict[str, State], name: str, state: State | None) -> None:
    if state is None:
        states.pop(name, None)
    else:
        states[name] = state


def _refused(path: str, rule: str) -> CapabilityDeniedError:
    hint = "make the change by hand, or set undo = false in [workspace] of the configuration file"
    return refusal(Reason.NOT_UNDOABLE, rule, path, hint, writing=True)


class UndoJournal:
    """The journals of all users' calls: a private folder with a file for each. Processes and threads may share it.

    The oldest calls of the user who has the most make room for new ones.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of_call(self, *, call_id: str, tool: str, user: str, root: Path, program: str = "") -> CallJournal:
        """Return the journal of a call that begins."""
        return CallJournal(self, JournalHead(call_id, tool, user, str(root), time.time_ns() // 1_000_000, program))

    def create(self, head: JournalHead) -> int:
        """Make the file of a call and return its descriptor.

        Raises:
            OSError: it cannot be made.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = blake3(head.user.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._make_room(owner)
        path = self._folder / f"{time.time_ns():020d}.{owner}-{head.call_id}{_SUFFIX}"
        drafted = self._folder / draft_name()  # a journal with half a head would be none
        handle = os.open(drafted, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            append_head(handle, head)
            drafted.rename(path)
        except BaseException:
            os.close(handle)
            drafted.unlink()
            raise
        return handle

    def call_ids(self) -> list[str]:
        """Return the ids of the calls that can be taken back, the newest first."""
        return [_call_id(name) for name in reversed(self._names())]

    def calls_of(self, call_id: str) -> list[str]:
        """Return the ids of the calls that a program has made and that can be taken back, the newest first.

        `call_id` is that of the program, or of any pass of it; for a call that is no program it is the only one.
        """
        if call_id in self.call_ids():
            return [call_id]
        found, program = [], program_of(call_id)
        for name in reversed(self._names()):
            with suppress(UndoError, OSError):  # what became of that call says its own id
                if program and read_head(self._folder / name).program == program:
                    found.append(_call_id(name))
        return found or [call_id]

    def read(self, call_id: str) -> tuple[Path, JournalRecord]:
        """Return the file of a call and what it says.

        Raises:
            UndoError: there is none, or it cannot be read.
        """
        name = next((each for each in self._names() if _call_id(each) == call_id), None)
        if name is None:
            raise UndoError(
                f"no change of a call {call_id!r:.80} is known",
                code="undo-unknown",
                hint="wasmrt undo --list shows those that can be taken back",
            )
        path = self._folder / name
        try:
            return path, read_journal(path)
        except OSError as error:
            raise UndoError(f"the journal of the call cannot be read ({error.strerror})") from error

    def _names(self) -> list[str]:
        """Return the names of the files, the oldest call's first."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder) as found:
            return sorted(each.name for each in found if each.name.endswith(_SUFFIX))
        return []

    def _make_room(self, owner: str) -> None:
        """Remove the oldest calls of whoever has the most, `owner` first: nobody pushes out who has less."""
        sizes = {name: _size(self._folder, name) for name in self._names()}
        calls = Counter({owner: 1}) + Counter(map(_owner, sizes))
        used: Counter[str] = Counter()
        for name, size in sizes.items():
            used[_owner(name)] += size
        while sizes and ((full := used.total() > _ROOM_BYTES) or calls.total() > MAX_UNDO_CALLS):
            held = used if full else calls
            most = max(map(_owner, sizes), key=lambda each: (held[each], each == owner))
            oldest = next(name for name in sizes if _owner(name) == most)
            used[most] -= sizes.pop(oldest)
            calls[most] -= 1
            (self._folder / oldest).unlink(missing_ok=True)


def _owner(name: str) -> str:
    return name.partition("-")[0].partition(".")[2]


def _call_id(name: str) -> str:
    return name.removesuffix(_SUFFIX).partition("-")[2]


def _size(folder: Path, name: str) -> int:
    with suppress(FileNotFoundError):  # another process has made room
        return os.stat(f"{folder}/{name}").st_size  # noqa: PTH116 - a path for each of a thousand takes twice as long
    return 0
