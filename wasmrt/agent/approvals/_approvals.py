"""Approvals and approvers: apply remembered answers, otherwise ask an approver, and deny after a timeout."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from typing import ParamSpec, TypeVar

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest, ApprovalScope, Approver, State
from wasmrt.agent.approvals._owners import current_user_name
from wasmrt.agent.approvals._remembered import Answers, Remembered
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.agent.approvals._targets import network_hosts
from wasmrt.core.errors import ApprovalError, ConfigurationError
from wasmrt.core.limits import APPROVAL_POLL_SECONDS, APPROVAL_TIMEOUT_SECONDS, MAX_PENDING_APPROVALS

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


_WITHDRAWAL_SECONDS = 5.0
"""Maximum time that a cancelled approver has to withdraw its request."""
_UPDATED = "the tool was updated while the request was pending"


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A pending request, and the future of its answer. Any thread may set the answer with `settle`."""

    request: ApprovalRequest
    loop: asyncio.AbstractEventLoop
    settled: asyncio.Future[ApprovalAnswer]

    def settle(self, answer: ApprovalAnswer) -> None:
        try:
            self.loop.call_soon_threadsafe(self._settle, answer)
        except RuntimeError:  # the event loop is closed
            _log.debug("the event loop of a request was closed before the answer")

    def _settle(self, answer: ApprovalAnswer) -> None:
        if not self.settled.done():
            self.settled.set_result(answer)


