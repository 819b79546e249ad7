"""Suspended runs of programs, each stored in a private file, from which the same program is continued by replay.

A run is stored from the first call that requires an approval. Each later call is recorded before it is made and after
it returns, so that a call is not repeated if the process ends in between. A run belongs to one user, one conversation
and one program text. A process locks the file while it uses the run.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from blake3 import blake3

from wasmrt.core.errors import BudgetExceededError, RunReplayError
from wasmrt.core.files import create_file, unfit
from wasmrt.core.limits import CODE_RUN_SECONDS, MAX_CODE_CALLS, MAX_CODE_RUN_BYTES, MAX_CODE_RUNS
from wasmrt.core.strict_json import parse_json

VERSION = 3
_USER_CHARS = 16
"""Length of the part of a file name that identifies the user."""
MAX_FILE_BYTES = 4 * MAX_CODE_RUN_BYTES
_ID = re.compile(r"[0-9a-f]{4,32}-t[0-9a-f]{1,16}\Z")
_START_NEW = "change the program, for example by adding a comment, to start a new run"
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Answered(NamedTuple):
    """The recorded answer to one call of a program."""

    asked: str
    """Digest of the tool's name and the params that the program passed."""
    text: str | None
    """The result as JSON; None for a failure."""
    kind: str = ""
    code: str = ""
    message: str = ""
    labels: tuple[str, ...] | None = None
    """The labels that the tool set on its result."""
    left: tuple[str, str] | None = None
    """If the tool has a session: its name, and the digest of the session's state after the call."""


