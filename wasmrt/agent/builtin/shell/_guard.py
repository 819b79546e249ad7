"""Undo changes to git's own files that would make a later `git` command of the user run a program.

The kernel cannot protect them in a folder that a command may write, so they are read before the command and compared
when all its processes have ended. Read-only mounts of `config` and `hooks` prevent moving them or `.git`, but not the
creation of `.git/commondir`, which makes git read other settings; Landlock has no rules for names.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from wasmrt.agent.builtin.shell._changes import shown_path
from wasmrt.agent.builtin.shell._git import (
    CONFIG_FILES,
    REBASE_PLAN,
    REDIRECTION,
    included_files,
    is_harmless_plan,
    is_harmless_redirection,
    refused_setting,
    resolve,
)
from wasmrt.agent.builtin.shell._scan import Scan
from wasmrt.core.errors import ToolError, ToolErrorKind
from wasmrt.core.files import UnfitFileError, open_file
from wasmrt.core.limits import MIB
from wasmrt.core.model import Decision, Reason
from wasmrt.core.setting_commands import set_command
from wasmrt.runtime.workspace import LinkError, Walk, draft, walking

_MAX_BYTES = 64 * MIB
_HINT = f"make the change outside the agent, or keep such changes: {set_command('shell.unsafe_write_git', True)}"
_EXECUTE = 0o111


class _File(NamedTuple):
    """A file of git, or a link in place of such a file."""

    content: bytes
    mode: int
    link: str = ""


class _Baseline:
    """The files of git in a workspace before a command, by absolute path."""

    def __init__(
        self, root: Path, repositories: tuple[str, ...], files: dict[str, _File], included: tuple[str, ...]
    ) -> None:
        self.root = root
        self.repositories = repositories
        self.files = files
        self.included = included


_lock = threading.Lock()
_running: list[_Baseline] = []
"""The baselines of the commands that run now."""
_starting: dict[int, list[_Baseline]] = {}
"""For each command that is about to start, the baselines of the commands that ran in the meantime."""


@contextmanager
def guarded_git(root: Path, found: Scan, look: Callable[[], Scan], undone: list[Decision]) -> Iterator[None]:
    """Run a command in the `with` block; afterwards, undo its dangerous changes of git's files.

    `found` is a scan of the workspace, and `look` scans it again. A decision about each undone change is added to
    `undone`.

    Raises:
        ToolError: the files are too large to be restored, or could not be restored.
    """
    baseline = _start(root, found)
    try:
        yield
    finally:
        try:
            _restore(baseline, look(), undone)
        finally:
            with _lock:
                _running.remove(baseline)


def _start(root: Path, found: Scan) -> _Baseline:
    # SECURITY: a command that starts while another one runs must not take the other's changes for the original.
    with _lock:
        others = [*_running]
        _starting[id(others)] = others
    try:
        baseline = _read_baseline(root, found)
        with _lock:
            for other in others:
                _remove_changes_of(other, baseline)
            _running.append(baseline)
            for each in _starting.values():
                each.append(baseline)
        return baseline
    finally:
        with _lock:
            del _starting[id(others)]


def _remove_changes_of(other: _Baseline, baseline: _Baseline) -> None:
    files = baseline.files
    for path in [path for path in files if path.startswith(f"{other.root}/") and path not in other.files]:
        del files[path]
    files.update((path, file) for path, file in other.files.items() if path.startswith(f"{baseline.root}/"))


def _read_baseline(root: Path, found: Scan) -> _Baseline:
    files = _read_files(root, found.repositories, found.pointers)
    included: list[str] = []
    for path, file in files.items():
        if path.rpartition("/")[2] in CONFIG_FILES:
            folder = path.rpartition("/")[0]
            inside = (_resolve(root, folder, each) for each in included_files(file.content))
            included += [each for each in inside if each is not None]
    files |= _read_files(root, (), included)
    if sum(len(file.content) for file in files.values()) > _MAX_BYTES:
        raise ToolError(
            f"the hooks and settings of git in the workspace exceed {_MAX_BYTES // MIB} MiB, so changes that a command"
            " makes to them could not be undone", code="not-guarded", hint=_HINT, kind=ToolErrorKind.SANDBOX,
        )  # fmt: skip
    return _Baseline(
        root, found.repositories, {f"{root}/{path}": file for path, file in files.items()}, tuple(included)
    )


def _resolve(root: Path, folder: str, path: str) -> str | None:
    return resolve("", path.removeprefix(f"{root}/")) if path.startswith(f"{root}/") else resolve(folder, path)


def _read_files(root: Path, repositories: Iterable[str], further: Iterable[str]) -> dict[str, _File]:
    paths = list(further)
    for folder in repositories:
        prefix = f"{folder}/" if folder else ""
        paths += [prefix + name for name in (*CONFIG_FILES, REDIRECTION, REBASE_PLAN, "hooks")]
        with suppress(OSError), _open_parent(root, f"{prefix}hooks/x") as (walk, _), os.scandir(walk.here) as entries:
            paths += [f"{prefix}hooks/{each.name}" for each in entries if not each.name.endswith(".sample")]
    files = {}
    for path in paths:
        if (file := _read(root, path)) is not None:
            files[path] = file
    return files


def _read(root: Path, path: str) -> _File | None:
    """Read a file or a link. Return None for a folder, or if nothing is at the path."""
    try:
        with _open_parent(root, path) as (walk, name):
            status = os.stat(name, dir_fd=walk.here, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                return None
            if stat.S_ISLNK(status.st_mode):
                return _File(b"", 0, os.readlink(name, dir_fd=walk.here))
            with open_file(name, folder=walk.here, follow_link=False) as (file, opened):
                return _File(file.read(_MAX_BYTES + 1), stat.S_IMODE(opened.st_mode))
    except UnfitFileError:
        return _File(b"", 0, "not a file")
    except OSError:
        return None


@contextmanager
def _open_parent(root: Path, path: str) -> Iterator[tuple[Walk, str]]:
    folder, _, name = path.rpartition("/")
    with walking(root) as walk:
        walk.down(folder)
        yield walk, name


def _restore(baseline: _Baseline, found: Scan, undone: list[Decision]) -> None:
    root = baseline.root
    repositories = {*baseline.repositories, *found.repositories}  # a scan of very many files may miss some
    before = {path.removeprefix(f"{root}/"): file for path, file in baseline.files.items()}
    after = _read_files(root, repositories, [*found.pointers, *baseline.included])
    known = {(path.rpartition("/")[2], *file) for path, file in before.items() if not any(included_files(file.content))}
    problems = []
    for path in sorted({*before, *after}, key=lambda path: (path.count("/"), path)):
        old, new = before.get(path), after.get(path)
        if _is_same(old, new) or (new is not None and (path.rpartition("/")[2], *new) in known):
            continue
        why = _find_refusal(path, old, new, str(root), repositories)
        if why is None:
            continue
        try:
            done = _put_back(root, path, old)
        except OSError as error:
            problems.append(f"{path} ({error.strerror})")
        else:
            if done:
                rule = f"the file was {done}, because {why}"
                undone.append(Decision(False, Reason.PROTECTED_FILE, rule, _HINT, "tool.command", shown_path(path)))
    if problems:
        raise ToolError(
            f"the command changed files that make git run programs, which could not be restored: {', '.join(problems)}",
            code="not-restored", hint="check these files before you use git in the workspace",
            kind=ToolErrorKind.SANDBOX,
        )  # fmt: skip


def _is_same(old: _File | None, new: _File | None) -> bool:
    if old is None or new is None:
        return old is new
    return (old.content, old.link, old.mode & _EXECUTE) == (new.content, new.link, new.mode & _EXECUTE)


def _find_refusal(path: str, old: _File | None, new: _File | None, root: str, repositories: set[str]) -> str | None:
    """Return why a change of a file is refused, or None if it is harmless."""
    folder, _, name = path.rpartition("/")
    is_hook = folder.rpartition("/")[2] == "hooks"
    if new is None:
        return "git executes it or reads it as settings" if is_hook or name in CONFIG_FILES else None
    if new.link:
        return "it is a link in the place of a file of git"
    if is_hook:
        return "git executes it"
    if name == "git-rebase-todo":
        return None if is_harmless_plan(new.content) else "it makes git run a program"
    if name in (".git", REDIRECTION):
        if is_harmless_redirection(new.content, folder, root, repositories):
            return None
        return "it leads git to a folder that is not a repository of the workspace"
    return refused_setting(new.content, b"" if old is None else old.content, folder)


def _put_back(root: Path, path: str, old: _File | None) -> str:
    """Restore a file, or remove a new file. Return the action, or an empty string if the folder no longer exists.

    Raises:
        OSError: the file cannot be restored.
    """
    folder, _, name = path.rpartition("/")
    try:
        with walking(root) as walk:
            if folder.rpartition("/")[2] == "hooks":
                walk.down(folder.rpartition("/")[0])
                with suppress(FileExistsError):
                    os.mkdir("hooks", dir_fd=walk.here)
                walk.down("hooks")
            else:
                walk.down(folder)
            os.fchmod(walk.here, stat.S_IMODE(os.fstat(walk.here).st_mode) | stat.S_IRWXU)
            _write_old(walk, name, old)
    except (FileNotFoundError, NotADirectoryError, LinkError):
        return ""
    return "removed" if old is None else "restored"


def _write_old(walk: Walk, name: str, old: _File | None) -> None:
    if old is None:
        os.unlink(name, dir_fd=walk.here)
    elif old.link:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=walk.here)
        os.symlink(old.link, name, dir_fd=walk.here)
    else:
        with draft(walk.here, old.content, lambda handle: os.fchmod(handle, old.mode)) as drafted:
            os.rename(drafted, name, src_dir_fd=walk.here, dst_dir_fd=walk.here)
