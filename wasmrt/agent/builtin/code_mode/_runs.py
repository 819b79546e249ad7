"""Runs of programs that wait for a person: a private file each, from which the same program is continued by replay.

A run is kept from the first call on that needs a person. Each later call is written down before it is made and once it
is answered, so that no process that ends in between has a call made twice. A run belongs to one user, one conversation
and one program text; whoever has it open holds it locked.
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

VERSION = 3
_USER_CHARS = 16
"""Of the name of a file, for its user."""
MAX_FILE_BYTES = 4 * MAX_CODE_RUN_BYTES
_ID = re.compile(r"[0-9a-f]{4,32}-t[0-9a-f]{1,16}\Z")
_ANEW = "change the program, such as by a comment, to start another run"
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Answered(NamedTuple):
    """The answer to one call of a program, as it is written down."""

    asked: str
    """Digest of the tool's name and the params, as the program gave them."""
    text: str | None
    """The result as JSON; None for a failure."""
    kind: str = ""
    code: str = ""
    message: str = ""
    labels: tuple[str, ...] | None = None
    """The tool's own labels of its result."""
    left: tuple[str, str] | None = None
    """The tool, and a digest of what it kept of the conversation after the call, where it keeps something."""


class Run:
    """One run of a program: its circumstances, and the calls that were answered."""

    def __init__(self, store: CodeRuns, path: Path, owner: list[str], call_id: str) -> None:
        self._store = store
        self._path = path
        self._owner = owner
        self._file: int | None = None
        self._bytes = 0
        self._begun: dict[str, Any] | None = None
        self.seed = int.from_bytes(os.urandom(6), "little")  # a number that JSON holds
        self.start_ms = time.time_ns() // 1_000_000
        self.answers: list[Answered] = []
        self._id = call_id
        self._passes = 0
        self._given = 0
        """Answers that this pass is given again, and that no call of its own is behind."""

    @property
    def circumstances(self) -> dict[str, int]:
        """The seed and the time that the interpreter is told: the same each time, so that a program asks the same."""
        return {"seed": self.seed, "start_ms": self.start_ms}

    @property
    def pass_id(self) -> str:
        """The id of this pass as a call: that of the call that the run began with, and the number of the pass."""
        return f"{self._id}.{self._passes}"

    def answer(self, place: int, asked: str) -> Answered | None:
        """Return the answer to the call at a place, counted from 0; None where it was not made yet.

        Raises:
            RunReplayError: another call was made there, or it was cut off while it was under way.
            BudgetExceededError: the run has made as many calls as it may.
        """
        if place >= MAX_CODE_CALLS:
            raise BudgetExceededError(
                f"the program called tools more than {MAX_CODE_CALLS} times", limit=MAX_CODE_CALLS, used=place + 1,
                setting="limits.MAX_CODE_CALLS", hint="have it do less in one run",
            )  # fmt: skip
        if place < len(self.answers):
            known = self.answers[place]
            # SECURITY: a recorded answer is one to this tool with these params at this place, and to nothing else.
            if known.asked != asked:
                raise RunReplayError(f"call {place + 1} of the program is not the one that was made there", hint=_ANEW)
            return known
        begun, self._begun = self._begun, None
        if begun is not None and (begun["asked"] != asked or not begun["reads"]):
            said = f"call {place + 1} of the program was cut off, and nobody knows whether it was done"
            raise RunReplayError(said, code="run-interrupted", hint=f"look first; {_ANEW}")
        return None

    def check_left(self, tool: str, state: str) -> None:
        """Check that what a tool keeps of the conversation is still as the program left it, before it calls it anew.

        SECURITY: calls that are not made again set up what the next one counts on, such as the folder to remove from.

        Raises:
            RunReplayError: it is not.
        """
        if any(each.left is not None and each.left[0] == tool for each in self.answers[self._given :]):
            return  # this pass has called it, and what came of that is the program's own
        given = (each.left for each in reversed(self.answers[: self._given]))
        left = next((each for each in given if each is not None and each[0] == tool), None)
        if left is not None and left[1] != state:
            said = f"the session of {tool} is not as the program left it, and the calls before are not made again"
            raise RunReplayError(said, code="run-session-changed", hint=_ANEW)

    def begin(self, asked: str, *, reads: bool) -> None:
        """Write down that the next call is made now; `reads` says that it may be made again."""
        if self._file is not None:
            self._write({"begun": {"asked": asked, "reads": reads}})

    def waits(self, tool: str) -> None:
        """Write down that the call that was begun has ended, and is to be made again once a person has answered."""
        if self._file is not None:
            self._write({"waits": tool})

    def rewind(self) -> None:
        """Begin another pass: what was sent and got is counted from the beginning, with the answers given again."""
        self._bytes = 0
        self._passes += 1
        if self._file is not None:
            self._write({"pass": self._passes})
        self._given = len(self.answers)

    def charge(self, size: int) -> None:
        """Count bytes of params and answers.

        Raises:
            BudgetExceededError: they are more than a run may have.
        """
        self._bytes += size
        if self._bytes > MAX_CODE_RUN_BYTES:
            raise BudgetExceededError(
                "the program sent to tools and got from them more than a run may", limit=MAX_CODE_RUN_BYTES,
                used=self._bytes, setting="limits.MAX_CODE_RUN_BYTES", hint="have it ask for less",
            )  # fmt: skip

    def add(self, answered: Answered) -> None:
        """Take the answer to the next call."""
        self.answers.append(answered)
        if self._file is not None:
            self._write({"answered": answered._asdict()})

    def keep(self) -> None:
        """Keep the run from now on, so that another call can go on from here.

        Raises:
            RunReplayError: another call runs the same program, or too many runs of this user wait already.
        """
        if self._file is not None:
            return
        head = {"version": VERSION, "owner": self._owner, "seed": self.seed, "start_ms": self.start_ms}
        head |= {"id": self._id, "passes": self._passes}
        lines = [head, *({"answered": each._asdict()} for each in self.answers)]
        try:
            self._store.make_room(self._path)
            made = create_file(self._path, "".join(f"{_encode(line)}\n" for line in lines).encode())
            self._file = locked(self._path) if made else None
        except OSError as error:
            raise unusable(error) from error
        if self._file is None:
            raise _under_way()

    def forget(self) -> None:
        """Remove what was kept: the program has ended."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others have it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def load(self) -> None:
        """Read the run, where one was kept.

        Raises:
            RunReplayError: another call continues it at this moment, or its file is not as it was written.
        """
        try:
            self._file = locked(self._path)
            if self._file is not None:
                self._read(self._file)
        except FileNotFoundError:
            return
        except OSError as error:
            self.close()
            raise unusable(error) from error
        except RunReplayError:
            self.close()
            raise

    def _read(self, file: int) -> None:
        with os.fdopen(file, "rb", closefd=False) as reader:
            data = reader.read(MAX_FILE_BYTES + 1)
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):  # a line that a crash cut off; the next one has a line of its own
            os.ftruncate(file, len(whole))
        try:
            head, *lines = (json.loads(line) for line in whole.splitlines())
            # SECURITY: whose it is stands in it, besides in its name.
            if (head["version"], head["owner"]) != (VERSION, self._owner):
                raise ValueError("another run")
            if not _ID.match(head["id"]):  # it becomes the name of a file
                raise ValueError("no id")
            self._id, self._passes = head["id"], int(head["passes"])
            self.seed, self.start_ms = int(head["seed"]), int(head["start_ms"])
            for line in lines:
                self._take(line)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunReplayError("the run that waits is not as it was written", hint=_ANEW) from error

    def _take(self, line: dict[str, Any]) -> None:
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
            raise unusable(error) from error


class CodeRuns:
    """The runs that wait, in one private folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def opened(self, user: str, trace: str, code: str, call_id: str) -> Iterator[Run]:
        """Open the run of a program: the one that waits, else a new one that begins with this call.

        Raises:
            RunReplayError: another call continues it at this moment, or its file cannot be used.
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

    def make_room(self, path: Path) -> None:
        """Make the folder, and refuse one run more than a user may have: none is forgotten for another.

        Raises:
            RunReplayError: too many wait.
            OSError: the folder cannot be made.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        waiting = sum(1 for each in self._folder.glob(f"{path.name[: _USER_CHARS + 1]}*") if each != path)
        if waiting >= MAX_CODE_RUNS:
            raise RunReplayError(
                f"{MAX_CODE_RUNS} programs of this user wait for a person already, so that this one cannot",
                code="too-many-runs",
                hint="answer them, or drop those that nobody will go on with (wasmrt approvals list, and forget)",
            )  # fmt: skip

    def _forget_expired(self) -> None:
        oldest = time.time() - CODE_RUN_SECONDS
        with suppress(OSError):
            for each in self._folder.iterdir():
                with suppress(OSError):
                    if each.stat(follow_symlinks=False).st_mtime < oldest:
                        each.unlink()


def asked_digest(name: str, params: str) -> str:
    """Return the digest of a call as a program makes it."""
    return blake3(_encode([name, params]).encode()).hexdigest()


def locked(path: Path) -> int | None:
    """Open and lock the file of a run; None where it was removed meanwhile.

    Raises:
        FileNotFoundError: there is none.
        RunReplayError: another call has it open.
        OSError: it cannot be used.
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
        raise _under_way() from None
    except BaseException:
        with suppress(OSError):
            os.close(file)
        raise
    return file


def _under_way() -> RunReplayError:
    return RunReplayError(
        "another call runs the same program at this moment", code="run-under-way", hint="wait until it has ended"
    )


def unusable(error: OSError) -> RunReplayError:
    """Return the failure of a run whose file cannot be used."""
    return RunReplayError(
        f"the run cannot be kept ({error.strerror})", code="run-store",
        hint="check that the data folder that wasmrt doctor names is yours alone and its disk not full",
    )  # fmt: skip
