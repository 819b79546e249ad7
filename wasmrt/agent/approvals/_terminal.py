"""The approver that shows a request at the terminal and reads the answer."""

from __future__ import annotations

import asyncio
import os
import select
import termios
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from wasmrt.agent.approvals._approvals import run_in_new_thread
from wasmrt.agent.approvals._model import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalScope,
    Approver,
    DenyApprover,
    params_digest,
)
from wasmrt.agent.approvals._owners import current_user_name
from wasmrt.agent.approvals._pattern import ParamsPattern
from wasmrt.agent.approvals._review import SESSION_REACH, request_lines
from wasmrt.agent.approvals._summary import summarize
from wasmrt.agent.approvals._words import to_plain_text
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_JSON_DEPTH
from wasmrt.core.strict_json import JsonError, check_text, read_json
from wasmrt.core.terminal import printable, to_single_line

_TERMINAL = threading.Lock()
"""Only the thread that holds this lock may use the terminal, so that one request is shown at a time."""
_LOOK_SECONDS = 0.1
_MAX_LINE_BYTES = 4096
_MAX_MISTAKES = 5
_NO_TERMINAL = "no terminal is available"


class TerminalApprover:
    """Asks for approval at the terminal, one request at a time. Without a terminal, it denies requests.

    Args:
        stdin: The descriptor to read answers from.
        stderr: The descriptor to write questions to.

    Examples:
        >>> from wasmrt import TerminalApprover, ToolRegistry
        >>> registry = ToolRegistry(approver=TerminalApprover())
    """

    def __init__(self, *, stdin: int = 0, stderr: int = 2) -> None:
        self._stdin = stdin
        self._stderr = stderr

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer from the terminal. If this coroutine is cancelled, the question is withdrawn."""
        turn = _Turn(self._stdin, self._stderr)
        try:
            return await run_in_new_thread(turn.ask, request)
        except asyncio.CancelledError:
            turn.withdraw()
            raise


class _Withdrawn(Exception):  # noqa: N818 - not an error
    """The request was withdrawn."""


@dataclass(slots=True, eq=False)
class _Turn:
    """The dialog for one request at the terminal."""

    stdin: int
    stderr: int
    gone: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    answered: bool = False

    def withdraw(self) -> None:
        """End the dialog, from any thread. If the user has already answered, report that the answer was too late."""
        with self.lock:
            self.gone.set()
            if self.answered:
                self._report_withdrawal()

    def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        while not _TERMINAL.acquire(timeout=_LOOK_SECONDS):
            if self.gone.is_set():
                return ApprovalAnswer(approved=False)
        try:
            if not is_terminal(self.stdin, self.stderr):
                return ApprovalAnswer(approved=False, note=_NO_TERMINAL)
            return self._ask_until_answered(request)
        except _Withdrawn:
            self._report_withdrawal()
            return ApprovalAnswer(approved=False)
        except (OSError, termios.error):
            return ApprovalAnswer(approved=False, note="the terminal was closed")
        finally:
            _TERMINAL.release()

    def _ask_until_answered(self, request: ApprovalRequest) -> ApprovalAnswer:
        if self.gone.is_set():
            return ApprovalAnswer(approved=False)
        # SECURITY: discard keys that were pressed before the question was shown.
        termios.tcflush(self.stdin, termios.TCIFLUSH)
        asked, mistakes = request, 0
        cut = self._show(asked)
        while mistakes < _MAX_MISTAKES:
            word = self._ask_for_line(_format_question(request, cut=cut)).lower()
            if word in ("m", "more"):
                cut = self._show(asked, whole=True)
            elif word in ("e", "edit"):
                asked = replace(asked, params=self._ask_for_edits(asked.params), preview=None)
                cut = self._show(asked)
            elif (scope := _parse_scope(word, request)) is not None and cut:
                # SECURITY: a tool can make its parameters long enough to hide the important part.
                mistakes += 1
                self._write_line("  some lines above were cut: press m to see the whole request, then answer")
            elif scope is not None:
                return self._approve(request, asked, scope)
            elif word in ("", "n", "no"):
                return self._settle(ApprovalAnswer(approved=False, by=current_user_name()), "denied")
            else:
                mistakes += 1
                self._write_line(f"  unknown answer: {word[:40]!r}")
        return self._settle(ApprovalAnswer(approved=False, by=current_user_name()), "denied: too many unknown answers")

    def _approve(self, request: ApprovalRequest, asked: ApprovalRequest, scope: ApprovalScope) -> ApprovalAnswer:
        pattern = self._ask_for_pattern(asked.params) if scope is ApprovalScope.ALWAYS else None
        # Compare the digests: in Python, 1 equals True.
        params = None if params_digest(asked.params) == params_digest(request.params) else asked.params
        message = {
            ApprovalScope.ONCE: "approved, this once",
            ApprovalScope.SESSION: f"approved for this session: {to_plain_text(summarize(asked).covers)}",
            ApprovalScope.ALWAYS: f"approved from now on, for {pattern and pattern.words}",
        }[scope]
        answer = ApprovalAnswer(approved=True, scope=scope, by=current_user_name(), params=params, pattern=pattern)
        return self._settle(answer, message)

    def _settle(self, answer: ApprovalAnswer, message: str) -> ApprovalAnswer:
        with self.lock:
            if self.gone.is_set():
                raise _Withdrawn
            self._write_line(f"  {message}")
            self.answered = True
        return answer

    def _report_withdrawal(self) -> None:
        with suppress(OSError):
            self._write("\n  the request was withdrawn; nothing was changed\n")

    def _ask_for_pattern(self, params: Any) -> ParamsPattern:
        pattern = ParamsPattern(params)
        while True:
            text = self._ask_for_line("  a parameter that may differ (NAME, NAME=TEXT* or NAME=FOLDER/), or Enter: ")
            if not text:
                return pattern
            try:
                pattern = pattern.widen_by(text)
            except ConfigurationError as error:
                self._write_line(f"  {error.message}" + (f"; {error.hint}" if error.hint else ""))
            else:
                self._write_line(f"  so far: {pattern.words}")

    def _ask_for_edits(self, params: Any) -> dict[str, Any]:
        changed = dict(params)
        while True:
            text = self._ask_for_line(
                '  a parameter as NAME=JSON, such as path="b.txt", NAME= to remove it, or Enter: '
            )
            if not text:
                return changed
            name, given, value = text.partition("=")
            try:
                if not given:
                    raise JsonError("missing an = sign")
                if value:
                    new = read_json(value, max_bytes=_MAX_LINE_BYTES, max_depth=MAX_JSON_DEPTH - 1, exact=True)
                    check_text({name: new})
                    changed[name] = new
                elif changed.pop(name, given) is given:
                    raise JsonError("not a parameter of the call")
            except JsonError as error:
                self._write_line(f"  invalid: it is {error}")

    def _show(self, request: ApprovalRequest, *, whole: bool = False) -> bool:
        lines, cut = request_lines(request, whole=whole)
        self._write("\n" + "\n".join(lines) + "\n")
        return cut

    def _ask_for_line(self, question: str) -> str:
        """Ask a question, and return one line of input; an empty string at the end of the input."""
        self._write(question)
        while not select.select([self.stdin], [], [], _LOOK_SECONDS)[0]:
            if self.gone.is_set():
                raise _Withdrawn
        return os.read(self.stdin, _MAX_LINE_BYTES).decode("utf-8", "replace").strip()

    def _write_line(self, text: str) -> None:
        self._write(to_single_line(text) + "\n")

    def _write(self, text: str) -> None:
        data = printable(text).encode("utf-8", "replace")
        while data:
            data = data[os.write(self.stderr, data) :]


def default_approver() -> Approver:
    """Return an approver that asks at the terminal, or an approver that denies requests if there is no terminal."""
    return TerminalApprover() if is_terminal() else DenyApprover()


def is_terminal(stdin: int = 0, stderr: int = 2) -> bool:
    """Return whether both descriptors are terminals and this process is in the foreground."""
    if not (os.isatty(stdin) and os.isatty(stderr)):
        return False
    with suppress(OSError):  # not the controlling terminal: it has no foreground process
        return os.tcgetpgrp(stdin) == os.getpgrp()
    return True


def _format_question(request: ApprovalRequest, *, cut: bool) -> str:
    words = ["[y]es", "[N]o"]
    if request.may_be_remembered:
        words += [f"[s]ession: {SESSION_REACH}"] if request.trace else []
        words.append("[a]lways")
    words += ["[e]dit", *(["[m]ore"] if cut else [])]
    return f"  approve {to_single_line(request.tool)}? {', '.join(words)}: "


def _parse_scope(word: str, request: ApprovalRequest) -> ApprovalScope | None:
    if word in ("y", "yes"):
        return ApprovalScope.ONCE
    if not request.may_be_remembered:
        return None
    if word in ("s", "session") and request.trace:
        return ApprovalScope.SESSION
    return ApprovalScope.ALWAYS if word in ("a", "always") else None
