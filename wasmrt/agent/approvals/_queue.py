"""The approver that asks whoever looks: another process answers, by the command line or by the store."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest
from wasmrt.agent.approvals._rows import State
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.agent.approvals._thread import to_its_end
from wasmrt.core.errors import ApprovalError
from wasmrt.core.limits import APPROVAL_POLL_SECONDS

_log = logging.getLogger("wasmrt.approvals")
_FIRST_POLL_SECONDS = 0.02


class QueueApprover:
    """Puts requests into a store, and waits there for the answer of another process or thread."""

    def __init__(self, store: ApprovalStore) -> None:
        self._store = store

    @property
    def store(self) -> ApprovalStore:
        """The store in which answers are given, and those of scope `always` kept."""
        return self._store

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer that was given in the store. Being cancelled withdraws the request there.

        Raises:
            ApprovalError: the request cannot be put there, was ended there, or the store cannot be used.
        """
        try:
            await to_its_end(self._store.add, request)
            return await self._answer(request.id)
        except asyncio.CancelledError:
            with suppress(asyncio.CancelledError):
                await self._withdraw(request.id)
            raise

    async def _answer(self, request_id: str) -> ApprovalAnswer:
        """SECURITY: taking the answer uses it up in the same transaction, so that it is applied once at most."""
        seconds = _FIRST_POLL_SECONDS
        seen: tuple[int, ...] | None = None
        while True:
            version = self._store.version()  # microseconds, where nothing has changed
            if version != seen and self._store.state(request_id) is not State.PENDING:
                answer = await to_its_end(self._store.take, request_id)
                if answer is not None:
                    return answer
            seen = version
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, APPROVAL_POLL_SECONDS)

    async def _withdraw(self, request_id: str) -> None:
        try:
            await to_its_end(self._store.withdraw, request_id)
        except ApprovalError as error:
            _log.warning("a request could not be withdrawn from the queue (%s); it expires there", error)