class Approvals:
    """An approver that remembers answers. Safe for use by many threads and event loops.

    Args:
        approver: Answers the requests to which no remembered answer applies.
        store: Stores answers of scope `always` for all processes, and in a shared database also those of scope
            `session`. The default for a `QueueApprover` is its own store. Without a store, such answers are remembered
            as long as this object exists.
        timeout_seconds: The time after which a request without an answer is denied.

    Raises:
        ConfigurationError: `timeout_seconds` is not positive.

    Examples:
        >>> from wasmrt import Approvals, CallbackApprover, ToolRegistry
        >>> approvals = Approvals(CallbackApprover(lambda request: False), timeout_seconds=60)
        >>> ToolRegistry(approvals=approvals).approvals.timeout_seconds
        60
    """

    def __init__(
        self,
        approver: Approver,
        *,
        store: ApprovalStore | None = None,
        timeout_seconds: float = APPROVAL_TIMEOUT_SECONDS,
    ) -> None:
        if not timeout_seconds > 0:
            raise ConfigurationError(f"approval timeout: expected a positive number, got {timeout_seconds!r}")
        self._approver = approver
        self._store = approver.store if store is None and isinstance(approver, QueueApprover) else store
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._own = Answers()
        self._waiting: set[_Waiting] = set()

    @property
    def approver(self) -> Approver:
        """The approver that answers requests to which no remembered answer applies."""
        return self._approver

    @property
    def timeout_seconds(self) -> float:
        """Seconds after which an unanswered request is denied."""
        return self._timeout_seconds

    def remembered(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Return the remembered answer that applies to a request, or None."""
        with self._lock:
            found = self._own.find(request)
        if self._store is not None and (found is None or found.approved):
            try:
                stored = _find_stored(self._store, request)
            except ApprovalError as error:
                _log.warning("cannot read remembered approvals (%s); asking for every call", error)
                return None if found is None or found.approved else found.answer
            found = stored or found
        return None if found is None else found.answer

    async def decide(self, request: ApprovalRequest, approver: Approver | None = None) -> ApprovalAnswer:
        """Return the answer to a request: a remembered answer, the approver's answer, or a denial after the timeout.

        `approver` replaces the usual approver for this request. The request is denied if the approver fails, or if 256
        other requests are pending. If this coroutine is cancelled, the request is withdrawn, and later answers have no
        effect.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(request, loop, loop.create_future())
        with self._lock:  # register first, so that an answer during the lookup is not missed
            if has_capacity := len(self._waiting) < MAX_PENDING_APPROVALS:
                self._waiting.add(waiting)
        if not has_capacity:
            full = ApprovalAnswer(approved=False, note="too many requests are already waiting for approval")
            return self.remembered(request) or full
        try:
            return self.remembered(request) or await self._ask(waiting, approver or self._approver)
        finally:
            with self._lock:
                self._waiting.discard(waiting)

    def tool_changed(self, tool: str, *, digest: str, grant: str) -> None:
        """Deny the pending requests for another version or grant of a tool. Repeated calls create new requests.

        Call this after replacing a tool. `digest` and `grant` are those of the new version. Remembered answers need no
        update, because they do not apply to another version.

        Raises:
            ApprovalError: the store cannot be written. The requests of this process were denied nevertheless.
        """
        try:
            if self._store is not None:
                self._store.tool_changed(tool, digest=digest, grant=grant)
        finally:
            with self._lock:
                waiting = [w for w in self._waiting if w.request.tool == tool]
            for each in waiting:
                if (each.request.digest, each.request.grant) != (digest, grant):
                    each.settle(ApprovalAnswer(approved=False, note=_UPDATED))

    def end_session(self, trace: str) -> None:
        """Forget the answers that were remembered for one session, on all hosts that share the store.

        Raises:
            ApprovalError: the store cannot be written. The answers of this process were forgotten nevertheless.
        """
        with self._lock:
            for answer in [a for a in self._own if a.scope is ApprovalScope.SESSION and a.trace == trace]:
                self._own.drop(answer)
        if self._store is not None and self._store.sessions is not None:
            self._store.sessions.end(trace)

    async def _ask(self, waiting: _Waiting, approver: Approver) -> ApprovalAnswer:
        request = await self._with_new_hosts(waiting.request)
        seconds = min(self._timeout_seconds, request.expires_ms / 1000 - time.time())
        if seconds <= 0:
            return ApprovalAnswer(approved=False, note="the request expired before the approver saw it")
        asking = asyncio.ensure_future(_ask_safely(request, approver))
        try:
            await asyncio.wait({asking, waiting.settled}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            settled = waiting.settled.result() if waiting.settled.done() else None
            # SECURITY: if two answers arrive at the same time, a denial wins, such as one for an updated tool.
            if asking.done() and (settled is None or settled.approved):
                answer = asking.result()
                # A denial without a name can also result from a failure, so only approvals get the user's name.
                named = replace(answer, by=current_user_name()) if answer.approved and not answer.by else answer
                if named.approved:
                    await self._add_known_hosts(request, named)
                return await self._apply(waiting.request, named)
            if settled is not None:
                return settled
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait({asking}, timeout=_WITHDRAWAL_SECONDS)
        note = f"the request was not answered within {seconds:.0f} seconds"
        return ApprovalAnswer(approved=False, note=note, timed_out=True)

    async def _with_new_hosts(self, request: ApprovalRequest) -> ApprovalRequest:
        """Return the request with its new hosts. Without a store, no host counts as new."""
        if self._store is None or not network_hosts(request.params, request.effects):
            return request
        try:
            return replace(request, new_hosts=await run_uncancelled(self._store.hosts.find_new, request))
        except ApprovalError as error:
            _log.warning("cannot read the known hosts (%s)", error)
            return request

    async def _add_known_hosts(self, request: ApprovalRequest, answer: ApprovalAnswer) -> None:
        given = request.params if answer.params is None else answer.params
        if self._store is not None and (hosts := network_hosts(given, request.effects)):
            try:
                await run_uncancelled(self._store.hosts.add, request, hosts)
            except ApprovalError as error:
                _log.warning("cannot store the hosts of an approved call (%s)", error)

    async def _apply(self, request: ApprovalRequest, answer: ApprovalAnswer) -> ApprovalAnswer:
        """Remember an answer according to its scope, and apply it to the other pending requests that it matches."""
        if answer.scope is ApprovalScope.ONCE:
            return answer
        if not answer.remembered:
            try:
                problem = await self._remember(request, answer)
            except ApprovalError as error:
                problem = error.message
            if problem is not None:
                _log.warning("an approval applies to one call only: %s", problem)
                return replace(answer, scope=ApprovalScope.ONCE, note=f"not remembered: {problem}")
        with self._lock:
            others = [w for w in self._waiting if w.request is not request]
        for waiting in others:
            if (found := self.remembered(waiting.request)) is not None:
                waiting.settle(found)
        return answer

    async def _remember(self, request: ApprovalRequest, answer: ApprovalAnswer) -> str | None:
        """Remember an answer. Return None, or the reason if the answer cannot be remembered."""
        if not request.may_be_remembered:
            return "the tool has no digest to bind the answer to"
        if answer.scope is ApprovalScope.SESSION and not request.trace:
            return "the call does not belong to a session"
        remembered = Remembered.of(request, answer, now_ms=time.time_ns() // 1_000_000)
        if remembered.scope is ApprovalScope.ALWAYS and self._store is not None:
            await run_uncancelled(self._store.remember, remembered)
            return None
        if remembered.scope is ApprovalScope.SESSION and self._store is not None and self._store.sessions is not None:
            await run_uncancelled(self._store.sessions.add, remembered)
            return None
        with self._lock:
            self._own.add(remembered)
        return None


def _find_stored(store: ApprovalStore, request: ApprovalRequest) -> Remembered | None:
    """Return the stored answer that applies to a request. SECURITY: if several answers apply, a denial wins."""
    in_session = None if store.sessions is None or not request.trace else store.sessions.find(request)
    if in_session is not None and not in_session.approved:
        return in_session
    return store.remembered(request) or in_session


async def _ask_safely(request: ApprovalRequest, approver: Approver) -> ApprovalAnswer:
    """Return an approver's answer.

    SECURITY: if the approver fails, or returns an object of another type, the answer is a denial. Its note could be
    logged or shown to a model, so the note contains only the type of an unknown error, and never the ID of the request.
    """
    try:
        answer: object = await approver.ask(request)
    except ApprovalError as error:
        return ApprovalAnswer(approved=False, note=error.message.replace(request.id, "the request"))
    except Exception as error:
        _log.warning("an approver failed with %s; the call is denied", type(error).__name__)
        return ApprovalAnswer(approved=False, note=f"the approver failed ({type(error).__name__})")
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        return ApprovalAnswer(approved=False, note="the approver was cancelled")
    if not isinstance(answer, ApprovalAnswer):
        note = f"the approver failed: expected ApprovalAnswer, got {type(answer).__name__}"
        return ApprovalAnswer(approved=False, note=note)
    return answer
