"""Held: a session as one call has it, from the decision to the end of the command."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wasmrt.agent.builtin.shell._sessions import Session
from wasmrt.agent.builtin.shell._start import Start
from wasmrt.core.errors import InvalidParametersError, NotAuthorizedError
from wasmrt.core.files import UnfitFileError, read_file
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_SHELL_SESSION_REPORT_BYTES

_LOOK_SECONDS = 0.05
_TOO_MUCH = "wasmrt: what the command leaves is too much for a session, which stays as it was"


class Held:
    """A session with the state that the command was decided for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.start = session.start

    @contextmanager
    def alone(self, lifetime: Lifetime) -> Iterator[None]:
        """Keep other commands of the session waiting.

        Raises:
            DeadlineExceededError, CancelledError: the time was over before the others had ended.
        """
        while not self._session.busy.acquire(timeout=_LOOK_SECONDS):
            if (ended := lifetime.interruption()) is not None:
                raise ended
        try:
            yield
        finally:
            self._session.busy.release()

    def take_over(self) -> None:
        """Take the session's state over as it is now."""
        self.start = self._session.start

    def refresh(self, runs: Callable[[Start], bool], *, shown: str | None) -> None:
        """Take the session's state over, where another command has changed it since.

        Raises:
            NotAuthorizedError: a person has approved the command with another state, or should be asked now.
        """
        now = self._session.start
        if now == self.start:
            return
        # SECURITY: an approval, and a decision that nobody has to be asked, are for the state that was looked at.
        if shown is not None or not runs(now):
            raise NotAuthorizedError(
                "another command changed the session's directory or variables while this one was decided",
                code="session-changed", hint="call again: it is decided anew",
            )  # fmt: skip
        self.take_over()

    def check_shown(self, start: Start, command: str) -> None:
        """Refuse an approval by somebody who has not seen what the session makes of the command.

        Raises:
            NotAuthorizedError: the session's directory or a variable of it is in it.
        """
        if start.folder or any(used(start, command)):
            raise NotAuthorizedError(
                "it was approved without its session, which says what it does", code="session-not-shown",
                hint="write values and folders out in the command line, and set workdir",
            )  # fmt: skip

    def script(self, text: str, report: str, *, moves: bool) -> str:
        """Return a command line that begins with the session's state; in its directory, if `moves`."""
        from wasmrt.agent.builtin.shell._carry import script_of

        return script_of(text, self.start if moves else self.start._replace(folder=""), report)

    def keep(self, report: Path, *, workspace: str, home: str) -> list[str]:
        """Keep what a command left, for the next one; return what there is to say of it."""
        from wasmrt.agent.builtin.shell._carry import read_report

        self._session.used = time.monotonic()
        try:
            data = read_file(report, max_bytes=MAX_SHELL_SESSION_REPORT_BYTES, follow_link=False)
            self.start = self._session.start = read_report(data, self.start, workspace=workspace, home=home)
        except InvalidParametersError as error:
            return [f"wasmrt: {error.message}; {error.hint}"]
        except (OSError, UnfitFileError):
            return [_TOO_MUCH]
        return []


def used(start: Start, command: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of a session that a command line names."""
    if "${!" in command:  # by a name that is itself in a variable
        return iter(start.variables)
    words = set(re.findall(r"[A-Za-z_]\w*", command))
    return ((name, value) for name, value in start.variables if name in words)


@contextmanager
def report_file() -> Iterator[Path]:
    """Give an empty file of its own, in a folder that no command may write."""
    with tempfile.TemporaryDirectory(prefix="wasmrt-session-") as folder:
        report = Path(folder).resolve() / "report"
        report.touch(mode=0o600)
        yield report
