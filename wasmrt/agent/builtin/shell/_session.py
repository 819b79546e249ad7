"""Sessions: the directory and the variables that are stored between the commands of a conversation."""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from blake3 import blake3

from wasmrt.agent.builtin.shell._paths import FoundPath, resolve_lexically
from wasmrt.core.errors import InvalidParametersError, NotAuthorizedError
from wasmrt.core.files import UnfitFileError, read_file
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import (
    MAX_SHELL_SESSION_BYTES,
    MAX_SHELL_SESSION_REPORT_BYTES,
    MAX_SHELL_SESSION_VARIABLES,
    MAX_SHELL_SESSIONS,
    SHELL_SESSION_AGE_SECONDS,
    SHELL_SESSION_IDLE_SECONDS,
)


class State(NamedTuple):
    """The state of a session between two commands. It is data only."""

    folder: str = ""
    """Relative to the workspace, or absolute; empty for the workspace itself."""
    variables: tuple[tuple[str, str], ...] = ()
    """Names and values, sorted; plain strings only."""
    exported: frozenset[str] = frozenset()
    """Names of the exported variables."""
    written: tuple[str, ...] = ()
    """Files that earlier commands of the conversation changed and that other programs may run; sorted."""

    @property
    def digest(self) -> str:
        """BLAKE3 of the state, in hexadecimal."""
        parts = [self.folder, self.variables, sorted(self.exported)]
        return blake3(json.dumps(parts).encode()).hexdigest()

    def folders(self) -> Iterator[FoundPath]:
        """Yield the folder that relative paths start from, if it is not the workspace."""
        if self.folder not in ("", "."):
            yield resolve_lexically(self.folder)


WORKSPACE = State()


@dataclass(eq=False)
class Session:
    """One session. `busy` is locked while a command runs, so only one command of the session runs at a time."""

    start: State = WORKSPACE
    busy: threading.Lock = field(default_factory=threading.Lock)
    since: float = field(default_factory=time.monotonic)
    used: float = field(default_factory=time.monotonic)


class Sessions:
    """The sessions of one shell tool. Thread-safe. A session has no process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Hashable, Session] = {}

    def of(self, key: Hashable) -> Session:
        """Return the session of a key. If it is missing, too old or was idle for too long, create a new session."""
        now = time.monotonic()
        with self._lock:
            for each in [each for each, session in self._found.items() if _is_over(session, now)]:
                del self._found[each]
            session = self._found.pop(key, None) or Session()
            session.used = now
            while len(self._found) >= MAX_SHELL_SESSIONS:
                del self._found[next(iter(self._found))]  # the least recently used session
            self._found[key] = session
            return session

    def close(self) -> None:
        """Delete all sessions."""
        with self._lock:
            self._found.clear()


def _is_over(session: Session, now: float) -> bool:
    return now - session.used > SHELL_SESSION_IDLE_SECONDS or now - session.since > SHELL_SESSION_AGE_SECONDS


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.+-]+")
_SUBSTITUTIONS = ("$(", "`", "<(", ">(", "${")
_REPORT = """trap '{ set +xveufT; trap - DEBUG ERR RETURN; } 2>/dev/null; {
IFS="
"
builtin printf "%s\\0" "$PWD"
for __wasmrt_name in $(builtin compgen -v); do
    builtin printf "%s\\0%s\\0%s\\0" "$__wasmrt_name" "${!__wasmrt_name@a}" "${!__wasmrt_name}"
done; } >"REPORT" 2>/dev/null' EXIT"""


def build_script(text: str, start: State, report: str) -> str:
    """Return a command line that first restores the state, and writes the new state to the file `report` at its end.

    The report is written by the command's own shell, so its content is untrusted; see `read_report`.
    """
    assert _PLAIN_PATH.fullmatch(report)
    lines = [_REPORT.replace("REPORT", report), *_restore(start)]
    return "\n".join((*lines, text))


def _restore(start: State) -> list[str]:
    """Return commands that restore a state. SECURITY: values are untrusted; each is quoted as a whole."""
    lines = [f"{'export ' if name in start.exported else ''}{name}={quote(value)}" for name, value in start.variables]
    if start.folder:
        lines += [f"cd -- {quote(start.folder)}", "unset OLDPWD"]
    return lines


