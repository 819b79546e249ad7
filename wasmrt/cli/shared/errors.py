"""Print errors as a sentence with a hint, or as a JSON object, and choose the exit code."""

from __future__ import annotations

import errno
import json
from typing import Any

import click

from wasmrt.cli.shared.output import is_interactive, print_message
from wasmrt.core.errors import (
    CapabilityDeniedError,
    CapabilityFileError,
    ComponentError,
    ConfigurationError,
    GrantRequiredError,
    InstallError,
    IntegrityError,
    InternalError,
    InvalidParametersError,
    NotAuthorizedError,
    RefusedFileError,
    SecretBackendError,
    ToolError,
    UnknownToolError,
    WasmrtError,
)
from wasmrt.core.model import Decision

FAILED, BAD_INPUT, DENIED, INTERNAL = 1, 2, 3, 4
INTERRUPTED = 130  # the convention of shells for Ctrl-C
_NOT_DENIED = {
    ("http", "no-address"): "not reached",
    ("workspace", "not-found"): "not read",
    ("workspace", "not-a-file"): "not read",
}
"""Uses that were allowed but failed because the target does not exist."""
_ALWAYS = ("error", "code", "message", "hint", "retryable", "exit_code")

# The first match applies, so subclasses precede their base classes.
_CODES: tuple[tuple[type[WasmrtError], int], ...] = (
    (InternalError, INTERNAL),
    (GrantRequiredError, DENIED),
    (CapabilityDeniedError, DENIED),
    (NotAuthorizedError, DENIED),
    (IntegrityError, FAILED),
    (InvalidParametersError, BAD_INPUT),
    (UnknownToolError, BAD_INPUT),
    (ConfigurationError, BAD_INPUT),
    (ComponentError, BAD_INPUT),
    (InstallError, BAD_INPUT),
    (WasmrtError, FAILED),
)


_BAD_SECRETS = ("secret-name", "secret-value", "secret-user", "env-file")
_UNUSABLE_CATALOG = ("catalog", "changed")


def exit_code(error: WasmrtError) -> int:
    """Return the documented exit code of an error. A call that failed after a denial gets the code of denials."""
    if error.code in _BAD_SECRETS:
        return BAD_INPUT
    if error.code in _UNUSABLE_CATALOG:
        return FAILED
    if error.code == "interrupted":
        return INTERRUPTED
    refusals = [each for each in error.decisions if not each.allowed] if isinstance(error, ToolError) else []
    if any((each.capability, each.reason) not in _NOT_DENIED for each in refusals):
        return DENIED
    if refusals and isinstance(error, NotAuthorizedError):
        return FAILED
    return next(code for kind, code in _CODES if isinstance(error, kind))


def format_denial(decision: Decision) -> str:
    """Format a failed use of a capability as one line: denied, not reached or not read."""
    subject = decision.subject or decision.capability
    if (ended := _NOT_DENIED.get((decision.capability, decision.reason))) is not None:
        return f"{ended}: {subject} ({decision.rule})"
    return f"denied: {subject} ({decision.reason}: {decision.rule})"


def fail(error: WasmrtError, *, as_json: bool) -> int:
    """Print an error on stderr, and return its exit code."""
    code = exit_code(error)
    path = error.path if isinstance(error, SecretBackendError) else None
    if as_json:
        _print_json(error.as_dict() | ({"path": str(path)} if path else {}) | {"exit_code": code})
        return code
    problems = error.problems if isinstance(error, RefusedFileError) else ()
    if isinstance(error, RefusedFileError) and len(problems) > 1:
        print_message(f"error: {error.file} cannot be used")
        for place, sentence in problems:
            print_message(f"  {place or '$'}: {sentence}")
    else:
        print_message(f"error: {error.message}")
    if path:
        print_message(f"file: {path}")
    if problems and isinstance(error, CapabilityFileError):  # the problems are the hint
        return code
    if error.hint:
        print_message(f"hint: {error.hint}")
    return code


class UnknownCommandError(click.UsageError):
    """A command that does not exist, with the command line to try instead."""

    def __init__(self, message: str, ctx: click.Context, *, hint: str) -> None:
        super().__init__(message, ctx)
        self.hint = hint


def report_usage_error(error: click.ClickException, *, as_json: bool) -> int:
    """Print an error in the command line's arguments, and return the exit code."""
    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help" if context is not None else "wasmrt --help"
    if isinstance(error, UnknownCommandError):
        hint = error.hint
    message = error.format_message().removesuffix(".")
    return fail(ConfigurationError(message[:1].lower() + message[1:], code="usage", hint=hint), as_json=as_json)


def report_interrupt(*, as_json: bool) -> int:
    """Print that the user interrupted the command, and return the exit code."""
    if is_interactive():
        print_message("")  # end the line of an open prompt
    return fail(WasmrtError("interrupted", code="interrupted"), as_json=as_json)


def report_error(error: BaseException, *, as_json: bool) -> int:
    """Print the exception that ended a command, except for usage errors, and return the exit code."""
    if isinstance(error, WasmrtError):
        return fail(error, as_json=as_json)
    if isinstance(error, KeyboardInterrupt):
        return report_interrupt(as_json=as_json)
    if isinstance(error, BrokenPipeError):  # stdout was closed, for example by `head`
        return FAILED
    # A full disk or an exceeded quota can show up anywhere, and is not a bug of wasmrt.
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        full = WasmrtError(f"cannot write the output ({error.strerror})", code="output", hint="free some disk space")
        return fail(full, as_json=as_json)
    return _report_unexpected(error, as_json=as_json)


def _report_unexpected(error: BaseException, *, as_json: bool) -> int:
    """Print an unexpected exception with the line that raised it."""
    trace, line = error.__traceback__, "?"
    while trace is not None:
        line = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    # The message of another library's exception may contain secrets; its type and line do not.
    internal = InternalError(
        f"unexpected {type(error).__name__} at {line}", hint="please report it with the command that caused it"
    )
    return fail(internal, as_json=as_json)


def _print_json(value: dict[str, Any]) -> None:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # a number that JSON cannot represent; the common fields contain none
        text = json.dumps({key: value[key] for key in _ALWAYS}, ensure_ascii=False, allow_nan=False)
    print_message(text)
