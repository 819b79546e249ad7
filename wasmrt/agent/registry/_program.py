"""Run programs that a model wrote. Each call that a program makes goes through the same steps as a model's call.

If a call requires no approval, it runs while the program waits for the result. Otherwise, the interpreter is ended, the
approval is requested, and the call is made. Then the program runs again from the beginning, with the recorded results
of its earlier calls. If the request is not answered, the results are stored for the next run of the same program.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

from wasmrt.agent.approvals import Approver, DenyApprover
from wasmrt.agent.builtin.code_mode import Answered, CodeTool, Run, call_digest
from wasmrt.agent.registry import _flow
from wasmrt.agent.registry._executor import AsyncExecutor, BlockingExecutor, Executor, run_without_loop
from wasmrt.agent.registry._state import CallRequest, CallState
from wasmrt.core.effects import READING
from wasmrt.core.errors import (
    AccessRequestedError,
    CancelledError,
    DeadlineExceededError,
    GuestError,
    LimitError,
    RunReplayError,
    RunSuspendedError,
    RuntimeClosedError,
    ToolError,
    TrapError,
)
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_CODE_CALL_BYTES
from wasmrt.core.model import Reason, ToolOutput
from wasmrt.core.strict_json import parse_json, write_json
from wasmrt.runtime.context import Program, ToolContext
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.replies import HostFailure

_OVER = (CancelledError, RuntimeClosedError)
"""Errors of a call that end the whole program."""
_FOR_GOOD = (GuestError, TrapError, LimitError)
"""Errors that would occur again if the same program ran again. The recorded results of its calls are then useless."""


class Steps(NamedTuple):
    """The functions of the pipeline that a program's calls need."""

    check_call: Callable[[CallState], None]
    """Runs the steps that check the tool and its params. They neither count the call nor use up a token."""
    admit: Callable[[CallState], None]
    needs_approval: Callable[[CallState], bool]
    """Returns whether approval must be requested now."""
    approve: Callable[[CallState, Executor], Awaitable[None]]
    run: Callable[[CallState, Executor], Coroutine[Any, Any, ToolOutput]]
    finish_failed: Callable[[CallState, BaseException], ToolError]


class _Waiting(NamedTuple):
    """A call by a program that waits until the user answers its request."""

    state: CallState
    asked: str
    failure: ToolError | None
    """The failure of the call, if the call was made and failed because access must be granted first."""


async def run_program(
    state: CallState, executor: Executor, context: ToolContext, seconds: float, steps: Steps
) -> ToolOutput:
    """Run a program until it ends.

    Raises:
        RunSuspendedError: the program waits for an answer of the user. Running the same program again continues it.
        RunReplayError: the program cannot be continued.
        ToolError: the program failed.
    """
    receipt = context.receipt._replace(trace_id=state.request.trace or state.request.call_id)
    loop = asyncio.get_running_loop() if isinstance(executor, AsyncExecutor) else None
    spent = 0.0
    access_asked: dict[str, None] = {}
    assert isinstance(state.known.tool, CodeTool)
    with state.known.tool.runs.opened(
        state.request.user, state.request.trace, state.params["code"], state.request.call_id
    ) as run:
        while True:
            calls = _Calls(state, run, steps, loop, access_asked)
            # All passes share the timeout of one call. Time spent waiting for approval does not count.
            left = max(seconds - spent, 0.0)
            life = Lifetime(left, within=state.within)
            own = replace(context, data=run.circumstances, call_tool=calls.call, lifetime=life)
            own = replace(own, receipt=receipt._replace(call_id=run.pass_id))
            try:
                output = await executor.run(state.tool, state.params, own, left)
            except BaseException as error:
                if not isinstance(error, Exception) or calls.waiting is None:
                    if isinstance(error, _FOR_GOOD) and not isinstance(error, DeadlineExceededError):
                        run.forget()
                    raise
            else:
                run.forget()
                state.access_requests = tuple(access_asked)
                return output
            finally:
                calls.end()
                spent += time.monotonic() - life.started
            await calls.settle(calls.waiting, executor)


