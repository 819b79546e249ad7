"""The stored journals of suspended programs, each in a private file that a process locks while it uses the run."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from wasmrt.core.errors import RunReplayError
from wasmrt.core.files import UnfitFileError, create_file, find_unfitness, open_file
from wasmrt.core.limits import CODE_RUN_SECONDS, MAX_CODE_RUN_BYTES, MAX_CODE_RUNS

USER_CHARS = 16
"""Number of characters of a journal's name that identify the user."""
MAX_JOURNAL_BYTES = 4 * MAX_CODE_RUN_BYTES


class Journal(Protocol):
    """The journal of one run: lines of JSON. Only the process that has opened it can change it."""

    def open(self) -> bytes | None:
        """Lock the run for this process and return its lines, or None if the run is not stored.

        Raises:
            RunReplayError: another call is using the run, or the journal cannot be read.
        """

    def create(self, data: bytes) -> None:
        """Store the first lines of a run, and lock the run for this process.

        Raises:
            RunReplayError: another call runs the same program, or the user has too many suspended runs.
        """

    def append(self, line: bytes) -> None:
        """Store one more line durably.

        Raises:
            RunReplayError: the line cannot be stored, or this process no longer has the lock.
        """

    def remove(self) -> None:
        """Delete the run."""

    def close(self) -> None:
        """Unlock the run for other processes."""


class Journals(Protocol):
    """All journals of an installation."""

    def journal(self, name: str) -> Journal:
        """Return the journal with a name, whether or not it is stored."""

    def forget_expired(self) -> None:
        """Delete the journals that have not changed for a long time."""

    def read_all(self) -> Iterator[tuple[str, bytes | None, int]]:
        """Yield the name of each journal, its lines (None if they cannot be read), and its last change in Unix ms."""

    def drop(self, name: str) -> bool:
        """Delete a journal that no process holds; return whether it existed.

        Raises:
            RunReplayError: the run is active, or cannot be deleted.
        """


class JournalFiles:
    """Journals in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def journal(self, name: str) -> JournalFile:
        """Return the journal with a name, whether or not it is stored."""
        return JournalFile(self._folder / f"{name}.jsonl")

    def forget_expired(self) -> None:
        """Delete the files that have not changed for a long time."""
        oldest = time.time() - CODE_RUN_SECONDS
        with suppress(OSError):
            for each in self._folder.iterdir():
                with suppress(OSError):
                    if each.stat(follow_symlinks=False).st_mtime < oldest:
                        each.unlink()

    def read_all(self) -> Iterator[tuple[str, bytes | None, int]]:
        """Yield the name of each journal, its lines (None if they cannot be read), and its last change in Unix ms."""
        for path in self._folder.glob("*.jsonl"):
            try:
                with open_file(path, follow_link=False, private=True) as (file, status):
                    yield path.stem, file.read(MAX_JOURNAL_BYTES), int(status.st_mtime * 1000)
            except (OSError, UnfitFileError):
                yield path.stem, None, 0

    def drop(self, name: str) -> bool:
        """Delete a journal that no process holds; return whether it existed."""
        journal = self.journal(name)
        existed = journal.lock()
        journal.remove()
        journal.close()
        return existed


class JournalFile:
    """A journal in a private file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def lock(self) -> bool:
        """Open and lock the file; return whether it exists."""
        try:
            self._file = _open_locked(self._path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _storage_error(error) from error
        return self._file is not None

    def open(self) -> bytes | None:
        """Lock the file and return its complete lines, or None if it does not exist."""
        if not self.lock():
            return None
        assert self._file is not None
        with os.fdopen(self._file, "rb", closefd=False) as reader:
            data = reader.read(MAX_JOURNAL_BYTES + 1)
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):  # remove an incomplete line left by a crash
            os.ftruncate(self._file, len(whole))
        return whole

    def create(self, data: bytes) -> None:
        """Create the file with its first lines, and lock it."""
        folder, user = self._path.parent, self._path.name[: USER_CHARS + 1]
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if sum(1 for each in folder.glob(f"{user}*") if each != self._path) >= MAX_CODE_RUNS:
                raise too_many_error()
            if not (create_file(self._path, data) and self.lock()):
                raise active_error()
        except OSError as error:
            raise _storage_error(error) from error

    def append(self, line: bytes) -> None:
        """Append a line, and flush it to the disk."""
        assert self._file is not None
        try:
            os.lseek(self._file, 0, os.SEEK_END)
            os.write(self._file, line)
            os.fsync(self._file)
        except OSError as error:
            raise _storage_error(error) from error

    def remove(self) -> None:
        """Delete the file."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _open_locked(path: Path) -> int | None:
    """Return the descriptor of a locked file, or None if another process has just removed the file."""
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if (reason := find_unfitness(status, private=True)) is not None:
            raise OSError(0, f"its file {reason}")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file).st_nlink == 0:
            os.close(file)
            return None
    except BlockingIOError:
        os.close(file)
        raise active_error() from None
    except BaseException:
        with suppress(OSError):
            os.close(file)
        raise
    return file


def active_error() -> RunReplayError:
    """Return the error for a run that another call is using."""
    problem = "another call is running the same program"
    return RunReplayError(problem, code="run-under-way", hint="wait until it has ended")


def too_many_error() -> RunReplayError:
    """Return the error for a user who has the maximum number of suspended runs. No run is removed automatically."""
    return RunReplayError(
        f"this user already has {MAX_CODE_RUNS} suspended programs, the maximum", code="too-many-runs",
        hint="answer their requests, or drop programs: wasmrt approvals list, and wasmrt approvals forget",
    )  # fmt: skip


def unusable_error(reason: str) -> RunReplayError:
    """Return the error for a journal that cannot be used."""
    return RunReplayError(
        f"cannot store the run ({reason})", code="run-store",
        hint="run wasmrt doctor; for a file, check the owner, the permissions and the free space of the data folder",
    )  # fmt: skip


def _storage_error(error: OSError) -> RunReplayError:
    return unusable_error(str(error.strerror))
