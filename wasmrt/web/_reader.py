"""The stream of what a client sends, which is watched while the client is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

MAX_AHEAD_BYTES = 64 * 1024
"""Sent by a client before the response to what it had asked."""


class GoneError(Exception):
    """The client is not there any more, or does not keep to the bounds; there is nobody to answer."""


class ClientReader(asyncio.StreamReader):
    """A stream that ends what is done for a client when the client goes, or sends far ahead."""

    def __init__(self) -> None:
        super().__init__()
        self._task: asyncio.Task[object] | None = None
        """The one that answers at the moment."""
        self._ahead = 0
        self._gone = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """End what is done in here when the client goes.

        Raises:
            GoneError: it has gone.
        """
        if self._gone:
            raise GoneError
        task = self._task = asyncio.current_task()
        assert task is not None
        self._ahead = 0
        try:
            yield
        except asyncio.CancelledError:
            if self._task is task or task.uncancel():
                raise  # somebody else ended it
            raise GoneError from None
        finally:
            self._task = None

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # no transport feeds more
        """Take what has come."""
        super().feed_data(data)
        self._ahead += len(data)
        if self._ahead > MAX_AHEAD_BYTES:
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
