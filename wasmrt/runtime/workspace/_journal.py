"""Undo journals: they store the content of workspace files before calls change the files.

A change is denied if the previous content cannot be saved, so that every change can be undone.
"""

from __future__ import annotations

import errno
import fcntl
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
from wasmrt.core.setting_commands import set_command
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
from wasmrt.runtime.workspace._refusals import make_refusal
from wasmrt.runtime.workspace._states import ABSENT, Kind, State, read_content, state_at

_SUFFIX = ".undo"
_ROOM_BYTES = MAX_UNDO_BYTES - MAX_UNDO_CALL_BYTES
"""Maximum total size of all journals when a new journal is created."""
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class CallJournal:
    """The journal of one call. Its file is created at the first change. Not thread-safe.

    The caller makes a change inside the context manager that records the change. If the change raises OSError, it
    counts as not made, and the next change of the same files saves their content again.
    """

    def __init__(self, journal: UndoJournal, head: JournalHead) -> None:
        self._journal = journal
        self._head = head
        self._handle = -1
        self._bytes = 0
        self._after: dict[str, State] = {}
        self._kept: set[str] = set()
        self._in_place: dict[str, State] = {}
        """States of files that were moved, so that their content was not saved in the journal."""

    @contextmanager
    def change(self, path: str, folder: int, name: str, after: State) -> Iterator[None]:
        """Record that `path`, a name in an open folder, is about to become `after`.

        Raises:
            CapabilityDeniedError: the previous content cannot be saved.
            OSError: the previous content cannot be read.
        """
        contents: list[tuple[str, bytes]] = []
        before = self._read_before(path, folder, name, contents)
        with self._record(path, [Change(path, before, after)], contents):
            self._in_place.pop(path, None)
            yield

    @contextmanager
    def move(self, path: str, place: tuple[int, str], to: str, target: tuple[int, str]) -> Iterator[None]:
        """Record that the file at `path` is about to be moved to `to`.

        `place` and `target` each consist of an open folder and a name.

        Raises:
            CapabilityDeniedError: the content of the replaced file cannot be saved.
            OSError: one of the files cannot be read.
        """
        contents: list[tuple[str, bytes]] = []
        replaced = self._read_before(to, *target, contents)
        moving = state_at(*place)
        known = path in self._after
        changes = [Change(path, None if known else moving, ABSENT), Change(to, replaced, moving)]
        with self._record(to, changes, contents):
            moved_from = self._in_place.pop(path, None) or (None if known else moving)
            self._in_place.pop(to, None)
            if moved_from is not None:
                self._in_place[to] = moved_from
            yield

    @contextmanager
    def move_directory(self, path: str, to: str) -> Iterator[None]:
        """Record that a folder is about to be moved. The call created the folder and everything in it.

        Raises:
            CapabilityDeniedError: the journal cannot be written.
        """
        changes = []
        for known in [each for each in self._after if each == path or each.startswith(f"{path}/")]:
            new, state = to + known[len(path) :], self._after[known]
            changes.append(Change(known, None, ABSENT))
            changes.append(Change(new, None if new in self._after else ABSENT, state))
        with self._record(path, changes, []):
            for change in changes[::2]:
                if change.path in self._in_place:
                    self._in_place[to + change.path[len(path) :]] = self._in_place.pop(change.path)
            yield

    def close(self) -> None:
        """Close the journal's file."""
        if self._handle >= 0:
            fcntl.flock(self._handle, fcntl.LOCK_UN)  # a forked child may have the same open file
            os.close(self._handle)
            self._handle = -1

    def _read_before(self, path: str, folder: int, name: str, contents: list[tuple[str, bytes]]) -> State | None:
        """Return the state of a name, or None if already recorded. Append content that would be lost to `contents`."""
        if path in self._after and path not in self._in_place:
            return None
        state, content = read_content(folder, name, MAX_UNDO_FILE_BYTES)
        if state.kind is Kind.FILE and state.digest not in self._kept:
            if content is None:
                rule = f"the file exceeds {MAX_UNDO_FILE_BYTES // MIB} MiB, so its change could not be undone"
                raise _not_undoable_error(path, rule)
            contents.append((state.digest, content))
        return None if path in self._after else state

    @contextmanager
    def _record(self, path: str, changes: list[Change], contents: list[tuple[str, bytes]]) -> Iterator[None]:
        known = [(each.path, self._after.get(each.path), self._in_place.get(each.path)) for each in changes]
        self._append(path, changes, contents)
        try:
            yield
        except OSError:
            # SECURITY: if the change failed, the content of the name must be saved again before the next change.
            for name, after, in_place in known:
                _set_state(self._after, name, after)
                _set_state(self._in_place, name, in_place)
            raise

    def _append(self, path: str, changes: list[Change], contents: list[tuple[str, bytes]]) -> None:
        size = sum(len(content) for _, content in contents)
        if self._bytes + size > MAX_UNDO_CALL_BYTES:
            rule = f"the call changes more than {MAX_UNDO_CALL_BYTES // MIB} MiB, so it could not be undone"
            raise _not_undoable_error(path, rule)
        try:
            if self._handle < 0:
                self._handle = self._journal.create(self._head)
            self._bytes += append_entry(self._handle, changes, contents)
        except OSError as error:
            if error.errno in _NO_SPACE:
                rule, hint = "there is no space left for the undo journal", "free some space"
                raise make_refusal(Reason.NO_SPACE, rule, path, hint, writing=True) from error
            raise _not_undoable_error(path, "the undo journal cannot be written") from error
        self._kept.update(digest for digest, _ in contents)
        self._after.update((change.path, change.after) for change in changes)


