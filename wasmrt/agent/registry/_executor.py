"""Executors, which wait for approvers and tools in blocking and in asynchronous programs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, Approvals, Approver
from wasmrt.agent.registry._tool import Tool
from wasmrt.core.errors import DeadlineExceededError
from wasmrt.core.model import ToolOutput
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.prepared import PreparedTool

T = TypeVar("T")


class BlockingExecutor:
    """An executor that blocks the thread. Coroutines that use it never suspend, so they need no event loop."""

    async def decide(self, approvals: Approvals, request: ApprovalRequest, approver: Approver | None) -> ApprovalAnswer:
        """Wait for the answer to a request."""
        return run_blocking(approvals.decide(request, approver))

    async def preview(self, tool: Tool, params: Any, context: ToolContext) -> str | None:
        """Wait for the tool's preview of a call."""
        return tool.preview(params, context)

    async def run(self, tool: Tool, params: Any, context: ToolContext, seconds: float) -> ToolOutput:
        """Wait for a tool's output, and no longer than `seconds`."""
        if _is_ended_at_deadline(tool):
            return await _await_output(tool.execute(params, context))
        future = _start_in_thread(tool, params, context)
        try:
            return future.result(seconds)
        except FutureTimeoutError as error:
            if future.done():
                raise  # the tool itself raised the error
            _cancel_lifetime(context)
            raise _deadline_error(tool, seconds) from error
        except BaseException:
            _cancel_lifetime(context)
            raise


class AsyncExecutor:
    """An executor for programs with an event loop. It runs blocking tools in separate threads."""

    async def decide(self, approvals: Approvals, request: ApprovalRequest, approver: Approver | None) -> ApprovalAnswer:
        """Wait for the answer to a request."""
        return await approvals.decide(request, approver)

    async def preview(self, tool: Tool, params: Any, context: ToolContext) -> str | None:
        """Wait for the tool's preview of a call."""
        return await asyncio.to_thread(tool.preview, params, context)

    async def run(self, tool: Tool, params: Any, context: ToolContext, seconds: float) -> ToolOutput:
        """Wait for a tool's output, and no longer than `seconds`."""
        if isinstance(tool, PreparedTool):
            return await tool.aexecute(params, context)
        try:
            async with asyncio.timeout(seconds):
                if tool.is_async:
                    return await _await_output(tool.execute(params, context))
                # Use a new thread instead of a pool: a tool that never ends blocks neither other calls nor the loop.
                return await asyncio.wrap_future(_start_in_thread(tool, params, context))
        except TimeoutError:
            _cancel_lifetime(context)
            raise _deadline_error(tool, seconds) from None
        except asyncio.CancelledError:
            _cancel_lifetime(context)
            raise


Executor = BlockingExecutor | AsyncExecutor


def run_blocking(awaitable: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, in a new thread if this thread already has an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaitable)
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            result.append(asyncio.run(awaitable))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), name="wasmrt-wait", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def run_without_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("a step of a blocking call waited for an event loop")


def _is_ended_at_deadline(tool: Tool) -> bool:
    return isinstance(tool, PreparedTool) or tool.ends_at_deadline


def _start_in_thread(tool: Tool, params: Any, context: ToolContext) -> Future[ToolOutput]:
    """Start a tool in a new daemon thread, which neither blocks other calls nor keeps the process alive."""
    future: Future[ToolOutput] = Future()
    work = partial(_run_and_settle, future, copy_context(), tool, params, context)
    threading.Thread(target=work, name="wasmrt-tool", daemon=True).start()
    return future


def _run_and_settle(
    future: Future[ToolOutput], variables: Context, tool: Tool, params: Any, context: ToolContext
) -> None:
    try:
        result = variables.run(_execute_in_thread, tool, params, context)
    except BaseException as error:
        # An asyncio future does not accept StopIteration (PEP 479), so its waiter would wait forever.
        failure = RuntimeError("StopIteration") if isinstance(error, StopIteration) else error
        with suppress(InvalidStateError):  # the waiter has cancelled the future
            future.set_exception(failure)
    else:
        with suppress(InvalidStateError):
            future.set_result(result)


def _execute_in_thread(tool: Tool, params: Any, context: ToolContext) -> ToolOutput:
    returned = tool.execute(params, context)
    return asyncio.run(_await_output(returned)) if isinstance(returned, Awaitable) else returned


async def _await_output(returned: ToolOutput | Awaitable[ToolOutput]) -> ToolOutput:
    return await returned if isinstance(returned, Awaitable) else returned


def _cancel_lifetime(context: ToolContext) -> None:
    if context.lifetime is not None:
        context.lifetime.cancel()


def _deadline_error(tool: Tool, seconds: float) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"{tool.name} took longer than {seconds:g} s", limit=seconds, used=None, setting="timeout_seconds",
        hint="request less at once",
    )  # fmt: skip
