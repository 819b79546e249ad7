"""The stream of what a client sends, which is watched while the client is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_MAX_AHEAD_BYTES = 64 * 1024
"""Sent by a client before the response to what it had asked."""


class GoneError(Exception):
    """The client is not there any more, or does not keep to the bounds; there is nobody to answer."""


class ClientReader(asyncio.StreamReader):
    """A stream that ends what is done for a client when the client goes, or sends far ahead."""

    def __init__(self) -> None:
        super().__init__()
        self._task: asyncio.Task[object] | None = None
        """The one that answers at the moment."""
        self._unread = 0
        self._gone = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """End what is done in here when the client goes.

        Raises:
            GoneError: it has gone.
        """
        if self._gone or self._unread > _MAX_AHEAD_BYTES:
            raise GoneError
        task = self._task = asyncio.current_task()
        assert task is not None
        try:
            yield
        except asyncio.CancelledError:
            if self._task is task or task.uncancel():
                raise  # somebody else ended it
            raise GoneError from None
        else:
            if self._task is not task:  # what ran in here has not minded that it was ended
                task.uncancel()
                raise GoneError
        finally:
            self._task = None

    def unwatch(self) -> None:
        """Leave what runs to whoever ends it now: nothing is ended twice."""
        self._task = None

    async def read(self, n: int = -1) -> bytes:
        """Return what has come, at most `n` bytes; waits for the first."""
        data = await super().read(n)
        self._unread -= len(data)
        return data

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # no transport feeds more
        """Take what has come."""
        super().feed_data(data)
        self._unread += len(data)
        if self._unread > _MAX_AHEAD_BYTES:
            self._leave()

    def feed_eof(self) -> None:
        """Take the end of what is sent."""
        super().feed_eof()
        self._gone = True
        self._leave()

    def set_exception(self, exc: Exception) -> None:
        """Take the end of a connection that broke."""
        super().set_exception(exc)
        self._gone = True
        self._leave()

    def _leave(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
