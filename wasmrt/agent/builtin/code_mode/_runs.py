"""Suspended runs of programs. Each run is stored in a journal; a replay of the journal continues the program.

A run is stored from the first call that requires an approval. Each later call is recorded before it is made and after
it returns, so that a call is not repeated if the process ends in between. A run belongs to one user, one conversation
and one program text. A process holds the journal while it uses the run.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from blake3 import blake3

from wasmrt.agent.builtin.code_mode._journal import USER_CHARS, Journal, JournalFiles, Journals
from wasmrt.agent.builtin.code_mode._table import JournalTable
from wasmrt.core.errors import BudgetExceededError, RunReplayError
from wasmrt.core.limits import MAX_CODE_CALLS, MAX_CODE_RUN_BYTES
from wasmrt.core.strict_json import parse_json

if TYPE_CHECKING:
    from wasmrt.core.postgres import Postgres

VERSION = 3
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
    """The labels that the tool set for the result."""
    left: tuple[str, str] | None = None
    """If the tool has a session, the tool's name and the digest of the session's state after the call."""


class Run:
    """One run of a program: its seed, its time, and its answered calls."""

    def __init__(self, journal: Journal, owner: list[str], call_id: str) -> None:
        self._journal = journal
        self._owner = owner
        self._stored = False
        self._bytes = 0
        self._begun: dict[str, Any] | None = None
        self.seed = int.from_bytes(os.urandom(6), "little")  # small enough for a JSON number
        self.start_ms = time.time_ns() // 1_000_000
        self.answers: list[Answered] = []
        self._id = call_id
        self._passes = 0
        self._given = 0
        """Number of recorded answers with which this pass began."""

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
        """Check, before the program's next call to a tool, that the tool's session is as the program left it.

        SECURITY: recorded calls are not made again, but the next call may depend on the state that they left, such as
        the current directory of a shell.

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
        """Record that the next call starts. If `reads` is true, the call can be repeated safely."""
        if self._stored:
            self._write({"begun": {"asked": asked, "reads": reads}})

    def waits(self, tool: str) -> None:
        """Record that the started call requires an approval and has to be repeated afterwards."""
        if self._stored:
            self._write({"waits": tool})

    def rewind(self) -> None:
        """Start a new pass, which replays the recorded answers and counts bytes from zero."""
        self._bytes = 0
        self._passes += 1
        if self._stored:
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
        if self._stored:
            self._write({"answered": answered._asdict()})

    def keep(self) -> None:
        """Store the run from now on, so that a later call can continue it.

        Raises:
            RunReplayError: another call runs the same program, or the user has too many suspended runs.
        """
        if self._stored:
            return
        head = {"version": VERSION, "owner": self._owner, "seed": self.seed, "start_ms": self.start_ms}
        head |= {"id": self._id, "passes": self._passes}
        lines = [head, *({"answered": each._asdict()} for each in self.answers)]
        self._journal.create("".join(f"{_encode(line)}\n" for line in lines).encode())
        self._stored = True

    def forget(self) -> None:
        """Delete the stored run after the program has ended."""
        if self._stored:
            self._journal.remove()

    def close(self) -> None:
        """Let other processes use the run."""
        self._journal.close()

    def load(self) -> None:
        """Read the run if it is stored.

        Raises:
            RunReplayError: another call is using it, or its journal is invalid.
        """
        data = self._journal.open()
        if data is not None:
            self._stored = True
            self._read(data)

    def _read(self, data: bytes) -> None:
        try:
            head, *lines = (parse_json(line.decode()) for line in data.splitlines())
            # SECURITY: check the owner in the content, too, not only in the journal's name.
            if (head["version"], head["owner"]) != (VERSION, self._owner):
                raise ValueError("different version or owner")
            if not _ID.match(head["id"]):  # the ID becomes part of call IDs
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
        self._journal.append(f"{_encode(line)}\n".encode())


class CodeRuns:
    """The suspended runs in a private folder, or in a database that several hosts share."""

    def __init__(self, place: Path | Postgres) -> None:
        self.journals = open_journals(place)

    @contextmanager
    def opened(self, user: str, trace: str, code: str, call_id: str) -> Iterator[Run]:
        """Open the suspended run of a program, or start a new run with this call.

        Raises:
            RunReplayError: another call is using it, or its journal is invalid.
        """
        owner = [user, trace, blake3(code.encode("utf-8", "surrogatepass")).hexdigest()]
        prefix, rest = (blake3(text.encode()).hexdigest() for text in (user, _encode(owner)))
        self.journals.forget_expired()
        run = Run(self.journals.journal(f"{prefix[:USER_CHARS]}-{rest[:48]}"), owner, call_id)
        try:
            run.load()
            yield run
        finally:
            run.close()


def open_journals(place: Path | Postgres) -> Journals:
    """Return the journals in a folder or a database."""
    return JournalFiles(place) if isinstance(place, Path) else JournalTable(place)


def call_digest(name: str, params: str) -> str:
    """Return the digest of a tool's name and params."""
    return blake3(_encode([name, params]).encode()).hexdigest()
