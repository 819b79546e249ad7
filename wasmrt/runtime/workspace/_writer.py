"""The workspace as a guest changes it: whole files that take their place in one step, under the granted prefixes.

A file is written under a name that nobody has, in the folder where it belongs, and then renamed: a process that is
killed leaves the old file or the new one. No link is ever followed, neither on the way nor at the end of it.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from wasmrt.capabilities import Capabilities, WorkspaceWriteCapability, plain_path
from wasmrt.core.errors import CapabilityDeniedError, ConfigurationError
from wasmrt.core.model import GrantList, Reason
from wasmrt.core.places import find_places
from wasmrt.runtime.workspace._budget import WriteBudget
from wasmrt.runtime.workspace._draft import draft, give_to
from wasmrt.runtime.workspace._journal import UndoJournal, program_of
from wasmrt.runtime.workspace._refusals import refusal, refused
from wasmrt.runtime.workspace._states import ABSENT, DIRECTORY, State, state_of
from wasmrt.runtime.workspace._walk import LinkError, Walk, walking

_PERMISSIONS = 0o777
_REASONS = {
    errno.ENOSPC: Reason.NO_SPACE,
    errno.EDQUOT: Reason.NO_SPACE,
    errno.EFBIG: Reason.NO_SPACE,
    errno.EEXIST: Reason.ALREADY_EXISTS,
    errno.ENOTEMPTY: Reason.NOT_EMPTY,
    errno.ENOENT: Reason.NOT_FOUND,
    errno.ENOTDIR: Reason.NOT_A_FILE,
    errno.EISDIR: Reason.NOT_A_FILE,
}
_RULES = {
    Reason.NO_SPACE: ("there is no room left for the file", "free some space, or write less"),
    Reason.ALREADY_EXISTS: ("the name is taken", "choose another name"),
    Reason.NOT_EMPTY: ("the folder is not empty", "remove what is in it first"),
    Reason.NOT_A_FILE: ("the path is not a regular file", "write a plain file"),
    Reason.NOT_FOUND: ("there is no such file or folder that can be written", "make the folder above it first"),
}


class WorkspaceWriter:
    """Changes files under the granted prefixes of one root. Holds nothing open between calls; threads may share it.

    Each call has a `WriteBudget` of its own. Every method raises CapabilityDeniedError where the path is unsound, not
    granted, protected, reached by a link, where a bound is reached, or where `journal` cannot keep what would be lost;
    nothing was changed then.

    Raises:
        ConfigurationError: the root is not a directory.
    """

    def __init__(self, root: Path | str, granted: WorkspaceWriteCapability, journal: UndoJournal | None = None) -> None:
        self._root = Path(root).absolute()
        if not self._root.is_dir():
            raise ConfigurationError("the workspace root is not a directory", hint="create it, or name another one")
        self._granted = granted
        self._journal = journal
        self._resolved = self._root.resolve()
        self._kept = [(folder, _folded(folder.resolve())) for folder in find_places()]
        self._capabilities = Capabilities.none().with_workspace_write(granted)

    @property
    def max_file_bytes(self) -> int:
        """The most bytes that a file may have."""
        return self._granted.max_file_bytes

    def new_budget(self, *, call_id: str, tool: str, user: str, within: str = "") -> WriteBudget:
        """Return the budget of a new call, with its journal; `within` is the id of the pass that made the call."""
        if self._journal is None:
            return WriteBudget()
        program = program_of(within)
        journal = self._journal.of_call(call_id=call_id, tool=tool, user=user, root=self._resolved, program=program)
        return WriteBudget(journal)

    def size(self, path: str) -> int | None:
        """Return the size of a file that may be written, in bytes; None where there is none."""
        with self._at(path) as (walk, name, _):
            status = _status(walk, name)
            return None if status is None else _regular(status, path).st_size

    def write(self, path: str, content: bytes, budget: WriteBudget, *, new: bool = False) -> None:
        """Make `path` a file that holds `content`, or leave it as it is; with `new`, nothing may be there yet.

        A file that is there keeps its permissions, less setuid, setgid and sticky.
        """
        with self._at(path) as (walk, name, plain):
            status = _status(walk, name)
            if status is not None:
                _regular(status, path)
                if new:
                    raise FileExistsError(errno.EEXIST, "exists")
            budget.charge(self._granted, plain, len(content))
            finish = None if status is None else partial(_take_after, like=status)
            with draft(walk.here, content, finish) as drafted:
                after = ABSENT  # without a journal nobody asks
                if budget.journal is not None:
                    after = state_of(content, os.stat(drafted, dir_fd=walk.here, follow_symlinks=False))
                with _journalled(budget, walk, name, plain, after):
                    if new:
                        os.link(drafted, name, src_dir_fd=walk.here, dst_dir_fd=walk.here)  # it never replaces
                    else:
                        os.rename(drafted, name, src_dir_fd=walk.here, dst_dir_fd=walk.here)
            if status is None:
                budget.note_made(plain)

    def make_directory(self, path: str, budget: WriteBudget) -> None:
        """Make a directory; the one above it has to be there."""
        with self._at(path) as (walk, name, plain):
            if _status(walk, name) is not None:
                raise FileExistsError(errno.EEXIST, "exists")
            budget.charge_name(self._granted, plain)
            with _journalled(budget, walk, name, plain, DIRECTORY):
                os.mkdir(name, dir_fd=walk.here)
            budget.note_made(plain)

    def remove(self, path: str, budget: WriteBudget, *, directory: bool = False) -> None:
        """Remove a file, or an empty directory."""
        with self._at(path) as (walk, name, plain):
            status = _found(walk, name)
            if directory:
                self._check_directory(walk, name, status, path)
            else:
                _regular(status, path)
            self._check_remove(plain, path, budget)
            budget.charge_name(self._granted, plain)
            if directory:
                _check_empty(walk, name)
            with _journalled(budget, walk, name, plain, ABSENT):
                (os.rmdir if directory else os.unlink)(name, dir_fd=walk.here)
            budget.note_gone(plain)

    def rename(self, path: str, to: str, budget: WriteBudget) -> None:
        """Give a file another name; a directory only where the call has made it, since what is in it moves along.

        A file that is there already is replaced where it might be removed, or where the call has made the one that
        takes its place: then it is no more than written.
        """
        with self._at(path) as (walk, name, _):
            _found(walk, name)  # what is wrong with either path is told of that path
        with self._at(path) as (walk, name, plain), self._at(to) as (target, new_name, new):
            status = _found(walk, name)
            there = _status(target, new_name)
            if plain == new:
                return
            for each in (plain, new):
                budget.charge_name(self._granted, each)
            if stat.S_ISDIR(status.st_mode):
                self._rename_directory(walk, name, plain, target, new_name, new, budget)
                return
            _regular(status, path)
            if there is not None:
                _regular(there, to)
                if not budget.made(plain):
                    self._check_remove(new, to, budget)
            journal = budget.journal
            places = (walk.here, name), (target.here, new_name)
            with nullcontext() if journal is None else journal.move(plain, places[0], new, places[1]):
                if there is None:
                    _move_to_free(*places)
                else:
                    os.rename(name, new_name, src_dir_fd=walk.here, dst_dir_fd=target.here)
            if budget.made(plain) and there is None:
                budget.note_made(new)
            budget.note_gone(plain)

    def _rename_directory(
        self, walk: Walk, name: str, plain: str, target: Walk, new_name: str, new: str, budget: WriteBudget
    ) -> None:
        if new.startswith(f"{plain}/"):
            rule, hint = "a folder cannot be moved into itself", "choose a name outside of it"
            raise refusal(Reason.INVALID_PATH, rule, new, hint, writing=True)
        # SECURITY: a folder that was there may hold what is protected, at any depth.
        if not budget.made(plain):
            rule, hint = "only a folder that the call itself has made can be moved", "move its files one by one"
            raise refusal(Reason.REMOVE_NOT_ALLOWED, rule, plain, hint, writing=True)
        if _status(target, new_name) is not None:
            raise FileExistsError(errno.EEXIST, "exists")
        journal = budget.journal
        with nullcontext() if journal is None else journal.move_directory(plain, new):
            os.rename(name, new_name, src_dir_fd=walk.here, dst_dir_fd=target.here)
        budget.note_moved(plain, new)

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[Walk, str, str]]:
        """Yield a walk to the folder of a path that may be written, its last name, and its plain spelling."""
        decision = self._capabilities.explain_workspace_write(path)
        if not decision.allowed:
            raise refused(decision)
        plain = plain_path(path)
        folder, _, name = plain.rpartition("/")
        if not name:
            raise refusal(Reason.INVALID_PATH, "the path is the workspace itself", path, "name a file", writing=True)
        try:
            with walking(self._root) as walk:
                walk.down(folder)
                self._check_place(walk, plain)
                yield walk, name, plain
        except OSError as error:
            raise _from_os(error, path) from None

    def _check_directory(self, walk: Walk, name: str, status: os.stat_result, path: str) -> None:
        if not stat.S_ISDIR(status.st_mode):
            rule = "the path is not a directory"
            raise refusal(Reason.NOT_A_FILE, rule, path, "remove it as a file", writing=True)
        walk.down(name)
        self._check_place(walk, path)
        walk.up()

    def _check_place(self, walk: Walk, plain: str) -> None:
        # SECURITY: by what the folders are and not only by what they are called here, since a mount is a name too; and
        # by their names, since who makes a folder of wasmrt's first decides what is in it.
        place = _folded(self._resolved / plain)
        here = walk.statuses()
        for folder, kept in self._kept:
            inside = place.is_relative_to(kept)
            with suppress(OSError):
                status = folder.stat()
                inside = inside or any(os.path.samestat(status, each) for each in here)
            if inside:
                rule = "the folder holds what wasmrt itself decides by, which tools never write"
                raise refusal(Reason.PROTECTED_FILE, rule, plain, "write to another folder", writing=True)

    def _check_remove(self, plain: str, path: str, budget: WriteBudget) -> None:
        if not self._granted.remove and not budget.made(plain):
            section = GrantList.WORKSPACE_WRITE.section
            rule = f"{section}.remove is not granted, and the call has not created this file"
            hint = f'add to {section}: "remove": true'
            raise refusal(Reason.REMOVE_NOT_ALLOWED, rule, path, hint, writing=True)


def _folded(path: Path) -> Path:
    return Path(unicodedata.normalize("NFKC", str(path).casefold()))


def _status(walk: Walk, name: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=walk.here, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise LinkError(errno.ELOOP, "a link")
    return status


def _found(walk: Walk, name: str) -> os.stat_result:
    status = _status(walk, name)
    if status is None:
        raise FileNotFoundError(errno.ENOENT, "missing")
    return status


def _regular(status: os.stat_result, path: str) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        rule, hint = _RULES[Reason.NOT_A_FILE]
        raise refusal(Reason.NOT_A_FILE, rule, path, hint, writing=True)
    return status


def _check_empty(walk: Walk, name: str) -> None:
    walk.down(name)
    with os.scandir(walk.here) as entries:
        if next(entries, None) is not None:
            raise OSError(errno.ENOTEMPTY, "not empty")
    walk.up()


def _journalled(budget: WriteBudget, walk: Walk, name: str, plain: str, after: State) -> AbstractContextManager[None]:
    """Return the context in which a name becomes `after`."""
    return nullcontext() if budget.journal is None else budget.journal.change(plain, walk.here, name, after)


def _move_to_free(place: tuple[int, str], target: tuple[int, str]) -> None:
    """Give a file a name that nobody has, or leave it as it is; places are open folders and names."""
    # Unlike a rename, a link fails where somebody else has taken the name meanwhile.
    os.link(place[1], target[1], src_dir_fd=place[0], dst_dir_fd=target[0], follow_symlinks=False)
    try:
        os.unlink(place[1], dir_fd=place[0])
    except OSError:
        with suppress(OSError):
            os.unlink(target[1], dir_fd=target[0])
        raise


def _take_after(handle: int, like: os.stat_result) -> None:
    give_to(handle, like.st_uid, like.st_gid)
    # SECURITY: what a tool writes never runs with another's rights.
    os.fchmod(handle, stat.S_IMODE(like.st_mode) & _PERMISSIONS)


def _from_os(error: OSError, path: str) -> CapabilityDeniedError:
    if isinstance(error, LinkError):
        rule, hint = "the path leads over a symbolic link", "name the file by its own path"
        return refusal(Reason.INVALID_PATH, rule, path, hint, writing=True)
    reason = _REASONS.get(error.errno or 0, Reason.NOT_FOUND)
    rule, hint = _RULES[reason]
    return refusal(reason, rule, path, hint, writing=True)
