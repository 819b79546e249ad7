"""Run one call, from checking its params to writing its receipt."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from wasmrt.capabilities import RateLimitConfig
from wasmrt.core.errors import (
    GUEST_CODE_PREFIX,
    GuestError,
    GuestExitError,
    InvalidParametersError,
    ToolError,
    TrapError,
    UnknownToolError,
    WasmrtError,
)
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_USER_BYTES
from wasmrt.core.model import ToolOutput, Usage
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import OK, Receipt, RecordedCall, Recorder, Tape
from wasmrt.runtime.call._admission import Admission
from wasmrt.runtime.call._answer import (
    Answer,
    clean_line,
    clean_logs,
    join_last_output,
    read_answer,
    read_params,
    scan_answer,
    tool_error,
    write_params,
)
from wasmrt.runtime.call._services import CallServices
from wasmrt.runtime.call._state import Call, effective_effects, effective_write_paths, start_lifetime
from wasmrt.runtime.call._target import CallTarget
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.clock import Clock

_GUEST_CODES = frozenset((GuestError.code, "guest-exit", *FailureKind))
_CODE = re.compile(r"[a-z][a-z0-9_.:-]{0,63}\Z")
_PROCESS = os.urandom(6).hex()
_numbers = itertools.count(1)


class CallPipeline(NamedTuple):
    """The parts of a runtime that every call uses."""

    admission: Admission
    rates: RateLimiter
    clock: Callable[[], Clock]
    """Creates the clock of one guest."""
    audit: Callable[[Receipt], None] | None = None
    rate: RateLimitConfig | None = None
    hashed: Callable[[str], str] | None = None
    """Computes the keyed hash of params and results for receipts; None if there is no key."""
    recorder: Recorder | None = None


class CallRequest(NamedTuple):
    """A request to run a tool."""

    tool: str
    params: Any
    context: ToolContext = ToolContext()
    """The caller's context: user, data, effects, known receipt fields. The call sets the other receipt fields."""
    parent: Call | None = None
    lifetime: Lifetime | None = None
    """The call's lifetime if it started earlier, before the call waited for a thread."""
    tape: Tape | None = None
    """Replays a recorded call instead of using the host's services."""


class _End(NamedTuple):
    """The outcome of a call, for its receipt."""

    usage: Usage
    failure: BaseException | None = None
    text: str | None = None


def run_call(pipeline: CallPipeline, target: CallTarget, request: CallRequest) -> ToolOutput:
    """Run a tool once.

    Raises:
        ToolError: the call failed. The error contains the usage, logs and decisions so far.
    """
    begin = request.context.on_begin
    lifetime = request.lifetime or start_lifetime(target.limits, request.context, request.parent)
    try:
        if request.lifetime is not None:
            pipeline.admission.check(lifetime)
        params, context = _prepare_inputs(target, request, lifetime.check)
    except ToolError as error:
        if begin is not None:
            begin()
        _write_refusal_receipt(pipeline, target, request, error)
        raise
    call, services = _open_call(pipeline, target, request, lifetime, params, context)
    if begin is not None:  # from this line on, the call writes a receipt even if it fails
        begin()
    call.params_bytes = len(params)
    try:
        try:
            _admit(pipeline, request, call)
            call.open_files()
            text = _run_guest(target, call, request.tool, params, context)
            call.lifetime.check()
            answer = scan_answer(call, read_answer(call, text))
            call.lifetime.check()  # enforce the deadline after scanning, too
        finally:
            _close_call(pipeline, call, services)
        output = _make_output(call, answer)
    except BaseException as error:
        _close_call(pipeline, call, services)  # again, because a signal handler may have interrupted the first close
        failure = _make_failure(call, error)
        end = _End(getattr(failure, "usage", None) or call.usage(), failure)
        call.guest = None
        _write_receipt(pipeline, target, request, call, params, end)
        if failure is error:
            raise
        raise failure from error
    call.guest = None
    _write_receipt(pipeline, target, request, call, params, _End(output.usage, text=answer.text))
    return output


def _prepare_inputs(target: CallTarget, request: CallRequest, check: Callable[[], None]) -> tuple[str, str | None]:
    if not _is_user(request.context.user):
        raise InvalidParametersError(
            f"user must have 1 to {MAX_USER_BYTES} printable characters", hint="for example: alice"
        )
    if request.tool not in target.specs:
        raise UnknownToolError(f"{target.name} has several tools", hint=target.choice)
    params = read_params(request.params, check)
    text = write_params(params, check)
    accepted = target.accept(request.tool, params)
    if accepted is not params:
        text = write_params(accepted, check)  # coerced params, such as 5 for a model's "5"
    data = request.context.data
    context = target.context(request.tool, None if data is None else read_params(data, check))
    return text, None if context is None else write_params(context, check)


def _is_user(user: object) -> bool:
    return isinstance(user, str) and 0 < len(user) <= MAX_USER_BYTES and user.isprintable()


def _open_call(
    pipeline: CallPipeline,
    target: CallTarget,
    request: CallRequest,
    lifetime: Lifetime,
    params: str,
    context: str | None,
) -> tuple[Call, CallServices]:
    effects = effective_effects(request.context, request.parent)
    write_paths = effective_write_paths(request.context, request.parent)
    effective = target.derive_grant(request.tool, effects, write_paths)
    call = Call(
        call_id=request.context.receipt.call_id or _new_id(),
        tool=target.name,
        context=request.context,
        limits=target.limits,
        lifetime=lifetime,
        grant=effective.grant,
        backends=effective.backends,
        find_amendment=partial(target.find_amendment, request.tool),
        full_grant=(target.derive_grant(request.tool).grant if effects is not None or write_paths else effective.grant),
        action=target.get_name_in_grants(request.tool),
        parent=request.parent,
    )
    services = CallServices(call)
    call.tape = request.tape
    if call.tape is None and pipeline.recorder is not None:
        recorded = (call.call_id, target.name, target.digest, request.tool, call.user, params, context)
        call.tape = pipeline.recorder.start(RecordedCall(*recorded), pipeline.clock())
    if call.tape is None:
        call.guest = GuestCall(call.lifetime, call.limits, services, pipeline.clock())
    else:
        call.guest = GuestCall(call.lifetime, call.limits, call.tape.services(services), call.tape.clock())
    return call, services