class _Calls:
    """The calls of one pass of a program. A pass is one run of the interpreter."""

    def __init__(
        self,
        outer: CallState,
        run: Run,
        steps: Steps,
        loop: asyncio.AbstractEventLoop | None,
        access_asked: dict[str, None],
    ) -> None:
        self._outer = outer
        self._access_asked = access_asked
        """Access requests of successful calls. They are reported with the program's output."""
        self._run = run
        run.rewind()
        self._steps = steps
        self._loop = loop
        self._made = 0
        self._future: Future[ToolOutput] | None = None
        self._over = False
        self.waiting: _Waiting | None = None

    def call(self, name: str, params: str, guest: Program) -> str:
        """Call a tool for the program, in the program's thread, and return the result as JSON.

        Raises:
            HostFailure: the call was denied or failed. The exception contains only what the program may learn.
            ToolError: the program must end.
        """
        if self._over or self.waiting is not None:  # the program was ended before it made this call
            raise CancelledError("the program has ended")
        guest.lifetime.check()
        place, self._made = self._made, self._made + 1
        asked = call_digest(name, params)
        known = self._run.answer(place, asked)
        inner = self._build_state(name, params, guest)
        size = len(params.encode("utf-8", "replace"))
        if known is not None:
            self._run.charge(size + len(known.text or ""))
            return self._replay(inner, known)
        self._run.charge(size)
        if size > MAX_CODE_CALL_BYTES:
            failure = ToolError(f"the params are larger than {MAX_CODE_CALL_BYTES:,} bytes", code="params-too-large")
            return self._record_answer(self._build_failure(asked, self._steps.finish_failed(inner, failure)))
        return self._record_answer(self._make_call(inner, asked))

    def end(self) -> None:
        """End the pass, and cancel the call that the program waits for."""
        self._over = True
        if self._future is not None:
            self._future.cancel()

    async def settle(self, waiting: _Waiting, executor: Executor) -> None:
        """Request approval of the call that the program waits for, and make the call.

        Raises:
            RunSuspendedError: the request was not answered.
            RunReplayError: the results of the program cannot be stored; the call was not made.
        """
        inner, steps = waiting.state, self._steps
        try:
            self._run.keep()
        except RunReplayError as error:
            if waiting.failure is None:
                steps.finish_failed(inner, error)
            raise
        if waiting.failure is not None:
            raise self._suspension_error(inner, waiting.failure) from waiting.failure
        inner.direct, inner.within = False, self._outer.within
        try:
            await steps.approve(inner, executor)
            self._run.begin(waiting.asked, reads=inner.effects <= READING)
            output = await steps.run(inner, executor)
        except BaseException as error:
            failure = steps.finish_failed(inner, error)
            if not isinstance(error, Exception) or isinstance(failure, _OVER):
                raise
            if isinstance(failure, AccessRequestedError) or _is_pending(inner):
                raise self._suspension_error(inner, failure) from failure
            answered = self._build_failure(waiting.asked, failure)
        else:
            answered = self._build_success(waiting.asked, inner, output)
        self._run.add(answered)

    # -- a call ----------------------------------------------------------------------------------------------------

    def _build_state(self, name: str, params: str, guest: Program) -> CallState:
        outer = self._outer
        request = CallRequest(
            name=name, arguments=params, user=outer.request.user, trace=outer.request.trace, tools=outer.request.tools,
            client=outer.request.client, data=outer.request.data, approver=_approver_of(outer), parent_id=guest.call_id,
            chain=(*outer.request.chain, outer.known.name), receipt_trace=guest.trace_id,
        )  # fmt: skip
        return CallState(
            services=outer.services,
            restrictions=outer.restrictions,
            request=request,
            within=guest.lifetime,
            direct=True,
        )

    def _replay(self, inner: CallState, known: Answered) -> str:
        """Return a recorded result again. The tool is not called, the call is not counted, and needs no approval.

        SECURITY: the view or the policy may have changed since. If the call would be denied now, its result is not
        returned. The result is added to the trace again, because it may have been removed from the trace.
        """
        try:
            self._steps.check_call(inner)
        except ToolError as error:
            if known.text is not None or known.code != error.code:
                text = f"call {self._made} of the program was made earlier, but would be denied now: {error.message}"
                raise RunReplayError(text, code="run-refused", hint=error.hint) from error
        if inner.entry is not None:
            _flow.record_result(inner, known.message if known.text is None else parse_json(known.text), known.labels)
        return self._return_or_raise(known)

    def _make_call(self, inner: CallState, asked: str) -> Answered:
        try:
            output = self._wait_for(self._run_without_approval(inner, asked))
        except _NeedsApprovalError:
            self.waiting = _Waiting(inner, asked, None)
            raise RunSuspendedError("the program waits for an approval by a user") from None
        except AccessRequestedError as failure:
            self.waiting = _Waiting(inner, asked, failure)
            raise RunSuspendedError("the program waits until a user grants access") from failure
        except ToolError as failure:
            if isinstance(failure, (*_OVER, RunReplayError)) or self._over:
                raise
            return self._build_failure(asked, failure)
        return self._build_success(asked, inner, output)

    async def _run_without_approval(self, inner: CallState, asked: str) -> ToolOutput:
        """Run a call through the pipeline if it requires no approval."""
        executor = BlockingExecutor() if self._loop is None else AsyncExecutor()
        try:
            self._steps.admit(inner)
            if (kept := _session_digest(inner)) is not None:
                self._run.check_left(inner.known.name, kept)
            if self._steps.needs_approval(inner):
                raise _NeedsApprovalError
            await self._steps.approve(inner, executor)
            self._run.begin(asked, reads=inner.effects <= READING)
            return await self._steps.run(inner, executor)
        except _NeedsApprovalError:
            raise
        except BaseException as error:
            failure = self._steps.finish_failed(inner, error)
            if failure is error or not isinstance(error, Exception):
                raise
            raise failure from error

    def _wait_for(self, call: Coroutine[Any, Any, ToolOutput]) -> ToolOutput:
        """Run a call to completion: in this thread, or in the event loop of the program's caller."""
        if self._loop is None:
            return run_without_loop(call)
        self._future = asyncio.run_coroutine_threadsafe(call, self._loop)
        if self._over:  # the pass was ended concurrently
            self._future.cancel()
        try:
            return self._future.result()
        except (FutureCancelledError, asyncio.CancelledError) as error:
            raise CancelledError("the program has ended") from error

    # -- answers ---------------------------------------------------------------------------------------------------

    def _record_answer(self, answered: Answered) -> str:
        self._run.charge(len(answered.text or ""))
        self._run.add(answered)
        return self._return_or_raise(answered)

    @staticmethod
    def _return_or_raise(answered: Answered) -> str:
        if answered.text is not None:
            return answered.text
        raise HostFailure(FailureKind(answered.kind), answered.code, answered.message)

    def _build_success(self, asked: str, inner: CallState, output: ToolOutput) -> Answered:
        self._access_asked.update(dict.fromkeys(inner.access_requests))
        kept = _session_digest(inner)
        left = None if kept is None else (inner.known.name, kept)
        return Answered(asked, _encode_result(output), labels=output.labels, left=left)

    @staticmethod
    def _build_failure(asked: str, failure: ToolError) -> Answered:
        """Return the record of a failed call. It has the error text for models, because a model wrote the program."""
        return Answered(asked, None, str(FailureKind.OPERATION_FAILED), failure.code, failure.for_model())

    def _suspension_error(self, inner: CallState, failure: ToolError) -> RunSuspendedError:
        self._run.waits(inner.known.name)
        self._outer.access_requests = inner.access_requests
        done = len(self._run.answers)
        need = "access" if isinstance(failure, AccessRequestedError) else "approval"
        error = RunSuspendedError(
            f"the program is suspended: {inner.known.offered} requires {need}, and the request is not answered yet. "
            f"{done} earlier call{'s' * (done != 1)} will not be made again: run the same code after the answer",
            hint=failure.hint,
        )
        self._outer.decisions.extend(each for each in failure.decisions if not each.allowed)
        error.decisions = failure.decisions
        return error


class _NeedsApprovalError(Exception):
    """Approval is required, and the program is still running."""


def _approver_of(outer: CallState) -> Approver | None:
    """Return the approver for the calls that a program makes: the approver of the call that runs the program.

    Return None if that approver may answer only for the call that runs the program.
    """
    return None if getattr(outer.request.approver, "for_one_call", False) else outer.request.approver


def _is_pending(inner: CallState) -> bool:
    """Return whether a call was not approved because its approval request has not been answered yet."""
    answer, approver = inner.answer, inner.request.approver or inner.services.approvals.approver
    if isinstance(approver, DenyApprover):
        return False
    last = inner.decisions[-1] if inner.decisions else None
    denied = last is not None and not last.allowed and last.reason == Reason.APPROVAL_DENIED
    return denied and answer is not None and not answer.approved and not answer.by


def _session_digest(inner: CallState) -> str | None:
    return inner.tool.session_digest()


def _encode_result(output: ToolOutput) -> str:
    return output.raw if output.raw is not None else write_json(output.result)