class Run:
    """One run of a program: its seed, its time, and its answered calls."""

    def __init__(self, store: CodeRuns, path: Path, owner: list[str], call_id: str) -> None:
        self._store = store
        self._path = path
        self._owner = owner
        self._file: int | None = None
        self._bytes = 0
        self._begun: dict[str, Any] | None = None
        self.seed = int.from_bytes(os.urandom(6), "little")  # small enough for a JSON number
        self.start_ms = time.time_ns() // 1_000_000
        self.answers: list[Answered] = []
        self._id = call_id
        self._passes = 0
        self._given = 0
        """Number of recorded answers that this pass replays without making a call."""

    @property
    def circumstances(self) -> dict[str, int]:
        """The seed and time for the interpreter, the same in each pass, so that the program makes the same calls."""
        return {"seed": self.seed, "start_ms": self.start_ms}

    @property
    def pass_id(self) -> str:
        """The call ID of this pass: the ID of the run's first call, and the number of the pass."""
        return f"{self._id}.{self._passes}"

    def answer(self, place: int, asked: str) -> Answered | None:
        """Return the recorded answer to the call with index `place`, or None if it has not been made.

        Raises:
            RunReplayError: a different call was recorded, or the call was interrupted.
            BudgetExceededError: the run has reached the maximum number of calls.
        """
        if place >= MAX_CODE_CALLS:
            raise BudgetExceededError(
                f"the program called tools more than {MAX_CODE_CALLS} times", limit=MAX_CODE_CALLS, used=place + 1,
                setting="limits.MAX_CODE_CALLS", hint="split the program into several runs",
            )  # fmt: skip
        if place < len(self.answers):
            known = self.answers[place]
            # SECURITY: a recorded answer is valid only for the same tool, params and index.
            if known.asked != asked:
                raise RunReplayError(f"call {place + 1} of the program differs from the recorded call", hint=_START_NEW)
            return known
        begun, self._begun = self._begun, None
        if begun is not None and (begun["asked"] != asked or not begun["reads"]):
            problem = f"call {place + 1} of the program was interrupted, and it is unknown whether it took effect"
            raise RunReplayError(problem, code="run-interrupted", hint=f"check its effects; then {_START_NEW}")
        return None

    def check_left(self, tool: str, state: str) -> None:
        """Check that a tool's session is as the program left it, before the program's next call to the tool.

        SECURITY: replayed calls are not repeated, but the next call may depend on their state, such as the current
        directory of a shell.

        Raises:
            RunReplayError: the session has changed.
        """
        if any(each.left is not None and each.left[0] == tool for each in self.answers[self._given :]):
            return  # this pass has already called the tool, so the program caused the current state
        given = (each.left for each in reversed(self.answers[: self._given]))
        left = next((each for each in given if each is not None and each[0] == tool), None)
        if left is not None and left[1] != state:
            problem = f"the session of {tool} has changed since the program used it, and its calls are not repeated"
            raise RunReplayError(problem, code="run-session-changed", hint=_START_NEW)

    def begin(self, asked: str, *, reads: bool) -> None:
        """Record that the next call starts; `reads` means that it can be repeated safely."""
        if self._file is not None:
            self._write({"begun": {"asked": asked, "reads": reads}})

    def waits(self, tool: str) -> None:
        """Record that the started call requires an approval and has to be repeated afterwards."""
        if self._file is not None:
            self._write({"waits": tool})

    def rewind(self) -> None:
        """Start a new pass, which replays the recorded answers and counts bytes from zero."""
        self._bytes = 0
        self._passes += 1
        if self._file is not None:
            self._write({"pass": self._passes})
        self._given = len(self.answers)

    def charge(self, size: int) -> None:
        """Count bytes of params and answers.

        Raises:
            BudgetExceededError: the run has exceeded its limit.
        """
        self._bytes += size
        if self._bytes > MAX_CODE_RUN_BYTES:
            raise BudgetExceededError(
                f"the program exchanged more than {MAX_CODE_RUN_BYTES:,} bytes with tools", limit=MAX_CODE_RUN_BYTES,
                used=self._bytes, setting="limits.MAX_CODE_RUN_BYTES", hint="request less data in one run",
            )  # fmt: skip

    def add(self, answered: Answered) -> None:
        """Record the answer to the next call."""
        self.answers.append(answered)
        if self._file is not None:
            self._write({"answered": answered._asdict()})

    def keep(self) -> None:
        """Store the run from now on, so that a later call can continue it.

        Raises:
            RunReplayError: another call runs the same program, or the user has too many suspended runs.
        """
        if self._file is not None:
            return
        head = {"version": VERSION, "owner": self._owner, "seed": self.seed, "start_ms": self.start_ms}
        head |= {"id": self._id, "passes": self._passes}
        lines = [head, *({"answered": each._asdict()} for each in self.answers)]
        try:
            self._store.check_capacity(self._path)
            created = create_file(self._path, "".join(f"{_encode(line)}\n" for line in lines).encode())
            self._file = open_locked(self._path) if created else None
        except OSError as error:
            raise storage_error(error) from error
        if self._file is None:
            raise _active_error()

    def forget(self) -> None:
        """Delete the stored run after the program has ended."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def load(self) -> None:
        """Read the run if it is stored.

        Raises:
            RunReplayError: another call is using it, or its file is invalid.
        """
        try:
            self._file = open_locked(self._path)
            if self._file is not None:
                self._read(self._file)
        except FileNotFoundError:
            return
        except OSError as error:
            self.close()
            raise storage_error(error) from error
        except RunReplayError:
            self.close()
            raise

    def _read(self, file: int) -> None:
        with os.fdopen(file, "rb", closefd=False) as reader:
            data = reader.read(MAX_FILE_BYTES + 1)
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):  # remove an incomplete line left by a crash
            os.ftruncate(file, len(whole))
        try:
            head, *lines = (parse_json(line.decode()) for line in whole.splitlines())
            # SECURITY: check the owner in the content, too, not only in the file name.
            if (head["version"], head["owner"]) != (VERSION, self._owner):
                raise ValueError("different version or owner")
            if not _ID.match(head["id"]):  # it becomes part of a file name
                raise ValueError("invalid ID")
            self._id, self._passes = head["id"], int(head["passes"])
            self.seed, self.start_ms = int(head["seed"]), int(head["start_ms"])
            for line in lines:
                self._apply(line)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunReplayError("the stored run is invalid", hint=_START_NEW) from error

    def _apply(self, line: dict[str, Any]) -> None:
        if "begun" in line:
            self._begun = {"asked": str(line["begun"]["asked"]), "reads": line["begun"]["reads"] is True}
            return
        if "waits" in line:
            self._begun = None
            return
        if "pass" in line:
            self._passes = int(line["pass"])
            return
        fields = line["answered"]
        lists = {name: None if fields[name] is None else tuple(fields[name]) for name in ("labels", "left")}
        self.answers.append(Answered(**(fields | lists)))
        self._begun = None

    def _write(self, line: dict[str, Any]) -> None:
        assert self._file is not None
        try:
            os.lseek(self._file, 0, os.SEEK_END)
            os.write(self._file, f"{_encode(line)}\n".encode())
            os.fsync(self._file)
        except OSError as error:
            raise storage_error(error) from error


class CodeRuns:
    """The suspended runs in a private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def opened(self, user: str, trace: str, code: str, call_id: str) -> Iterator[Run]:
        """Open the suspended run of a program, or start a new run with this call.

        Raises:
            RunReplayError: another call is using it, or its file is invalid.
        """
        owner = [user, trace, blake3(code.encode("utf-8", "surrogatepass")).hexdigest()]
        prefix, rest = (blake3(text.encode()).hexdigest() for text in (user, _encode(owner)))
        name = f"{prefix[:_USER_CHARS]}-{rest[:48]}.jsonl"
        self._forget_expired()
        run = Run(self, self._folder / name, owner, call_id)
        run.load()
        try:
            yield run
        finally:
            run.close()

    def check_capacity(self, path: Path) -> None:
        """Create the folder, and check that the user may have one more suspended run.

        Raises:
            RunReplayError: the user has too many suspended runs. None is removed automatically.
            OSError: the folder cannot be created.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        waiting = sum(1 for each in self._folder.glob(f"{path.name[: _USER_CHARS + 1]}*") if each != path)
        if waiting >= MAX_CODE_RUNS:
            raise RunReplayError(
                f"this user already has {MAX_CODE_RUNS} suspended programs, the maximum", code="too-many-runs",
                hint="answer their requests, or drop programs: wasmrt approvals list, and wasmrt approvals forget",
            )  # fmt: skip

    def _forget_expired(self) -> None:
        oldest = time.time() - CODE_RUN_SECONDS
        with suppress(OSError):
            for each in self._folder.iterdir():
                with suppress(OSError):
                    if each.stat(follow_symlinks=False).st_mtime < oldest:
                        each.unlink()


def call_digest(name: str, params: str) -> str:
    """Return the digest of a tool's name and params."""
    return blake3(_encode([name, params]).encode()).hexdigest()


def open_locked(path: Path) -> int | None:
    """Open and lock the file of a run; return its descriptor, or None if another process has just removed the file.

    Raises:
        FileNotFoundError: the file does not exist.
        RunReplayError: another call has locked it.
        OSError: the file cannot be used.
    """
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if (reason := unfit(status, private=True)) is not None:
            raise OSError(0, f"its file {reason}")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file).st_nlink == 0:
            os.close(file)
            return None
    except BlockingIOError:
        os.close(file)
        raise _active_error() from None
    except BaseException:
        with suppress(OSError):
            os.close(file)
        raise
    return file


def _active_error() -> RunReplayError:
    problem = "another call is running the same program"
    return RunReplayError(problem, code="run-under-way", hint="wait until it has ended")


def storage_error(error: OSError) -> RunReplayError:
    """Create the error for a run whose file cannot be used."""
    return RunReplayError(
        f"cannot store the run ({error.strerror})", code="run-store",
        hint="check the owner, the permissions and the free space of the data folder, which wasmrt doctor shows",
    )  # fmt: skip