def _new_id() -> str:
    return f"{_PROCESS}-{next(_numbers):x}"


def _admit(pipeline: CallPipeline, request: CallRequest, call: Call) -> None:
    if pipeline.rate is not None and request.context.shown is None:  # otherwise its preview was counted
        pipeline.rates.check_and_record(call.user, call.tool, pipeline.rate, what="call")
    # A tool that is called by another tool, or by a program that waits for the tool, uses the caller's permit.
    if call.parent is None and not request.context.under_permit:
        pipeline.admission.enter(call)


def _run_guest(target: CallTarget, call: Call, tool: str, params: str, context: str | None) -> str:
    assert call.guest is not None
    return target.component.run(call.guest, target.get_guest_name(tool), params, context, user=call.user)


def _close_call(pipeline: CallPipeline, call: Call, services: CallServices) -> None:
    try:
        services.close()
    finally:
        pipeline.admission.leave(call)


def _make_output(call: Call, answer: Answer) -> ToolOutput:
    usage = call.usage(output_bytes=len(answer.text))
    return ToolOutput(
        result=answer.value,
        raw=answer.text,
        duration=usage.wall_seconds,
        usage=usage,
        logs=clean_logs(call),
        decisions=tuple(call.decisions),
        call_id=call.call_id,
    )


def _make_failure(call: Call, error: BaseException) -> BaseException:
    assert call.guest is not None
    failure = tool_error(call.guest.failure or error)
    if isinstance(failure, ToolError):
        call.extend_scan_time()
        failure.message = clean_line(call, failure.message)
        failure.args = (failure.message,)
        failure.hint = failure.hint and clean_line(call, failure.hint)
        failure.code = _get_code(call, failure)
        failure.call_id = call.call_id
        failure.usage = call.usage()
        failure.logs = clean_logs(call)
        is_bare = isinstance(failure, TrapError) or (isinstance(failure, GuestExitError) and failure.is_bare)
        if is_bare and (words := join_last_output(call, failure.logs)):
            failure.message = f"{failure.message}; last output: {words}"
            failure.args = (failure.message,)
        failure.decisions = tuple(call.decisions)
    return failure


def _get_code(call: Call, failure: ToolError) -> str:
    """Return the code of an error, or the default code of the error's type if the guest or worker set an invalid code.

    SECURITY: the code becomes the receipt's outcome, where `ok` means success.
    """
    code = failure.code
    own = code.startswith(GUEST_CODE_PREFIX)
    if code == OK or not _CODE.match(code) or (own and clean_line(call, code) != code):
        return type(failure).code
    if isinstance(failure, GuestError) and not own and code not in _GUEST_CODES:
        return type(failure).code
    return code


def _write_refusal_receipt(pipeline: CallPipeline, target: CallTarget, request: CallRequest, error: ToolError) -> None:
    """Write the receipt of a call that was rejected before it began."""
    if pipeline.audit is None:
        return
    error.call_id = _new_id()
    known, parent, tool = request.context.receipt, request.parent, target.get_name_in_grants(request.tool)
    now = time.time_ns() // 1_000_000
    pipeline.audit(
        known._replace(
            started_ms=now,
            ended_ms=now,
            trace_id=known.trace_id
            or request.context.trace_id
            or (error.call_id if parent is None else parent.trace_id),
            call_id=error.call_id,
            parent_id=known.parent_id if parent is None else parent.call_id,
            tool=tool,
            kind=known.kind or "component",
            digest=target.digest,
            user=request.context.user if _is_user(request.context.user) else "",
            chain=(*known.chain, *(() if parent is None else parent.tool_chain), tool),
            outcome=error.code,
        )
    )


def _write_receipt(
    pipeline: CallPipeline, target: CallTarget, request: CallRequest, call: Call, params: str, end: _End
) -> None:
    failure, known = end.failure, request.context.receipt
    outcome = OK
    if failure is not None:
        outcome = failure.code if isinstance(failure, WasmrtError) else type(failure).__name__
    recording = "" if call.tape is None else call.tape.end(outcome, end.text)
    if pipeline.audit is None:
        return
    now = time.time_ns() // 1_000_000
    hashed = pipeline.hashed
    pipeline.audit(
        known._replace(
            started_ms=now - int(end.usage.wall_seconds * 1000),
            ended_ms=now,
            trace_id=call.trace_id,
            call_id=call.call_id,
            parent_id=known.parent_id if call.parent is None else call.parent.call_id,
            tool=call.tool_chain[-1],
            kind=known.kind or "component",
            digest=target.digest,
            user=call.user,
            chain=(*known.chain, *call.tool_chain),
            args_hash="" if hashed is None else hashed(params),
            output_hash="" if hashed is None or end.text is None else hashed(end.text),
            outcome=outcome,
            usage=end.usage,
            decisions=(*known.decisions, *call.decisions),
            decisions_dropped=known.decisions_dropped + call.decisions_dropped,
            recording=recording,
        )
    )
