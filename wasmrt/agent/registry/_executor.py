"""Executors: how a call waits for an approver and for its tool, in blocking and in asynchronous programs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Protocol, TypeVar

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, Approvals, Approver
from wasmrt.agent.registry._tool import Tool
from wasmrt.core.errors import DeadlineExceededError
from wasmrt.core.model import ToolOutput
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.prepared import PreparedTool

T = TypeVar("T")


class Executor(Protocol):
    """A way of waiting."""

    async def decide(self, approvals: Approvals, request: ApprovalRequest, approver: Approver | None) -> ApprovalAnswer:
        """Wait for the answer to a request."""

    async def preview(self, tool: Tool, params: Any) -> str | None:
        """Wait for the tool's preview of a call."""

    async def run(self, tool: Tool, params: Any, context: ToolContext, seconds: float) -> ToolOutput:
        """Wait for a tool's output, and no longer than `seconds`."""


class BlockingExecutor:
    """Block the thread. A coroutine with this executor never suspends, and needs no event loop."""

    async def decide(self, approvals: Approvals, request: ApprovalRequest, approver: Approver | None) -> ApprovalAnswer:
        """Wait for the answer to a request."""
        return blocking(approvals.decide(request, approver))

    async def preview(self, tool: Tool, params: Any) -> str | None:
        """Wait for the tool's preview of a call."""
        return tool.preview(params)

    async def run(self, tool: Tool, params: Any, context: ToolContext, seconds: float) -> ToolOutput:
        """Wait for a tool's output, and no longer than `seconds`."""
        if _ends_by_itself(tool):
            return await _settled(tool.execute(params, context))
        future = _started(tool, params, context)
        try:
            return future.result(seconds)
        except FutureTimeoutError as error:
            if future.done():
                raise  # the tool's own
            _end(context)
            raise _late(tool, seconds) from error
        except BaseException:
            _end(context)
            raise


class AsyncExecutor:
    """Executor in the event loop; a tool that blocks runs in a thread."""

    async def decide(self, approvals: Approvals, request: ApprovalRequest, approver: Approver | None) -> ApprovalAnswer:
        """Wait for the answer to a request."""
        return await approvals.decide(request, approver)

    async def preview(self, tool: Tool, params: Any) -> str | None:
        """Wait for the tool's preview of a call."""
        return await asyncio.to_thread(tool.preview, params)

    async def run(self, tool: Tool, params: Any, context: ToolContext, seconds: float) -> ToolOutput:
        """Wait for a tool's output, and no longer than `seconds`."""
        if isinstance(tool, PreparedTool):
            return await tool.aexecute(params, context)
        try:
            async with asyncio.timeout(seconds):
                if tool.is_async:
                    return await _settled(tool.execute(params, context))
                # A thread of its own, and no pool: neither other calls nor the end of the loop wait for one that stays.
                return await asyncio.wrap_future(_started(tool, params, context))
        except TimeoutError:
            _end(context)
            raise _late(tool, seconds) from None
        except asyncio.CancelledError:
            _end(context)
            raise


def blocking(awaitable: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in this thread or, where that has an event loop already, in another one."""
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


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise AssertionError("a step waited for an event loop in a call that has none")


def _ends_by_itself(tool: Tool) -> bool:
    return isinstance(tool, PreparedTool) or tool.ends_at_deadline


def _started(tool: Tool, params: Any, context: ToolContext) -> Future[ToolOutput]:
    """Start a tool on a thread of its own, which keeps neither other calls nor the process from ending."""
    future: Future[ToolOutput] = Future()
    work = partial(_settle, future, copy_context(), tool, params, context)
    threading.Thread(target=work, name="wasmrt-tool", daemon=True).start()
    return future


def _settle(future: Future[ToolOutput], variables: Context, tool: Tool, params: Any, context: ToolContext) -> None:
    try:
        result = variables.run(_finished, tool, params, context)
    except BaseException as error:
        # A future of asyncio takes no StopIteration (PEP 479): its waiter would never be told.
        failure = RuntimeError("StopIteration") if isinstance(error, StopIteration) else error
        with suppress(InvalidStateError):  # nobody waits any more
            future.set_exception(failure)
    else:
        with suppress(InvalidStateError):
            future.set_result(result)


def _finished(tool: Tool, params: Any, context: ToolContext) -> ToolOutput:
    returned = tool.execute(params, context)
    return asyncio.run(_settled(returned)) if isinstance(returned, Awaitable) else returned


async def _settled(returned: ToolOutput | Awaitable[ToolOutput]) -> ToolOutput:
    return await returned if isinstance(returned, Awaitable) else returned


def _end(context: ToolContext) -> None:
    if context.lifetime is not None:
        context.lifetime.cancel()


def _late(tool: Tool, seconds: float) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"{tool.name} took longer than {seconds:g} s", limit=seconds, used=None, setting="timeout_seconds",
        hint="ask for less at once",
    )  # fmt: skip