def program_of(call_id: str) -> str:
    """Return the ID of a program, given the ID of one of its runs."""
    return call_id.partition(".")[0]


def _set_state(states: dict[str, State], name: str, state: State | None) -> None:
    if state is None:
        states.pop(name, None)
    else:
        states[name] = state


def _not_undoable_error(path: str, rule: str) -> CapabilityDeniedError:
    hint = f"make the change by hand, or disable undo: {set_command('workspace.undo', False)}"
    return make_refusal(Reason.NOT_UNDOABLE, rule, path, hint, writing=True)


class UndoJournal:
    """The journals of all users' calls: a private folder with one file per call. Processes and threads may share it.

    If the journals exceed a limit, the oldest journals of the user who has the most are deleted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of_call(self, *, call_id: str, tool: str, user: str, root: Path, program: str = "") -> CallJournal:
        """Return the journal of a new call."""
        return CallJournal(self, JournalHead(call_id, tool, user, str(root), time.time_ns() // 1_000_000, program))

    def create(self, head: JournalHead) -> int:
        """Create the journal file of a call, and return the file's descriptor, which is locked until it is closed.

        Raises:
            OSError: the file cannot be created.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = blake3(head.user.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._delete_oldest(owner)
        path = self._folder / f"{self._make_stamp():020d}.{owner}-{head.call_id}{_SUFFIX}"
        drafted = self._folder / draft_name()  # so that a journal never has an incomplete head
        handle = os.open(drafted, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            append_head(handle, head)
            drafted.rename(path)
        except BaseException:
            os.close(handle)
            drafted.unlink()
            raise
        return handle

    def _make_stamp(self) -> int:
        """Return the time in ns, or a later time if there is a later journal: the clock may have been set back."""
        last = next((int(name[:20]) for name in reversed(self._names()) if name[:20].isdecimal()), 0)
        return max(time.time_ns(), last + 1)

    def call_ids(self) -> list[str]:
        """Return the IDs of the calls that can be undone, newest first."""
        return [_call_id_of(name) for name in reversed(self._names())]

    def calls_of(self, call_id: str) -> list[str]:
        """Return the IDs of a program's calls that can be undone, newest first.

        `call_id` is the ID of the program or of one of its runs; the ID of any other call is returned alone.
        """
        if call_id in self.call_ids():
            return [call_id]
        found, program = [], program_of(call_id)
        for name in reversed(self._names()):
            with suppress(UndoError, OSError):  # the error is reported if that call is undone by its own ID
                if program and read_head(self._folder / name).program == program:
                    found.append(_call_id_of(name))
        return found or [call_id]

    def read(self, call_id: str) -> tuple[Path, JournalRecord]:
        """Return a call's journal file and its content.

        Raises:
            UndoError: the call has no journal, or the journal cannot be read.
        """
        name = next((each for each in self._names() if _call_id_of(each) == call_id), None)
        if name is None:
            raise UndoError(
                f"no recorded changes of call {call_id!r:.80}",
                code="undo-unknown",
                hint="wasmrt undo --list shows the calls that can be undone",
            )
        path = self._folder / name
        try:
            return path, read_journal(path)
        except OSError as error:
            raise UndoError(f"cannot read the call's undo journal ({error.strerror})") from error

    @contextmanager
    def locked(self, call_id: str) -> Iterator[tuple[Path, JournalRecord]]:
        """Yield the result of `read`, and prevent other processes from undoing the call until the context ends.

        Raises:
            UndoError: the call is still running, another process is undoing it, or see `read`.
        """
        path, _ = self.read(call_id)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise UndoError(f"cannot read the call's undo journal ({error.strerror})") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield self.read(call_id)
        except BlockingIOError as error:
            raise UndoError(
                f"call {call_id} is still running, or another process is undoing it",
                code="undo-busy", hint="wait until it has ended, then run the command again",
            ) from error  # fmt: skip
        finally:
            os.close(handle)

    def _names(self) -> list[str]:
        """Return the file names, oldest call first."""
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self._folder) as found:
            return sorted(each.name for each in found if each.name.endswith(_SUFFIX))
        return []

    def _delete_oldest(self, owner: str) -> None:
        """Delete the oldest journals of the user who has the most, preferably of `owner`. Other users keep theirs."""
        sizes = {name: _get_file_size(self._folder, name) for name in self._names()}
        calls = Counter({owner: 1}) + Counter(map(_get_owner, sizes))
        used: Counter[str] = Counter()
        for name, size in sizes.items():
            used[_get_owner(name)] += size
        while sizes and ((full := used.total() > _ROOM_BYTES) or calls.total() > MAX_UNDO_CALLS):
            held = used if full else calls
            most = max(map(_get_owner, sizes), key=lambda each: (held[each], each == owner))
            oldest = next(name for name in sizes if _get_owner(name) == most)
            used[most] -= sizes.pop(oldest)
            calls[most] -= 1
            (self._folder / oldest).unlink(missing_ok=True)


def _get_owner(name: str) -> str:
    return name.partition("-")[0].partition(".")[2]


def _call_id_of(name: str) -> str:
    return name.removesuffix(_SUFFIX).partition("-")[2]


def _get_file_size(folder: Path, name: str) -> int:
    with suppress(FileNotFoundError):  # another process deleted it
        return os.stat(f"{folder}/{name}").st_size  # noqa: PTH116 - a Path object for each file takes twice as long
    return 0
