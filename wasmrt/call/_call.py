"""One call, top to bottom."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.call._admission import Admission
from wasmrt.call._apart import Apart
from wasmrt.call._audit import AuditRecord
from wasmrt.call._outcome import from_exception
from wasmrt.call._params import encoded, parsed
from wasmrt.call._program import Program
from wasmrt.call._spares import Spares
from wasmrt.context import CallContext, Clock, Services, SystemClock, cut_log
from wasmrt.errors import (
    DeadlineExceededError,
    GuestOutputError,
    InvalidParametersError,
    LeakError,
    ToolError,
    WasmrtError,
)
from wasmrt.guest.engine import Sandbox
from wasmrt.guest.worlds._spec import ToolSpec
from wasmrt.leaks import Action, LeakScanner
from wasmrt.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_USER_BYTES
from wasmrt.model import LogEntry, ToolOutput, Usage
from wasmrt.strict_json import JsonError, check_nesting, check_text, parse_json, utf8_size

if TYPE_CHECKING:
    from wasmrt.capabilities import Capabilities, RateLimitConfig
    from wasmrt.rates import RateLimiter

Progress = Callable[[int, int | None, str | None], None]
_system_clock = SystemClock()
_PROCESS = os.urandom(6).hex()
_calls = itertools.count(1)


class CallPath(NamedTuple):
    """What every call of a runtime goes through."""

    admission: Admission
    apart: Apart
    audit: Callable[[AuditRecord], None] | None = None
    rate: RateLimitConfig | None = None
    rates: Callable[[], RateLimiter] | None = None
    """Where calls are counted; made when first needed, because the room of networks is slow to import."""
    clock: Callable[[], Clock] = lambda: _system_clock
    spares: Spares | None = None


class Asked(NamedTuple):
    """One request to run a tool. A named tuple, because every call makes one."""

    params: Any
    context: Any = None
    user: str = "local"
    on_progress: Progress | None = None
    parent: CallContext | None = None
    on_open: Callable[[CallContext], None] | None = None


def call(
    path: CallPath, program: Program, spec: ToolSpec, grant: Capabilities, services: Services, asked: Asked
) -> ToolOutput:
    """Run one tool once.

    Raises:
        ToolError: with what was used, logged and decided until then.
    """
    text, context_text = _check(program, spec, asked)
    context = _open(path, program, spec, grant, services, asked)
    context.params_bytes = len(text)
    if asked.on_open is not None:
        asked.on_open(context)
    try:
        try:
            _admit(path, context)
            raw = (_apart if program.apart else _guest)(path, program, spec, context, text, context_text)
            context.check()
            result, raw = _scan(context, *_lift(context, raw))
            context.check()  # reading an answer takes time too, and an answer that is late is none
        finally:
            if not context.abandoned:
                _leave(path, context)
        output = _output(context, result, raw)
    except BaseException as error:
        if not context.abandoned:
            _leave(path, context)  # again, where a signal's handler raised in the middle of it
        failure = _failure(context, error)
        _record(path, program, context, getattr(failure, "usage", None) or context.usage(), failure)
        if failure is error:
            raise
        raise failure from (context.failure or error)
    _record(path, program, context, output.usage, None)
    return output


def _apart(
    path: CallPath, program: Program, spec: ToolSpec, context: CallContext, params: str, context_text: str | None
) -> str:
    """`_guest` on a thread of its own, which holds a permit for as long as it is busy, whoever waits."""
    guest = partial(_guest, path, program, spec, context, params, context_text)
    return path.apart.run(context, guest, partial(path.admission.keep, context), partial(_leave, path, context))


def _guest(
    path: CallPath, program: Program, spec: ToolSpec, context: CallContext, params: str, context_text: str | None
) -> str:
    """Everything that happens in a store, a fresh one or a spare."""
    spares, grant = path.spares, context.grant
    spare = None if spares is None else spares.take(program, grant, context)
    sandbox = spare or Sandbox(program.linker, program.store_limits, context)
    try:
        if spare is None:
            sandbox.instantiate()
        return program.world.run(sandbox, spec, params, context_text)
    finally:
        try:
            sandbox.finish()
        finally:
            context.fuel_used = sandbox.fuel_used
            if spares is None:
                sandbox.drop()
            else:
                spares.retire(program, grant, sandbox)
            sandbox.unshield()  # what a signal's handler raises comes after all is put away


def _check(program: Program, spec: ToolSpec, asked: Asked) -> tuple[str, str | None]:
    if not isinstance(asked.user, str) or not 0 < len(asked.user) <= MAX_USER_BYTES or not asked.user.isprintable():
        raise InvalidParametersError(f"a user is 1 to {MAX_USER_BYTES} printable characters", hint="alice is one")
    params = parsed(asked.params)
    text = encoded(params)
    read = program.validator(spec.name).accept(params)
    if read is not params:
        text = encoded(read)  # a model's "5" for 5, where only one reading exists
    return text, None if asked.context is None else encoded(parsed(asked.context))


def _open(
    path: CallPath, program: Program, spec: ToolSpec, grant: Capabilities, services: Services, asked: Asked
) -> CallContext:
    parent = asked.parent
    context = CallContext(
        call_id=f"{_PROCESS}-{next(_calls):x}",
        tool=program.name,
        user=asked.user,
        limits=program.limits,
        grant=grant,
        services=services,
        clock=path.clock(),
        deadline=None if parent is None else parent.deadline,
        tool_chain=(*(parent.tool_chain if parent else ()), program.name),
        parent=parent,
        on_progress=asked.on_progress,
    )
    if parent is not None:
        parent.on_end(context.cancel)
    return context


def _admit(path: CallPath, context: CallContext) -> None:
    if path.rates is not None and path.rate is not None:
        path.rates().check_and_record(context.user, context.tool, path.rate, what="call")
    if len(context.tool_chain) == 1:  # a tool called by a tool runs under its caller's permit
        path.admission.enter(context)


def _leave(path: CallPath, context: CallContext) -> None:
    try:
        context.release()
    finally:
        path.admission.leave(context)


def _lift(context: CallContext, text: str) -> tuple[Any, str]:
    context.charge_text(utf8_size(text))
    try:
        check_nesting(text, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
        result = parse_json(text)
        if "\\u" in text:
            check_text(result)
        return result, text
    except JsonError as error:
        raise GuestOutputError(
            "the tool answered with something that is not JSON", hint="have the tool serialize its result"
        ) from error


def _scan(context: CallContext, result: Any, text: str) -> tuple[Any, str]:
    """The result without secrets. Truncation, where anybody wants it, comes after this and never before."""
    scanner = context.scanner
    report = scanner.scan(text)
    if not report.matches or all(match.action is Action.WARN for match in report.matches):
        return result, text
    if report.should_block:
        raise LeakError(f"the tool's answer holds a secret ({report.matches[0].rule}) and was withheld")
    clean = _redacted(context, scanner, result)
    clean_text = json.dumps(clean, ensure_ascii=False)
    remaining = scanner.redact(clean_text)
    if remaining != clean_text:
        # What only shows across values, such as a secret cut into pieces, cannot be cut out of the structure.
        raise LeakError("the tool's answer holds a secret in pieces and was withheld")
    return clean, clean_text


def _redacted(context: CallContext, scanner: LeakScanner, value: Any) -> Any:
    if isinstance(value, str):
        context.check()
        return scanner.redact(value)
    if isinstance(value, list):
        return [_redacted(context, scanner, item) for item in value]
    if isinstance(value, dict):
        return {scanner.redact(key): _redacted(context, scanner, item) for key, item in value.items()}
    return value


def _output(context: CallContext, result: Any, raw: str) -> ToolOutput:
    usage = context.usage(output_bytes=len(raw))
    return ToolOutput(
        result=result,
        raw=raw,
        duration=usage.wall_seconds,
        usage=usage,
        logs=_clean_logs(context),
        decisions=tuple(context.decisions),
        call_id=context.call_id,
    )


def _clean_logs(context: CallContext) -> tuple[LogEntry, ...]:
    if not context.logs:
        return ()
    context.closing()
    return tuple(LogEntry(e.level, cut_log(_clean(context, e.message)), e.timestamp_ms) for e in context.logs)


def _clean(context: CallContext, text: str) -> str:
    try:
        return context.scanner.redact(text)
    except DeadlineExceededError:
        return "[withheld: it could not be scanned in time]"


def _failure(context: CallContext, error: BaseException) -> BaseException:
    failure = from_exception(error, context, context.fuel_used)
    if isinstance(failure, ToolError):
        context.closing()
        clean = _clean(context, failure.message)
        if clean != failure.message:
            failure.message = clean
            failure.args = (clean,)
        failure.call_id = context.call_id
        failure.usage = context.usage()
        failure.logs = _clean_logs(context)
        failure.decisions = tuple(context.decisions)
    return failure


def _record(
    path: CallPath, program: Program, context: CallContext, usage: Usage, failure: BaseException | None
) -> None:
    if path.audit is None:
        return
    outcome = "ok"
    if failure is not None:
        outcome = failure.code if isinstance(failure, WasmrtError) else type(failure).__name__
    path.audit(
        AuditRecord(
            _system_clock.now_ns() // 1_000_000,
            context.call_id,
            context.tool,
            program.digest,
            context.user,
            context.tool_chain,
            outcome,
            usage,
            tuple(context.decisions),
            context.decisions_dropped,
        )
    )
