"""Reports errors: one sentence and a hint, or one JSON object, and the exit code."""

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
INTERRUPTED = 130  # what shells expect after Ctrl-C
_NOT_DENIED = {
    ("http", "no-address"): "not reached",
    ("workspace", "not-found"): "not read",
    ("workspace", "not-a-file"): "not read",
}
"""Outcomes that no rule refused: it was allowed, and there was nothing."""
_ALWAYS = ("error", "code", "message", "hint", "retryable", "exit_code")

# The first that fits: a subclass comes before its family.
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
    """Return the documented exit code of an error; a call that failed after a denial counts as denied."""
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


def refusal(decision: Decision) -> str:
    """Format the outcome of one use of a capability in a line: denied, or with nobody to reach."""
    what = decision.subject or decision.capability
    if (ended := _NOT_DENIED.get((decision.capability, decision.reason))) is not None:
        return f"{ended}: {what} ({decision.rule})"
    return f"denied: {what} ({decision.reason}: {decision.rule})"


def fail(error: WasmrtError, *, as_json: bool) -> int:
    """Print an error of ours on stderr, and return its exit code."""
    code = exit_code(error)
    at_fault = error.path if isinstance(error, SecretBackendError) else None
    if as_json:
        _print_json(error.as_dict() | ({"path": str(at_fault)} if at_fault else {}) | {"exit_code": code})
        return code
    problems = error.problems if isinstance(error, RefusedFileError) else ()
    if isinstance(error, RefusedFileError) and len(problems) > 1:
        print_message(f"error: {error.file} cannot be used")
        for path, sentence in problems:
            print_message(f"  {path or '$'}: {sentence}")
    else:
        print_message(f"error: {error.message}")
    if at_fault:
        print_message(f"file: {at_fault}")
    if problems and isinstance(error, CapabilityFileError):  # all of them are listed above
        return code
    if error.hint:
        print_message(f"hint: {error.hint}")
    return code


def usage(error: click.ClickException, *, as_json: bool) -> int:
    """Print a mistake on the command line."""
    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help" if context is not None else "wasmrt --help"
    message = error.format_message().removesuffix(".")
    return fail(ConfigurationError(message[:1].lower() + message[1:], code="usage", hint=hint), as_json=as_json)


def interrupted(*, as_json: bool) -> int:
    """Print that a person ended the command."""
    if is_interactive():
        print_message("")  # the question's line is still open
    return fail(WasmrtError("interrupted", code="interrupted"), as_json=as_json)


def ended_by(error: BaseException, *, as_json: bool) -> int:
    """Print whatever ended a command, but for mistakes on the command line, and return its exit code."""
    if isinstance(error, WasmrtError):
        return fail(error, as_json=as_json)
    if isinstance(error, KeyboardInterrupt):
        return interrupted(as_json=as_json)
    if isinstance(error, BrokenPipeError):  # the reader went away, as `head` does
        return FAILED
    return _unwritable(error, as_json=as_json) if _is_full(error) else _unexpected(error, as_json=as_json)


def _is_full(error: BaseException) -> bool:
    """Tell whether a disk, or a quota on it, is full: nobody's mistake, wherever it shows."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def _unwritable(error: BaseException, *, as_json: bool) -> int:
    """Print that there is no room for what would be written."""
    failure = WasmrtError(f"it cannot be written ({getattr(error, 'strerror', None)})", code="output", hint="make room")
    return fail(failure, as_json=as_json)


def _unexpected(error: BaseException, *, as_json: bool) -> int:
    """Print an error that should not have been possible, with the line it came from."""
    trace, line = error.__traceback__, "?"
    while trace is not None:
        line = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    # The text of a foreign error may hold anything; its type and its place do not.
    internal = InternalError(
        f"an error that should never happen: {type(error).__name__} at {line}",
        hint="please report it with the command that led to it",
    )
    return fail(internal, as_json=as_json)


def _print_json(value: dict[str, Any]) -> None:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:  # a number that JSON lacks; what every error has holds none
        text = json.dumps({key: value[key] for key in _ALWAYS}, ensure_ascii=False, allow_nan=False)
    print_message(text)
