"""Options, parameters, interruption and reports of commands that call a tool."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from wasmrt.cli.shared.errors import format_denial
from wasmrt.cli.shared.options import ViewChoice
from wasmrt.cli.shared.output import print_lines, print_message, show_json
from wasmrt.core.counts import format_counted
from wasmrt.core.errors import (
    AccessRequestedError,
    InvalidParametersError,
    NotAuthorizedError,
    SourceError,
    ToolError,
)
from wasmrt.core.limits import MAX_PARAMS_BYTES
from wasmrt.core.model import Addition, Decision, LogEntry, ToolOutput
from wasmrt.core.places import find_places

T = TypeVar("T")
_END_SECONDS = 5.0


class CallOptions(NamedTuple):
    """The parameters of one call, and the options of the command that makes it."""

    params: str | bytes
    typed: bool
    """True if the params were given as an argument, not read from a file or from standard input."""
    context: Any
    """The data of the option --context, or None."""
    user: str
    trace: str
    token: str | None
    workspace: Path | None
    choice: ViewChoice
    logs: bool
    as_model: bool
    as_json: bool

    @property
    def needs_registry(self) -> bool:
        """True if an option has a meaning only in a registry."""
        return bool(self.trace or self.token or self.as_model or self.choice != ViewChoice())

    def show_progress(self, _: int, __: int | None, text: str | None) -> None:
        """Print a progress message of a running tool, unless the output is for a program or a model."""
        if text and not (self.as_json or self.as_model):
            print_message(f"progress: {text}")

    def show_output(self, output: ToolOutput) -> None:
        """Print a call's result, and the log if the user asked for it."""
        if self.logs and not self.as_json:
            show_logs(output.logs)
        elif output.logs and not (self.as_json or self.as_model):
            print_message(f"the tool's log has {format_counted(len(output.logs), 'line')}; to print it, pass --logs")
        show_json(output.as_dict() if self.as_json else output.result)


def run_interruptible(close: Callable[[], None], work: Callable[[], T]) -> T:
    """Run `work` on a separate thread, so that Ctrl-C can end it.

    Python raises KeyboardInterrupt only in the main thread, and not while that thread runs a guest. On Ctrl-C, `close`
    closes the runtime, which ends the guest. A call that awaits approval elsewhere is abandoned after a few seconds.
    """
    ended: list[T] = []
    failed: list[BaseException] = []

    def run_work() -> None:
        try:
            ended.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run_work, name="wasmrt-run", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        close()
        thread.join(_END_SECONDS)
        raise
    if failed:
        raise failed[0]
    return ended[0]


def read_params(argument: str) -> str | bytes:
    """Return the params of an argument: JSON, the content of `@FILE`, or standard input for `-`.

    Raises:
        SourceError: the file cannot be read.
        InvalidParametersError: the params are too large.
    """
    if argument == "-":
        data = sys.stdin.buffer.read(MAX_PARAMS_BYTES + 1)
    elif argument.startswith("@"):
        try:
            with Path(argument[1:]).open("rb") as file:
                data = file.read(MAX_PARAMS_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            raise SourceError(f"the params file cannot be read ({reason})", hint="check the path after @") from error
    else:
        return argument
    if len(data) > MAX_PARAMS_BYTES:
        raise InvalidParametersError(
            f"the params are over {MAX_PARAMS_BYTES} bytes", hint="pass large data by reference"
        )
    return data


def parse_context(context: str | None) -> Any:
    """Return the JSON value of the option --context, or None if it is not given.

    Raises:
        InvalidParametersError: the option is not valid JSON.
    """
    if context is None:
        return None
    try:
        return json.loads(context)
    except (ValueError, RecursionError):
        hint = """write it like '{"thread": 7}'"""
        raise InvalidParametersError("the value of --context is not JSON", hint=hint) from None


def describes_denials(error: ToolError) -> bool:
    """Return whether the message and hint of an error describe its denials, so that they need not be printed."""
    return isinstance(error, NotAuthorizedError) and not isinstance(error, AccessRequestedError)


def show_denials(decisions: Iterable[Decision], section: str | None) -> None:
    """Print each denial with its hint; `section` is the section of the capability file for the tool, if any."""
    denied = dict.fromkeys(decision for decision in decisions if not decision.allowed)
    for decision in denied:
        print_lines(_indent_continuation(format_denial(decision)))
        if decision.hint:
            prefix = "to allow it, " if isinstance(decision.suggestion, Addition) else "hint: "
            also = f", and in {section}" if section and isinstance(decision.suggestion, Addition) else ""
            print_lines(_indent_continuation(f"  {prefix}{decision.hint}{also}"))


def show_undo_hint(call_id: str | None) -> None:
    """Print the undo command for a call that changed files."""
    from wasmrt.runtime.workspace import UndoJournal

    if call_id is None:
        return
    journal = UndoJournal(find_places().undo)
    known = journal.call_ids()
    # Only runs of a `run_code` program have a dot in their id; finding the calls of one opens every journal.
    if call_id in known or ("." in call_id and not set(journal.calls_of(call_id)).isdisjoint(known)):
        print_message(f"  the call changed files; to undo the changes: wasmrt undo {call_id}")


def _indent_continuation(text: str) -> str:
    """SECURITY: indent later lines of a guest's text, so that none of them can imitate a message of wasmrt."""
    return text.replace("\n", "\n    ")


def show_logs(entries: Iterable[LogEntry]) -> None:
    """Print the log entries of a guest with their levels."""
    for entry in entries:
        print_lines(_indent_continuation(f"log {entry.level}: {entry.message}"))
