"""Change workspace files for a guest, below the granted prefixes; each file is replaced atomically.

A file is written under a temporary name in its folder, then renamed. If the process is killed, either the old or the
new file is left. Links are never followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from wasmrt.capabilities import Capabilities, WorkspaceWriteCapability, plain_path
from wasmrt.core.errors import CapabilityDeniedError, ConfigurationError
from wasmrt.core.model import Reason
from wasmrt.core.normal_form import normalize
from wasmrt.core.places import find_places
from wasmrt.runtime.workspace._budget import WriteBudget
from wasmrt.runtime.workspace._draft import draft, set_owner
from wasmrt.runtime.workspace._journal import UndoJournal, program_of
from wasmrt.runtime.workspace._refusals import convert_denial, make_refusal
from wasmrt.runtime.workspace._states import ABSENT, DIRECTORY, State, make_state
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
    Reason.NO_SPACE: ("there is no space left for the file", "free some space, or write less"),
    Reason.ALREADY_EXISTS: ("the name is taken", "choose another name"),
    Reason.NOT_EMPTY: ("the folder is not empty", "remove the folder's contents first"),
    Reason.NOT_A_FILE: ("the path is not a regular file", "choose a regular file"),
    Reason.NOT_FOUND: ("there is no writable file or folder with this path", "create its parent folder first"),
}


class WorkspaceWriter:
    """Changes files under the granted prefixes of one root. No file stays open between calls; threads may share it.

    Each call needs its own `WriteBudget`. Every method raises CapabilityDeniedError, without a change, if the path is
    invalid, not granted, protected, or contains a link, if a limit is reached, or if `journal` cannot save the content
    that would be lost.

    Raises:
        ConfigurationError: the root is not a directory.
    """

    def __init__(self, root: Path | str, granted: WorkspaceWriteCapability, journal: UndoJournal | None = None) -> None:
        self._root = Path(root).absolute()
        if not self._root.is_dir():
            raise ConfigurationError(
                "the workspace root is not a directory", hint="create the folder, or choose a different one"
            )
        self._granted = granted
        self._journal = journal
        self._resolved = self._root.resolve()
        self._protected = [(folder, _fold_case(folder.resolve())) for folder in find_places()]
        self._capabilities = Capabilities.none().with_workspace_write(granted)

    @property
    def max_file_bytes(self) -> int:
        """Maximum size of a file in bytes."""
        return self._granted.max_file_bytes

    def new_budget(self, *, call_id: str, tool: str, user: str, within: str = "") -> WriteBudget:
        """Return the budget of a new call, with its journal. `within` is the run ID of the calling program."""
        if self._journal is None:
            return WriteBudget()
        program = program_of(within)
        journal = self._journal.of_call(call_id=call_id, tool=tool, user=user, root=self._resolved, program=program)
        return WriteBudget(journal)

    def size(self, path: str) -> int | None:
        """Return the size in bytes of a file that may be written, or None if it does not exist."""
        with self._open_parent(path) as (walk, name, _):
            status = _stat_name(walk, name)
            return None if status is None else _require_regular(status, path).st_size

    def write(self, path: str, content: bytes, budget: WriteBudget, *, new: bool = False) -> None:
        """Write `content` to the file `path` in one atomic step. With `new`, the file must not exist.

        An existing file keeps its permissions, except setuid, setgid and sticky.
        """
        with self._open_parent(path) as (walk, name, plain):
            status = _stat_name(walk, name)
            if status is not None:
                _require_regular(status, path)
                if new:
                    raise FileExistsError(errno.EEXIST, "exists")
            budget.charge(self._granted, plain, len(content))
            finish = None if status is None else partial(_copy_permissions, like=status)
            with draft(walk.here, content, finish) as drafted:
                after = ABSENT  # not used without a journal
                if budget.journal is not None:
                    after = make_state(content, os.stat(drafted, dir_fd=walk.here, follow_symlinks=False))
                with _record_change(budget, walk, name, plain, after):
                    if new:
                        os.link(drafted, name, src_dir_fd=walk.here, dst_dir_fd=walk.here)  # link never replaces a file
                    else:
                        os.rename(drafted, name, src_dir_fd=walk.here, dst_dir_fd=walk.here)
            if status is None:
                budget.record_created(plain)

    def make_directory(self, path: str, budget: WriteBudget) -> None:
        """Create a directory; its parent must exist."""
        with self._open_parent(path) as (walk, name, plain):
            if _stat_name(walk, name) is not None:
                raise FileExistsError(errno.EEXIST, "exists")
            budget.charge_name(self._granted, plain)
            with _record_change(budget, walk, name, plain, DIRECTORY):
                os.mkdir(name, dir_fd=walk.here)
            budget.record_created(plain)

    def remove(self, path: str, budget: WriteBudget, *, directory: bool = False) -> None:
        """Remove a file, or an empty directory."""
        with self._open_parent(path) as (walk, name, plain):
            status = _require_status(walk, name)
            if directory:
                self._check_directory(walk, name, status, path)
            else:
                _require_regular(status, path)
            self._check_remove(plain, path, budget)
            budget.charge_name(self._granted, plain)
            if directory:
                _check_empty(walk, name)
            with _record_change(budget, walk, name, plain, ABSENT):
                (os.rmdir if directory else os.unlink)(name, dir_fd=walk.here)
            budget.record_removed(plain)

    def rename(self, path: str, to: str, budget: WriteBudget) -> None:
        """Rename a file, or a directory that the call created, including the directory's content.

        An existing file at `to` is replaced if the call may remove files, or created the file at `path`: replacing `to`
        is then equivalent to writing it.
        """
        with self._open_parent(path) as (walk, name, _):
            _require_status(walk, name)  # report errors for the path that caused them
        with self._open_parent(path) as (walk, name, plain), self._open_parent(to) as (target, new_name, new):
            status = _require_status(walk, name)
            there = _stat_name(target, new_name)
            if plain == new:
                return
            for each in (plain, new):
                budget.charge_name(self._granted, each)
            if stat.S_ISDIR(status.st_mode):
                self._rename_directory(walk, name, plain, target, new_name, new, budget)
                return
            _require_regular(status, path)
            if there is not None:
                _require_regular(there, to)
                if not budget.has_created(plain):
                    self._check_remove(new, to, budget)
            journal = budget.journal
            places = (walk.here, name), (target.here, new_name)
            with nullcontext() if journal is None else journal.move(plain, places[0], new, places[1]):
                if there is None:
                    _move_to_unused_name(*places)
                else:
                    os.rename(name, new_name, src_dir_fd=walk.here, dst_dir_fd=target.here)
            if budget.has_created(plain) and there is None:
                budget.record_created(new)
            budget.record_removed(plain)

    def _rename_directory(
        self, walk: Walk, name: str, plain: str, target: Walk, new_name: str, new: str, budget: WriteBudget
    ) -> None:
        if new.startswith(f"{plain}/"):
            rule, hint = "a folder cannot be moved into itself", "choose a name outside of the folder"
            raise make_refusal(Reason.INVALID_PATH, rule, new, hint, writing=True)
        # SECURITY: an existing folder may contain protected files at any depth.
        if not budget.has_created(plain):
            rule, hint = "only folders created by this call can be moved", "move the files one by one"
            raise make_refusal(Reason.REMOVE_NOT_ALLOWED, rule, plain, hint, writing=True)
        if _stat_name(target, new_name) is not None:
            raise FileExistsError(errno.EEXIST, "exists")
        journal = budget.journal
        with nullcontext() if journal is None else journal.move_directory(plain, new):
            os.rename(name, new_name, src_dir_fd=walk.here, dst_dir_fd=target.here)
        budget.record_moved(plain, new)

    @contextmanager
    def _open_parent(self, path: str) -> Iterator[tuple[Walk, str, str]]:
        """Yield a walk to the parent folder of a writable path, the last segment, and the normalized path."""
        decision = self._capabilities.explain_workspace_write(path)
        if not decision.allowed:
            raise convert_denial(decision)
        plain = plain_path(path)
        folder, _, name = plain.rpartition("/")
        if not name:
            rule = "the path is the workspace itself"
            raise make_refusal(Reason.INVALID_PATH, rule, path, "use the path of a file in it", writing=True)
        try:
            with walking(self._root) as walk:
                walk.down(folder)
                self._check_place(walk, plain)
                yield walk, name, plain
        except OSError as error:
            raise _convert_os_error(error, path) from None

    def _check_directory(self, walk: Walk, name: str, status: os.stat_result, path: str) -> None:
        if not stat.S_ISDIR(status.st_mode):
            rule = "the path is not a directory"
            raise make_refusal(Reason.NOT_A_FILE, rule, path, "remove it as a file", writing=True)
        walk.down(name)
        self._check_place(walk, path)
        walk.up()

    def _check_place(self, walk: Walk, plain: str) -> None:
        # SECURITY: compare the identities of the folders, because a mount is another name for a folder. Also compare
        # their names, because a tool that creates a missing folder of wasmrt would control its content.
        place = _fold_case(self._resolved / plain)
        here = walk.read_statuses()
        for folder, kept in self._protected:
            inside = place.is_relative_to(kept)
            with suppress(OSError):
                status = folder.stat()
                inside = inside or any(os.path.samestat(status, each) for each in here)
            if inside:
                rule = "the folder contains wasmrt's own settings or data, which tools cannot change"
                raise make_refusal(Reason.PROTECTED_FILE, rule, plain, "write to another folder", writing=True)

    def _check_remove(self, plain: str, path: str, budget: WriteBudget) -> None:
        if not self._granted.remove and not budget.has_created(plain):
            section = WorkspaceWriteCapability.section
            rule = f"{section}.remove is not granted, and the call did not create this file"
            hint = f'add to {section}: "remove": true'
            raise make_refusal(Reason.REMOVE_NOT_ALLOWED, rule, path, hint, writing=True)


def _fold_case(path: Path) -> Path:
    return Path(normalize("NFKC", str(path).casefold()))


def _stat_name(walk: Walk, name: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=walk.here, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise LinkError(errno.ELOOP, "a link")
    return status


def _require_status(walk: Walk, name: str) -> os.stat_result:
    status = _stat_name(walk, name)
    if status is None:
        raise FileNotFoundError(errno.ENOENT, "missing")
    return status


def _require_regular(status: os.stat_result, path: str) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        rule, hint = _RULES[Reason.NOT_A_FILE]
        raise make_refusal(Reason.NOT_A_FILE, rule, path, hint, writing=True)
    return status


def _check_empty(walk: Walk, name: str) -> None:
    walk.down(name)
    with os.scandir(walk.here) as entries:
        if next(entries, None) is not None:
            raise OSError(errno.ENOTEMPTY, "not empty")
    walk.up()


def _record_change(
    budget: WriteBudget, walk: Walk, name: str, plain: str, after: State
) -> AbstractContextManager[None]:
    """Return a context manager that records the change of a name to the state `after`."""
    return nullcontext() if budget.journal is None else budget.journal.change(plain, walk.here, name, after)


def _move_to_unused_name(place: tuple[int, str], target: tuple[int, str]) -> None:
    """Move a file to an unused name; if that fails, the file keeps its name. Places are open folders and names."""
    # Unlike rename, link fails if another process has created the name.
    os.link(place[1], target[1], src_dir_fd=place[0], dst_dir_fd=target[0], follow_symlinks=False)
    try:
        os.unlink(place[1], dir_fd=place[0])
    except OSError:
        with suppress(OSError):
            os.unlink(target[1], dir_fd=target[0])
        raise


def _copy_permissions(handle: int, like: os.stat_result) -> None:
    set_owner(handle, like.st_uid, like.st_gid)
    # SECURITY: files written by a tool must never run with another user's rights.
    os.fchmod(handle, stat.S_IMODE(like.st_mode) & _PERMISSIONS)


def _convert_os_error(error: OSError, path: str) -> CapabilityDeniedError:
    if isinstance(error, LinkError):
        rule, hint = "the path contains a symbolic link", "use a path without links"
        return make_refusal(Reason.INVALID_PATH, rule, path, hint, writing=True)
    reason = _REASONS.get(error.errno or 0, Reason.NOT_FOUND)
    rule, hint = _RULES[reason]
    return make_refusal(reason, rule, path, hint, writing=True)
