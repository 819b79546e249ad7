"""The forms that a client was sent, and its answers to them: in the older revisions, by the number of each."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from wasmrt.interop.mcp.server.protocol._wire import Id, Response

MAX_TAKEN_BACK = 64
"""Of these the number is remembered: an answer to a form may be on its way when it is taken back."""


class Questions:
    """The forms of one session: those that wait for an answer, and the last that were taken back."""

    def __init__(self) -> None:
        self._waiting: dict[Id, asyncio.Future[dict[str, Any] | None]] = {}
        self._taken_back: deque[Id] = deque(maxlen=MAX_TAKEN_BACK)

    async def answer(self, number: Id) -> dict[str, Any] | None:
        """Wait for the answer to a form that was just sent; None for an error. Cancelling takes the form back."""
        waiting: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            return await waiting
        except asyncio.CancelledError:
            self._taken_back.append(number)
            raise
        finally:
            del self._waiting[number]

    def settle(self, response: Response) -> bool:
        """Take an answer; return False for one to a form that was never sent, or that has its answer.

        One to a form that was taken back is late, which is no fault of a client's: it says nothing any more.
        """
        waiting = self._waiting.get(response.id)
        if waiting is None:
            return response.id in self._taken_back
        if waiting.done():
            return waiting.cancelled()
        waiting.set_result(response.result)
        return True

    def end(self) -> None:
        """Let nobody wait any longer."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)
