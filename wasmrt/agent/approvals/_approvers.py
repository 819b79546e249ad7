"""Approvers that deny requests, call a function, or wait for an answer in the store."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Thread
from typing import ParamSpec, TypeVar

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest, State
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.core.errors import ApprovalError
from wasmrt.core.limits import APPROVAL_POLL_SECONDS

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_new_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a new thread and return its result.

    An answer can take minutes, which would block an executor's threads and the exit of the process. If the caller is
    cancelled, the function continues and its result is discarded.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failure = None, None
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            # A future does not take StopIteration (PEP 479).
            failure = RuntimeError("StopIteration") if isinstance(error, StopIteration) else error
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(settle, result, failure)

    Thread(target=run, name="wasmrt-approval", daemon=True).start()
    return await done


async def run_uncancelled(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a short function in a thread. If the caller is cancelled, raise only after the function has ended."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from (None if work.cancelled() else work.exception())
    return work.result()


Given = ApprovalAnswer | bool


class DenyApprover:
    """Denies every request, for processes that have no approver."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Deny the request."""
        return ApprovalAnswer(approved=False, note="no approver is available")


class CallbackApprover:
    """Calls a function for each request. The function returns an `ApprovalAnswer`, or True or False for this call only.

    A plain function runs in a separate thread. A coroutine function is cancelled if the request is withdrawn.

    Examples:
        >>> from wasmrt import ApprovalAnswer, CallbackApprover
        >>> approver = CallbackApprover(lambda request: ApprovalAnswer(approved=request.tool == "search", by="ann"))
    """

    def __init__(self, function: Callable[[ApprovalRequest], Given | Awaitable[Given]]) -> None:
        self._function = function

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer that the function gives."""
        if inspect.iscoroutinefunction(self._function):
            answer = await self._function(request)
        else:
            answer = await run_in_new_thread(self._function, request)
            if inspect.isawaitable(answer):
                answer = await answer
        return answer if isinstance(answer, ApprovalAnswer) else ApprovalAnswer(approved=answer)


_log = logging.getLogger("wasmrt.approvals")
_FIRST_POLL_SECONDS = 0.02


class QueueApprover:
    """Adds requests to a store, and waits until another process or thread answers them there."""

    def __init__(self, store: ApprovalStore) -> None:
        self._store = store

    @property
    def store(self) -> ApprovalStore:
        """The store of the requests and of the answers of scope `always`."""
        return self._store

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Add the request to the store, and return its answer. If this coroutine is cancelled, withdraw the request.

        Raises:
            ApprovalError: the request cannot be added, it was ended without an answer, or the store cannot be used.
        """
        try:
            await run_uncancelled(self._store.add, request)
            return await self._answer(request.id)
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError):
                await self._withdraw(request.id)
            raise

    async def _answer(self, request_id: str) -> ApprovalAnswer:
        """Wait for the answer to a request.

        SECURITY: the answer is read and marked as used in one transaction, so that it is applied at most once.
        """
        seconds = _FIRST_POLL_SECONDS
        last: tuple[int, ...] | None = None
        while True:
            # From a file, this takes microseconds if nothing changed.
            shared = self._store.is_shared
            version = await run_uncancelled(self._store.version) if shared else self._store.version()
            if version != last and self._store.state(request_id) is not State.PENDING:
                answer = await run_uncancelled(self._store.take, request_id)
                if answer is not None:
                    return answer
            last = version
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, APPROVAL_POLL_SECONDS)

    async def _withdraw(self, request_id: str) -> None:
        try:
            await run_uncancelled(self._store.withdraw, request_id)
        except ApprovalError as error:
            _log.warning("cannot withdraw a request from the queue (%s); it will expire", error)
