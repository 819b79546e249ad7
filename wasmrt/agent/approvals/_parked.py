"""Requests that outlive the call that made them: a later call that is the same takes the answer."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest
from wasmrt.agent.approvals._rows import State
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.agent.approvals._thread import to_its_end
from wasmrt.core.errors import ApprovalError
from wasmrt.core.limits import APPROVAL_POLL_SECONDS


@dataclass(slots=True, eq=False)
class Parked:
    """A request that waits in the store while nobody holds a call open for it."""

    request: ApprovalRequest
    again: bool = False
    """True once a second call was the same."""
    declined: bool = False
    """True where the person at the client did not want to answer there."""
    asked: int = 0
    """Questions that a client was asked."""
    nonce: str = ""
    """The latest question to a client; an answer to another one is none."""

    @property
    def id(self) -> str:
        """The request's id, for people."""
        return self.request.id

    @property
    def seconds_left(self) -> float:
        """Seconds until it expires; below zero after."""
        return self.request.expires_ms / 1000 - time.time()


class ParkedRequests:
    """The parked requests of one process. For one event loop.

    A request and a later one are the same where their bindings and their conversations are.
    """

    def __init__(self, store: ApprovalStore) -> None:
        self._store = store
        self._parked: dict[tuple[str, str], Parked] = {}

    async def park(self, request: ApprovalRequest) -> Parked:
        """Return the parked request that is the same; else put this one into the store.

        Raises:
            ApprovalError: the store cannot be used, or its queue is full.
        """
        for key in [key for key, each in self._parked.items() if each.seconds_left <= 0]:
            del self._parked[key]
        # SECURITY: a person answered for one conversation, whose texts the question showed; another one asks anew.
        key = (request.trace, request.binding)
        known = self._parked.get(key)
        if known is not None:
            known.again = True
            return known
        parked = self._parked[key] = Parked(request)
        try:
            await to_its_end(self._store.add, request)
        except BaseException:
            self._parked.pop(key, None)
            raise
        return parked

    async def answer(self, parked: Parked, *, seconds: float = 0.0) -> ApprovalAnswer | None:
        """Return the answer of a person and use it up; None while there is none, looked for until `seconds` are over.

        Raises:
            ApprovalError: it was withdrawn, is outdated or has expired; the next call that is the same asks anew.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = await to_its_end(self._store.take, parked.id)
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
        """Answer a request on behalf of its user, and use the answer up; one that was first in the store holds.

        Raises:
            ApprovalError: it was withdrawn, is outdated or has expired.
        """
        own = True
        try:
            await to_its_end(self._answer, parked, answer)
        except ApprovalError as error:
            if error.code != "answered":
                self._forget(parked)
                raise
            own = False
        found = await self.answer(parked)
        if found is None:
            raise ApprovalError("the request has no answer", code="unknown")
        return replace(found, way=answer.way) if own else found

    async def waits(self, parked: Parked) -> bool:
        """Tell whether nobody has answered a request yet, and somebody may.

        Raises:
            ApprovalError: the store cannot be read.
        """
        found = await to_its_end(self._store.get, parked.id)
        return found is not None and found.state is State.PENDING

    async def withdraw(self, parked: Parked) -> None:
        """End a request that nobody will ask for again.

        Raises:
            ApprovalError: the store cannot be written.
        """
        self._forget(parked)
        await to_its_end(self._store.withdraw, parked.id)

    def close(self) -> None:
        """Withdraw what still waits: no other process knows which call would take the answer."""
        for parked in list(self._parked.values()):
            with suppress(ApprovalError):
                self._store.withdraw(parked.id)
        self._parked.clear()

    def _answer(self, parked: Parked, answer: ApprovalAnswer) -> None:
        self._store.answer(parked.id, answer, user=parked.request.user)

    def _forget(self, parked: Parked) -> None:
        for key in [key for key, each in self._parked.items() if each is parked]:
            del self._parked[key]
