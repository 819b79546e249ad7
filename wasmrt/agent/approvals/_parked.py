"""Parked requests: the call ends, and the next identical call receives the answer."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from wasmrt.agent.approvals._approvals import run_uncancelled
from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest, State
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.core.errors import ApprovalError
from wasmrt.core.limits import APPROVAL_POLL_SECONDS

DISCONNECTED = "its client has disconnected"
"""The note of a request that was withdrawn because its client is no longer connected."""


@dataclass(slots=True, eq=False)
class Parked:
    """A request in the store that is pending although its call has ended."""

    request: ApprovalRequest
    again: bool = False
    """True if an identical call was made again."""
    declined: bool = False
    """True if the user declined the client's question without an answer."""
    asked: int = 0
    """The number of questions sent to a client."""
    nonce: str = ""
    """The ID of the latest question that was sent to a client. Answers to earlier questions are ignored."""
    shared: bool = False
    """True if another host may continue the request."""
    elsewhere: bool = False
    """True if another process added the request, and may have sent a question to the client."""

    @property
    def id(self) -> str:
        """The ID of the request, for approvers."""
        return self.request.id

    def expects(self, nonce: str) -> bool:
        """Return whether `nonce` is the ID of an unanswered question.

        That is the latest question of this process. If this process has sent none, it is any question of another one.
        """
        return nonce == self.nonce or (self.elsewhere and not self.nonce)

    @property
    def seconds_left(self) -> float:
        """Seconds until the request expires; negative if it has expired."""
        return self.request.expires_ms / 1000 - time.time()


class ParkedRequests:
    """The parked requests of one process, for use by one event loop.

    Two requests are identical if they have the same binding and trace, and were parked for the same client. In a store
    that several hosts share, each host can continue a request that is not bound to a client's connection.
    """

    def __init__(self, store: ApprovalStore) -> None:
        self._store = store
        self.is_shared = store.is_shared
        self._parked: dict[tuple[str, str, str], Parked] = {}

    async def park(self, request: ApprovalRequest, connection: str) -> Parked:
        """Return the identical parked request, or else add this request to the store.

        `connection` identifies the connection of the request's client. If `connection` is empty, the name of the client
        is compared instead.

        Raises:
            ApprovalError: the store cannot be used, or its queue is full.
        """
        for key in [key for key, each in self._parked.items() if each.seconds_left <= 0]:
            del self._parked[key]
        # SECURITY: the user answers for the conversation that the question shows. Another conversation must ask again.
        key = (request.trace, connection or request.client, request.binding)
        known = self._parked.get(key)
        if self.is_shared and not connection:
            joined = await run_uncancelled(self._store.join, request)
            if known is None or known.id != joined.id:
                elsewhere = joined.id != request.id
                known = self._parked[key] = Parked(joined, again=elsewhere, elsewhere=elsewhere, shared=True)
                return known
        if known is not None:
            known.again = True
            return known
        parked = self._parked[key] = Parked(request)
        try:
            await run_uncancelled(self._store.add, request)
        except BaseException:
            self._parked.pop(key, None)
            raise
        return parked

    async def answer(self, parked: Parked, *, seconds: float = 0.0) -> ApprovalAnswer | None:
        """Return the answer and mark the answer as used. If there is none after `seconds`, return None.

        Raises:
            ApprovalError: the request was withdrawn, is outdated or has expired. The next identical call asks again.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = await run_uncancelled(self._store.take, parked.id)
            except ApprovalError:
                self._forget(parked)
                raise
            if found is not None:
                self._forget(parked)
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            await asyncio.sleep(min(left, APPROVAL_POLL_SECONDS))

    async def settle(self, parked: Parked, answer: ApprovalAnswer) -> ApprovalAnswer:
        """Answer a request on behalf of its user, and mark the answer as used.

        If the store already has an answer, that answer is used and returned instead.

        Raises:
            ApprovalError: the request was withdrawn, is outdated or has expired.
        """
        own = True
        try:
            await run_uncancelled(self._store_answer, parked, answer)
        except ApprovalError as error:
            if error.code != "answered":
                self._forget(parked)
                raise
            own = False
        found = await self.answer(parked)
        if found is None:
            raise ApprovalError("the request was not answered", code="unknown")
        return replace(found, way=answer.way) if own else found

    async def waits(self, parked: Parked) -> bool:
        """Return whether the request is still pending.

        Raises:
            ApprovalError: the store cannot be read.
        """
        found = await run_uncancelled(self._store.get, parked.id)
        return found is not None and found.state is State.PENDING

    async def withdraw(self, parked: Parked) -> None:
        """End a request whose call was cancelled. A request that another host may continue stays in the store.

        Raises:
            ApprovalError: the store cannot be written.
        """
        self._forget(parked)
        if not parked.shared:
            await run_uncancelled(self._store.withdraw, parked.id)

    async def withdraw_trace(self, trace: str) -> None:
        """Withdraw the parked requests of a conversation whose client has disconnected.

        Raises:
            ApprovalError: the store cannot be written.
        """
        for parked in [each for each in self._parked.values() if each.request.trace == trace]:
            self._forget(parked)
            await run_uncancelled(self._store.withdraw, parked.id, DISCONNECTED)

    def close(self) -> None:
        """Withdraw the parked requests that no other host can continue: nobody could use their answers."""
        for parked in [each for each in self._parked.values() if not each.shared]:
            with suppress(ApprovalError):
                self._store.withdraw(parked.id, DISCONNECTED)
        self._parked.clear()

    def _store_answer(self, parked: Parked, answer: ApprovalAnswer) -> None:
        self._store.answer(parked.id, answer, user=parked.request.user)

    def _forget(self, parked: Parked) -> None:
        for key in [key for key, each in self._parked.items() if each is parked]:
            del self._parked[key]
