"""Calls of the commands `run` and `tools run`: their params, Ctrl-C, and what was denied."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from wasmrt.cli.shared.errors import refusal
from wasmrt.cli.shared.output import print_lines, print_message
from wasmrt.core.errors import InvalidParametersError, SourceError
from wasmrt.core.limits import MAX_PARAMS_BYTES
from wasmrt.core.model import Addition, Decision, Exemption, LogEntry
from wasmrt.core.places import find_places

T = TypeVar("T")
_END_SECONDS = 5.0


def interruptible(close: Callable[[], None], work: Callable[[], T]) -> T:
    """Do `work` on a thread of its own.

    Ctrl-C reaches this thread only, and only while it runs no guest; closing the runtime ends the one that does. What
    waits for a person in another process is not waited for.
    """
    ended: list[T] = []
    failed: list[BaseException] = []

    def call() -> None:
        try:
            ended.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=call, name="wasmrt-run", daemon=True)
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
    """Return the params that an argument means: JSON, `@FILE`, or `-` for standard input.

    Raises:
        SourceError, InvalidParametersError: the file cannot be read, or is too large.
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


def check_context(context: str | None) -> Any:
    """Return the value of the option --context.

    Raises:
        InvalidParametersError: it is no JSON.
    """
    if context is None:
        return None
    try:
        return json.loads(context)
    except (ValueError, RecursionError):
        hint = """write it like '{"thread": 7}'"""
        raise InvalidParametersError("what follows --context is not JSON", hint=hint) from None


def show_denials(decisions: Iterable[Decision], section: str | None) -> None:
    """Print each denial with its step; `section` is the tool's own in the file, which narrows the component's."""
    denied = dict.fromkeys(decision for decision in decisions if not decision.allowed)
    for decision in denied:
        print_lines(one_entry(refusal(decision)))
        if decision.hint:
            step = "to allow it, " if isinstance(decision.suggestion, Addition) else "hint: "
            also = f", and in {section}" if section and isinstance(decision.suggestion, Addition) else ""
            print_lines(one_entry(f"  {step}{step_of(decision)}{also}"))


def step_of(decision: Decision) -> str:
    """Return the step that would change a refusal, with the path of the file where it is the operator's."""
    if isinstance(decision.suggestion, Exemption):
        return decision.suggestion.step(str(find_places().config))
    return decision.hint or ""


def show_changes(call_id: str | None) -> None:
    """Say how to take a call back, where it has changed files."""
    from wasmrt.runtime.workspace import UndoJournal

    if call_id is None:
        return
    journal = UndoJournal(find_places().undo)
    known = journal.call_ids()
    # Only a pass of a program has a dot in its id; to look for what that has called, every journal is opened.
    if call_id in known or ("." in call_id and not set(journal.calls_of(call_id)).isdisjoint(known)):
        print_message(f"  it changed files; to take that back: wasmrt undo {call_id}")


def show_progress(_: int, __: int | None, text: str | None) -> None:
    """Print what a tool tells while it runs."""
    if text:
        print_message(f"progress: {text}")


def one_entry(text: str) -> str:
    """SECURITY: a guest's line ends are kept off the left margin, where it could speak for wasmrt."""
    return text.replace("\n", "\n    ")


def show_logs(entries: Iterable[LogEntry]) -> None:
    """Print what a guest logged, each line with its level."""
    for entry in entries:
        print_lines(one_entry(f"log {entry.level}: {entry.message}"))