def read_report(data: bytes, before: State, *, workspace: str, home: str) -> State:
    """Read the state that a command reported. Return `before` if there is no report, for example after `exec`.

    A directory in `home` is not stored, because it is deleted after the command.

    Raises:
        InvalidParametersError: the state exceeds the limits of a session.
    """
    parts = data.split(b"\0")
    if not data or len(parts) % 3 != 2 or parts[-1]:  # truncated or malformed
        return before
    variables, exported = {}, set()
    for name, attributes, value in zip(*(map(_decode_text, parts[at:-1:3]) for at in (1, 2, 3)), strict=True):
        if _is_accepted(name, attributes, value):
            variables[name] = value
            if "x" in attributes:
                exported.add(name)
    start = State(
        _normalize_folder(_decode_text(parts[0]), workspace, home),
        tuple(sorted(variables.items())),
        frozenset(exported),
    )
    written = len("\n".join(_restore(start)).encode("utf-8", "surrogatepass"))
    if written > MAX_SHELL_SESSION_BYTES or len(variables) > MAX_SHELL_SESSION_VARIABLES:
        raise InvalidParametersError(
            f"the session was not changed: it stores up to {MAX_SHELL_SESSION_VARIABLES} variables with"
            f" {MAX_SHELL_SESSION_BYTES // 1024} KiB in total",
            hint="unset variables that are no longer needed, or store the data in a file",
        )
    return start


def _is_accepted(name: str, attributes: str, value: str) -> bool:
    """Return whether a session stores a variable.

    SECURITY: only plain strings are accepted. Arithmetic and prompts would execute a substitution in a value.
    """
    from wasmrt.agent.builtin.shell._lists import is_persistable

    return (
        _NAME.fullmatch(name) is not None
        and attributes in ("", "x")
        and is_persistable(name)
        and "\ufffd" not in value
        and not any(mark in value for mark in _SUBSTITUTIONS)
    )


def _normalize_folder(reported: str, workspace: str, home: str) -> str:
    """Return a directory relative to the workspace, or as an absolute path if it is elsewhere."""
    path = os.path.normpath(reported) if reported.startswith("/") and "\ufffd" not in reported else workspace
    if path in (workspace, home) or path.startswith(f"{home}/") or any(each < " " for each in path):
        return ""
    return path.removeprefix(f"{workspace}/")


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


_POLL_SECONDS = 0.05
_TOO_LARGE = "wasmrt: the session was not changed: the directory and variables of the command are too large"


class BoundSession:
    """A session as used by one call, with the state that the decision was made for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.start = session.start

    @contextmanager
    def alone(self, lifetime: Lifetime) -> Iterator[None]:
        """Lock the session against other commands.

        Raises:
            DeadlineExceededError, CancelledError: the call ended before the other commands.
        """
        while not self._session.busy.acquire(timeout=_POLL_SECONDS):
            if (ended := lifetime.interruption()) is not None:
                raise ended
        try:
            yield
        finally:
            self._session.busy.release()

    def adopt_state(self) -> None:
        """Use the current state of the session."""
        self.start = self._session.start

    def refresh(self, runs: Callable[[State], bool], *, shown: str | None) -> None:
        """Use the current state of the session if another command has changed it.

        Raises:
            NotAuthorizedError: the command was approved with the previous state, or requires approval now.
        """
        now = self._session.start
        if now == self.start:
            return
        # SECURITY: an approval, or a decision that none is required, applies only to the state that was checked.
        if shown is not None or not runs(now):
            raise NotAuthorizedError(
                "another command changed the session's directory or variables before this one ran",
                code="session-changed", hint="retry the call: it is checked again",
            )  # fmt: skip
        self.adopt_state()

    def check_shown(self, start: State, command: str) -> None:
        """Reject an approval that did not show the session's directory and variables.

        Raises:
            NotAuthorizedError: the command uses the session's directory or a variable of the session, which the
                approval did not show.
        """
        if start.folder or any(used_variables(start, command)):
            raise NotAuthorizedError(
                "the approval did not show the session's directory and variables, which the command uses",
                code="session-not-shown", hint="write values and folders into the command line, and set workdir",
            )  # fmt: skip

    def script(self, text: str, report: str, *, moves: bool) -> str:
        """Return a command line that first restores the session's variables, and its directory if `moves` is true."""
        return build_script(text, self.start if moves else self.start._replace(folder=""), report)

    def keep(self, report: Path, *, workspace: str, home: str) -> list[str]:
        """Store the state that a command reported; return messages about problems."""
        self._session.used = time.monotonic()
        try:
            data = read_file(report, max_bytes=MAX_SHELL_SESSION_REPORT_BYTES, follow_link=False)
            self.start = self._session.start = read_report(data, self.start, workspace=workspace, home=home)
        except InvalidParametersError as error:
            return [f"wasmrt: {error.message}; {error.hint}"]
        except (OSError, UnfitFileError):
            return [_TOO_LARGE]
        return []


def used_variables(start: State, command: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of a session that a command line uses."""
    if "${!" in command:  # indirect expansion can use any variable
        return iter(start.variables)
    words = set(re.findall(r"[A-Za-z_]\w*", command))
    return ((name, value) for name, value in start.variables if name in words)


@contextmanager
def create_report() -> Iterator[Path]:
    """Create an empty file in a separate folder that no command may write to."""
    with tempfile.TemporaryDirectory(prefix="wasmrt-session-") as folder:
        report = Path(folder).resolve() / "report"
        report.touch(mode=0o600)
        yield report
