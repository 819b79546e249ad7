"""Approvals: what was answered before holds, everything else is asked, and nobody's silence approves."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass, replace

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest, ApprovalScope, Approver
from wasmrt.agent.approvals._queue import QueueApprover
from wasmrt.agent.approvals._remembered import Answers, Remembered
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.agent.approvals._thread import to_its_end
from wasmrt.core.errors import ApprovalError, ConfigurationError
from wasmrt.core.limits import APPROVAL_TIMEOUT_SECONDS, MAX_PENDING_APPROVALS

_log = logging.getLogger("wasmrt.approvals")
_WITHDRAWAL_SECONDS = 5.0
"""For an approver to notice that nobody waits for it any more."""
_UPDATED = "the tool was updated meanwhile"


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A request that somebody waits for, and the means to end the wait from any thread."""

    request: ApprovalRequest
    loop: asyncio.AbstractEventLoop
    settled: asyncio.Future[ApprovalAnswer]

    def settle(self, answer: ApprovalAnswer) -> None:
        try:
            self.loop.call_soon_threadsafe(self._settle, answer)
        except RuntimeError:  # its loop is closed, so nobody waits
            _log.debug("a request's event loop was closed before it was answered")

    def _settle(self, answer: ApprovalAnswer) -> None:
        if not self.settled.done():
            self.settled.set_result(answer)


class Approvals:
    """Remembered answers, and the approver who is asked where none holds. Safe from many threads and event loops.

    Args:
        approver: Answers what is asked.
        store: Keeps answers of scope `always`, for other processes too; unless given, that of a `QueueApprover`, and
            with any other approver they last as long as this object.
        timeout_seconds: After it nobody's answer is a denial.

    Raises:
        ConfigurationError: `timeout_seconds` is not positive.

    Example:
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
            raise ConfigurationError(f"an approval's timeout is a positive number, not {timeout_seconds!r}")
        self._approver = approver
        self._store = approver.store if store is None and isinstance(approver, QueueApprover) else store
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._own = Answers()
        self._waiting: set[_Waiting] = set()

    @property
    def approver(self) -> Approver:
        """Who is asked."""
        return self._approver

    @property
    def timeout_seconds(self) -> float:
        """Seconds after which nobody's answer is a denial."""
        return self._timeout_seconds

    def remembered(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Return the answer that a person gave before and that holds for this request, or None."""
        with self._lock:
            found = self._own.find(request)
        if self._store is not None and (found is None or found.approved):
            try:
                kept = self._store.remembered(request)
            except ApprovalError as error:
                _log.warning("remembered approvals cannot be read (%s); every call asks", error)
                return None if found is None or found.approved else found.answer
            found = kept or found
        return None if found is None else found.answer

    async def decide(self, request: ApprovalRequest, approver: Approver | None = None) -> ApprovalAnswer:
        """Return the answer to a request: a remembered one, the approver's, or after the timeout a denial.

        `approver` is one for this request alone, in place of the one that the others ask.

        Cancelling it withdraws the request, and an answer afterwards changes nothing. An approver that fails denies;
        of more than 256 requests that wait at once the later ones are denied.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(request, loop, loop.create_future())
        with self._lock:  # before anything is looked up, so that no answer falls in between
            if has_place := len(self._waiting) < MAX_PENDING_APPROVALS:
                self._waiting.add(waiting)
        if not has_place:
            full = ApprovalAnswer(approved=False, note="too many requests wait for an answer already")
            return self.remembered(request) or full
        try:
            return self.remembered(request) or await self._asked(waiting, approver or self._approver)
        finally:
            with self._lock:
                self._waiting.discard(waiting)

    def tool_changed(self, tool: str, *, digest: str, grant: str) -> None:
        """Withdraw the requests that wait for another version or grant of a tool: they are denied, and may ask again.

        For whoever exchanges tools. Remembered answers need no such call; they are bound to the digest.

        Raises:
            ApprovalError: the store cannot be written; those who wait in this process are told all the same.
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
        """Forget what was answered for one session."""
        with self._lock:
            for answer in [a for a in self._own if a.scope is ApprovalScope.SESSION and a.trace == trace]:
                self._own.drop(answer)

    async def _asked(self, waiting: _Waiting, approver: Approver) -> ApprovalAnswer:
        request = waiting.request
        seconds = min(self._timeout_seconds, request.expires_ms / 1000 - time.time())
        if seconds <= 0:
            return ApprovalAnswer(approved=False, note="the request had expired before anybody was asked")
        asking = asyncio.ensure_future(_caught(request, approver))
        try:
            await asyncio.wait({asking, waiting.settled}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            settled = waiting.settled.result() if waiting.settled.done() else None
            # SECURITY: of two answers in the same moment a denial holds, such as that of an update.
            if asking.done() and (settled is None or settled.approved):
                return await self._kept(request, asking.result())
            if settled is not None:
                return settled
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait({asking}, timeout=_WITHDRAWAL_SECONDS)
        note = f"nobody answered within {seconds:.0f} seconds"
        return ApprovalAnswer(approved=False, note=note, timed_out=True)

    async def _kept(self, request: ApprovalRequest, answer: ApprovalAnswer) -> ApprovalAnswer:
        """Remember what is to be remembered, and let it answer the requests that wait and fit."""
        if answer.scope is ApprovalScope.ONCE:
            return answer
        if not answer.remembered:
            try:
                problem = await self._remember(request, answer)
            except ApprovalError as error:
                problem = error.message
            if problem is not None:
                _log.warning("an approval holds for one call only: %s", problem)
                return replace(answer, scope=ApprovalScope.ONCE, note=f"not remembered: {problem}")
        with self._lock:
            others = [w for w in self._waiting if w.request is not request]
        for waiting in others:
            if (found := self.remembered(waiting.request)) is not None:
                waiting.settle(found)
        return answer

    async def _remember(self, request: ApprovalRequest, answer: ApprovalAnswer) -> str | None:
        """Remember an answer; return why that cannot be."""
        if not request.may_be_remembered:
            return "the tool has no digest that it could be bound to"
        if answer.scope is ApprovalScope.SESSION and not request.trace:
            return "the call belongs to no session"
        kept = Remembered.of(request, answer, now_ms=time.time_ns() // 1_000_000)
        if kept.scope is ApprovalScope.ALWAYS and self._store is not None:
            await to_its_end(self._store.remember, kept)
            return None
        with self._lock:
            self._own.add(kept)
        return None


async def _caught(request: ApprovalRequest, approver: Approver) -> ApprovalAnswer:
    """Return an approver's answer. SECURITY: an approver that fails, or answers with something else, has not approved.

    The text of a foreign error may hold anything, and the note of an answer may reach a log: its type is enough. It may
    reach a model too, which never sees the id of a request.
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
        return ApprovalAnswer(approved=False, note="the approver gave up")
    if not isinstance(answer, ApprovalAnswer):
        return ApprovalAnswer(approved=False, note=f"the approver returned {type(answer).__name__}, and no answer")
    return answer
