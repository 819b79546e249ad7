"""Run a call through the steps of the pipeline in order. Each step may deny the call. Every decision is recorded."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, new_request_id
from wasmrt.agent.registry import _access, _flow, _steps
from wasmrt.agent.registry._calls import parse_arguments
from wasmrt.agent.registry._executor import Executor
from wasmrt.agent.registry._output import clean_logs, scan_output
from wasmrt.agent.registry._registered import OWN_SOURCES, RegisteredTool, ToolSource
from wasmrt.agent.registry._state import CallState, denial_error, is_edited, known_receipt, write_receipt
from wasmrt.core.errors import CancelledError, InvalidParametersError, RateLimitedError, ToolError, WasmrtError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.model import Decision, Reason, ToolOutput
from wasmrt.core.setting_commands import set_command
from wasmrt.core.telemetry import CALLS_LOGGER, TOOL_ERROR
from wasmrt.runtime.audit import OK
from wasmrt.runtime.context import ToolContext

_log = logging.getLogger(CALLS_LOGGER)
FORGET_HINT = "wasmrt approvals list shows the answer, and wasmrt approvals forget ID forgets it"
"""The hint if a remembered answer denied a call."""


async def execute(state: CallState, executor: Executor) -> ToolOutput:
    """Run one call through every step, and return the tool's output after it was scanned.

    Raises:
        ToolError: a step denied the call, or the tool failed; the error's `decisions` show the steps.
    """
    try:
        admit(state)
        await approve(state, executor)
        return await run(state, executor)
    except BaseException as error:
        failure = finish_failed(state, error)
        if failure is error or not isinstance(error, Exception):  # re-raise a cancellation unchanged
            raise
        raise failure from error


def finish_failed(state: CallState, error: BaseException) -> ToolError:
    """Return the error for a failed call, with all decisions, and write the receipt of the call."""
    failure = _as_tool_error(error)
    failure.decisions = _join_decisions(state, failure)
    if not state.in_sandbox:
        # SECURITY: the error message of a function or a plugin may contain secrets, like its result.
        failure.message = state.services.detector.redact(failure.message)
        failure.args = (failure.message,)
        failure.logs = clean_logs(state, failure.logs)
        if failure.code == OK:
            failure.code = type(failure).code
    failure.call_id = failure.call_id or state.request.call_id
    reported = failure
    if state.ran:
        reported = _access.with_access_requests(state, failure)  # before the error message becomes part of the trace
    if state.ran or state.previewing:
        # SECURITY: labels that cannot be stored now are stored before the next decision of this host about the trace.
        with suppress(ToolError):
            _flow.record_result(state, [failure.message, reported.for_model()])  # only some errors show models the hint
    _end_call(state, failure)
    return reported


def _end_call(state: CallState, failure: ToolError | None) -> None:
    """Write the receipt of a call, log it, and end its telemetry span."""
    try:
        write_receipt(state, failure)
    finally:
        if state.request.observer is not None:
            state.request.observer.end_call(state.request.name, state.output, failure)
        code = None if failure is None else _telemetry_code(state, failure)
        _log_call(state, code)
        if state.operation is not None:
            state.operation.end(code)


def _log_call(state: CallState, error: str | None) -> None:
    """Log a finished call at the level INFO. `error` is the code of a failure.

    SECURITY: only registered names and checked codes are logged, and no params, results or messages.
    """
    if _log.isEnabledFor(logging.INFO):
        fields = {
            "tool": "" if state.entry is None else state.entry.offered,
            "call_id": state.request.call_id,
            "outcome": "ok" if error is None else "failed",
            "seconds": round(time.monotonic() - state.request.started, 6),
            "error": error,
        }
        _log.info("call %(call_id)s of %(tool)s: %(outcome)s", fields)


def _telemetry_code(state: CallState, failure: ToolError) -> str:
    """Return the error code for telemetry.

    SECURITY: a function could choose a code that contains data it has read, so such a code is not reported.
    """
    chosen = state.ran and not state.in_sandbox and failure.code != type(failure).code
    return TOOL_ERROR if chosen and state.known.source in OWN_SOURCES else failure.code


def _begin_span(state: CallState) -> None:
    """Begin the telemetry span of a call. The name of an unknown tool is omitted, because the model wrote it."""
    services = state.services
    if services.telemetry is not None:
        found = services.store.find(state.request.name)
        tool, source = ("", "") if found is None else (found.offered, str(found.source))
        state.operation = services.telemetry.begin_call(
            tool=tool, call_id=state.request.call_id, trace=state.request.trace, source=source
        )


def admit(state: CallState) -> None:
    """Run the pipeline steps that precede the approval.

    Raises:
        ToolError: a step denied the call.
    """
    _begin_span(state)
    if state.request.observer is not None:
        state.request.observer.begin_call(state.request.name, state.request.arguments)
    check_call(state)
    state.apply(_flow.find_plan_step(state))
    state.apply(_steps.check_confirmation(state))
    state.apply(_flow.check_flow(state))
    state.apply(_steps.check_tool_policy(state))
    state.apply(_steps.check_rate(state))
    if not _flow.take_plan_step(state):  # another call used up the step meanwhile
        state.apply(_steps.check_confirmation(state))
        state.apply(_flow.check_flow(state))


def check_call(state: CallState) -> None:
    """Run the steps that check the tool and its params. They neither count the call nor use up a token.

    Raises:
        ToolError: a step denied the call.
    """
    state.apply(_steps.parse(state))
    if state.services.follow is not None:
        state.services.follow()  # SECURITY: a grant that another host revoked ends here
    state.apply(_steps.look_up(state))
    state.apply(_steps.check_program(state))
    state.apply(_steps.check_schema(state))
    state.apply(_access.add_granted(state))
    state.apply(_steps.check_view(state))
    state.apply(_steps.check_filter(state))
    state.apply(_steps.check_preset(state))
    state.apply(_steps.check_rules(state))
    state.apply(_steps.check_exfiltration(state))


def needs_approval(state: CallState) -> bool:
    """Return whether the call requires an approval that must be requested: it has no token or remembered answer."""
    if state.approval_needed is None or state.request.token is not None:
        return False
    return state.services.approvals.remembered(approval_request(state, None)) is None


async def approve(state: CallState, executor: Executor) -> None:
    """Request approval of the call if it requires approval.

    Raises:
        NotAuthorizedError: the call was not approved.
    """
    if state.approval_needed is None:
        return
    if state.request.token is not None:
        state.apply(_steps.redeem(state))
        _flow.record_approval(state)
        return
    approvals, shown = state.services.approvals, None
    answer = approvals.remembered(approval_request(state, None))
    if answer is None:
        state.previewing = True
        shown = await executor.preview(state.tool, state.params, tool_context(state, state.tool.timeout_seconds))
        state.previewing = False
        answer = await executor.decide(approvals, approval_request(state, shown), state.request.approver)
    state.answer = answer
    name, by = state.known.name, f" by {answer.by}" if answer.by else ""
    if not answer.approved:
        raise denial_error(_record_decision(state, _deny_unapproved(state, answer)))
    if state.services.store.find(state.known.name) is not state.registered:
        rule, hint = "the tool was removed or replaced while the approval was pending", "make the call again"
        denial = Decision(False, Reason.APPROVAL_DENIED, rule, hint, "tool.approval", name)
        raise denial_error(_record_decision(state, denial))
    state.edited = is_edited(answer.params, state.params)
    rule = f"approved {answer.scope}{by}{', with other parameters' if state.edited else ''}"
    _record_decision(state, Decision(True, Reason.ALLOWED, rule, None, "tool.approval", name))
    if state.edited:
        _check_edited(state, dict(answer.params or {}))
    # SECURITY: a remembered answer, or one with edited params, does not approve this preview.
    state.shown = None if answer.remembered or state.edited else shown
    _flow.record_approval(state)


def _deny_unapproved(state: CallState, answer: ApprovalAnswer) -> Decision:
    """Return the decision that denies a call without approval.

    The hint contains the approver's note. Models never see hints of denials.
    """
    assert state.approval_needed is not None
    rule = "the call was denied by an approver" if answer.by else "the call requires approval, and it was not approved"
    steps = f"configure an approver: {set_command('approvals.approver', 'queue')}"
    if answer.timed_out:
        steps = "make the call again and answer the request, or allow more time: "
        steps += set_command("approvals.timeout_seconds", 900)
    line = _steps.suggest_approval(state)
    steps += f", or {line}" if line else ""
    command = state.tool.manual_command(state.params)
    steps += f"; to do it yourself: {command}" if command else ""
    note = f"note of the approver: {answer.note}; " if answer.note else ""
    if answer.by:
        steps = FORGET_HINT if answer.remembered else "make the call again to request approval again"
    hint = f"{note}{state.approval_needed.rule}; {steps}"
    return Decision(False, Reason.APPROVAL_DENIED, rule, hint, "tool.approval", state.known.name)


async def run(state: CallState, executor: Executor) -> ToolOutput:
    """Run the tool within its deadline, scan its output, and write the receipt.

    Raises:
        ToolError: the tool failed, or its output was withheld.
    """
    tool, entry = state.tool, state.known
    _access.redeem_granted(state)
    seconds = min(tool.timeout_seconds, state.services.policy.find_timeout(entry.names) or tool.timeout_seconds)
    if state.within is not None:
        state.within.check()
        seconds = min(seconds, state.within.remaining())
    context = tool_context(state, seconds)
    state.ran = True
    _flow.record_written(state)
    with nullcontext() if state.operation is None else state.operation.current():
        if _steps.runs_programs(entry):
            output = await _run_program(state, executor, context, seconds)
        else:
            output = await executor.run(tool, state.params, context, seconds)
    if not isinstance(output, ToolOutput):
        raise ToolError(f"the tool failed: expected a ToolOutput, got {type(output).__name__}")
    output = scan_output(state, output)
    _access.request_access(state, output.decisions, output.call_id or state.request.call_id)
    _flow.record_result(state, output.result, output.labels)
    _flow.record_plan_result(state, output.result)
    decisions = (*state.decisions, *(_add_policy_digest(state, decision) for decision in output.decisions))
    state.output = output._replace(decisions=decisions, call_id=output.call_id or state.request.call_id)
    _end_call(state, None)
    return state.output


async def _run_program(state: CallState, executor: Executor, context: ToolContext, seconds: float) -> ToolOutput:
    from wasmrt.agent.registry._program import Steps, run_program  # code mode is off by default

    steps = Steps(check_call, admit, needs_approval, approve, run, finish_failed)
    return await run_program(state, executor, context, seconds, steps)


def tool_context(state: CallState, seconds: float) -> ToolContext:
    """Return the context of the call for the tool."""
    entry, restrictions = state.known, state.restrictions
    # SECURITY: the sandbox enforces the declared effects of the chosen action, and the limits of the view.
    allowed = state.effects & restrictions.get_sandbox_effects(state.services.policy.guard, entry.names)
    return ToolContext(
        user=state.request.user,
        trace_id=state.request.trace,
        call_id=state.request.call_id,
        data=state.request.data,
        lifetime=Lifetime(seconds, within=state.within),
        on_progress=_flow.with_recorded_messages(state, state.request.on_progress),
        receipt=known_receipt(state),
        on_begin=state.begin_in_sandbox,
        effects=None if entry.granted_effects <= allowed and not restrictions.narrows else allowed,
        write_paths=restrictions.write_paths,
        may_invoke=partial(_may_invoke, state),
        seen=_flow.get_trace_labels(state),
        shown=state.shown,
        confirmed_content=state.confirmed_content,
        under_permit=state.direct,
        tools=None if entry.source is not ToolSource.BUILTIN else state.request.tools,
    )


def approval_request(state: CallState, preview: str | None) -> ApprovalRequest:
    """Return the approval request for the call; `preview` shows the changes that the call would make."""
    assert state.approval_needed is not None
    entry, now = state.known, time.time_ns() // 1_000_000
    return ApprovalRequest(
        id=new_request_id(),
        tool=entry.name,
        digest=entry.digest,
        grant=entry.grant_digest,
        params=state.params,
        effects=tuple(sorted(state.effects)),
        risk=str(state.traits.risk(state.effects)),
        why=state.approval_needed,
        user=state.request.user,
        trace=state.request.trace,
        call=state.request.call_id,
        preview=preview,
        provenance=_flow.provenance_lines(state),
        destinations=_flow.approval_destinations(state),
        client=state.request.client,
        created_ms=now,
        expires_ms=now + round(state.services.approvals.timeout_seconds * 1000),
    )


def _check_edited(state: CallState, params: dict[str, object]) -> None:
    """Check params that an approver edited: repeat the steps that depend on the params, except the approval."""
    try:
        state.params = parse_arguments(params)
        state.apply(_steps.check_schema(state))
    except InvalidParametersError as error:
        rule = f"the approver edited the parameters, and they are invalid: {error.message}"
        hint = "make the call again; edited parameters must match the tool's schema"
        denial = Decision(False, Reason.INVALID_ARGUMENTS, rule, hint, "tool.approval", state.known.name)
        raise denial_error(_record_decision(state, denial)) from error
    state.apply(_steps.check_view(state))
    state.apply(_steps.check_tool_policy(state))


def _may_invoke(state: CallState, name: str) -> Decision | None:
    """Decide whether this tool may invoke another tool. The policy applies even if the other tool is not registered."""
    services = state.services
    prepared = None if services.runtime is None else services.runtime.prepared(name)
    if prepared is None:
        return None  # no such tool could be invoked
    # SECURITY: the name may be an alias of the registered name, such as for a package with a single tool.
    entry = services.store.find(prepared.name)
    if entry is None or entry.tool is not prepared:
        source = ToolSource.INSTALLED if prepared.installed else ToolSource.COMPONENT
        entry = RegisteredTool(prepared, prepared.name, source, "", ())
    traits = entry.traits(services.policy)
    # SECURITY: its params are not known yet. The params of the calling tool must not choose one of its actions.
    inner = replace(state, entry=entry, traits=traits, params={}, bound=None, decisions=[], approval_needed=None)
    checks = (
        _steps.check_view, _steps.check_filter, _steps.check_preset, _steps.check_rules, _steps.check_exfiltration,
        _steps.check_unattended, _steps.check_rate,
    )  # fmt: skip
    try:
        decisions = (check(inner) for check in checks)
        return next((each for each in decisions if isinstance(each, Decision) and not each.allowed), None)
    except RateLimitedError as error:
        return Decision(False, Reason.RATE_LIMITED, error.message, error.hint, "tool.rate", entry.name)


def _record_decision(state: CallState, decision: Decision) -> Decision:
    decision = decision._replace(policy=state.policy_digest)
    state.decisions.append(decision)
    return decision


def _add_policy_digest(state: CallState, decision: Decision) -> Decision:
    return decision if decision.policy else decision._replace(policy=state.policy_digest)


def _join_decisions(state: CallState, failure: ToolError) -> tuple[Decision, ...]:
    """Return the decisions of the steps, followed by the sandbox's decisions."""
    known = set(state.decisions)
    return (*state.decisions, *(_add_policy_digest(state, each) for each in failure.decisions if each not in known))


def _as_tool_error(error: BaseException) -> ToolError:
    """Convert any exception to a `ToolError`.

    Examples are a `LeakError` for output that was withheld, an error for an invalid schema, and a cancellation.
    """
    if isinstance(error, ToolError):
        return error
    if not isinstance(error, Exception):
        return CancelledError(f"the call was ended by {type(error).__name__}")
    if not isinstance(error, WasmrtError):  # a bug in a tool or a callback of the program
        return ToolError(f"the call failed with {type(error).__name__}")
    failure = ToolError(error.message, code=error.code, hint=error.hint)
    failure.retryable = error.retryable
    return failure
