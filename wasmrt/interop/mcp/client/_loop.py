"""The event loop of all connections, on a thread of its own: sessions outlive calls, and callers may be anywhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from wasmrt.core.errors import CancelledError, RuntimeClosedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.interop.mcp.client._spans import mark_thread, without_context

T = TypeVar("T")
_END_SECONDS = 10.0


class LoopThread:
    """An event loop that runs until it is closed. It is started when it is first needed; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, coroutine: Coroutine[Any, Any, T], lifetime: Lifetime) -> T:
        """Run a coroutine in the loop, and wait for it no longer than `lifetime` has.

        Raises:
            DeadlineExceededError, CancelledError: the time was over before it; it is cancelled then.
            RuntimeClosedError: the loop is closed.
        """
        try:
            loop = self._started()
        except BaseException:
            coroutine.close()
            raise
        with without_context():
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        lifetime.on_end(partial(_cancel, future))
        try:
            return future.result(lifetime.remaining())
        except (FutureTimeoutError, FutureCancelledError):
            if future.done() and not future.cancelled():
                raise  # the coroutine's own
            future.cancel()
            raise lifetime.interruption() or CancelledError("the call was cancelled") from None

    def close(self) -> None:
        """Cancel what runs, and end the loop and its thread."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        with suppress(FutureTimeoutError, FutureCancelledError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(_END_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_END_SECONDS)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeClosedError("the MCP servers of this registry were closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="wasmrt-mcp", daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    mark_thread()
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _cancel(future: Future[Any]) -> None:
    future.cancel()


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks or {asyncio.create_task(asyncio.sleep(0))}, timeout=_END_SECONDS - 1)
