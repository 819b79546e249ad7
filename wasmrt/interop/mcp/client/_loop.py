"""The event loop of all connections, which runs in a separate thread, and the telemetry of their calls."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from mcp.shared import _otel
from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN

from wasmrt.core.errors import CancelledError, RuntimeClosedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.telemetry import current_operation
from wasmrt.core.telemetry.names import (
    CLIENT_DURATION,
    METHOD_NAME,
    PROTOCOL_VERSION,
    SERVER_ADDRESS,
    SERVER_PORT,
    TRANSPORT,
)

T = TypeVar("T")
_METHOD = "tools/call"
_thread = threading.local()


class _Tracer:
    """The SDK's tracer, except that it starts no spans in wasmrt's connection threads."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    @contextmanager
    def start_as_current_span(self, *args: Any, **settings: Any) -> Iterator[Any]:
        """Start a span for the SDK. In a thread of `LoopThread`, leave the current span unchanged."""
        if getattr(_thread, "is_ours", False):
            yield INVALID_SPAN
            return
        with self._tracer.start_as_current_span(*args, **settings) as span:
            yield span


def _suppress_sdk_spans() -> None:
    """Stop the SDK from starting spans in this thread.

    SECURITY: the SDK's spans contain the text of a server's errors and of exceptions. The SDK has no setting for its
    spans, and a sampler would affect the whole program. So the first connection replaces the SDK's tracer; other
    threads are not affected.
    """
    _thread.is_ours = True
    if not isinstance(_otel._tracer, _Tracer):
        _otel._tracer = _Tracer(_otel._tracer)  # type: ignore[assignment]


@contextmanager
def without_context() -> Iterator[None]:
    """Run the block without the caller's span and baggage."""
    token = context.attach(Context())
    try:
        yield
    finally:
        context.detach(token)


async def call_with_telemetry(call: Callable[[], Awaitable[T]], *, version: str, address: tuple[str, int] | None) -> T:
    """Call a server. If telemetry is enabled, record the call, and propagate the trace context of the current span."""
    operation = current_operation()
    if operation is None:
        return await call()
    facts: dict[Any, str | int] = {METHOD_NAME: _METHOD, PROTOCOL_VERSION: version}
    facts[TRANSPORT] = "pipe" if address is None else "tcp"
    if address is not None:
        facts |= {SERVER_ADDRESS: address[0], SERVER_PORT: address[1]}
    operation.note(facts)
    started, failed = time.monotonic(), True
    try:
        with operation.alone():
            result = await call()
        failed = getattr(result, "is_error", False) is True
        return result
    finally:
        operation.measure(CLIENT_DURATION, time.monotonic() - started, tuple(facts), failed=failed)


_END_SECONDS = 10.0


class LoopThread:
    """An event loop in a thread, started at first use. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, coroutine: Coroutine[Any, Any, T], lifetime: Lifetime) -> T:
        """Run a coroutine in the loop, and wait for it within `lifetime`.

        Raises:
            DeadlineExceededError, CancelledError: the coroutine took too long, or was cancelled.
            RuntimeClosedError: the loop is closed.
        """
        try:
            loop = self._start()
        except BaseException:
            coroutine.close()
            raise
        with without_context():
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            with lifetime.cancelled.waking(partial(_cancel, future)):
                return future.result(lifetime.remaining())
        except (FutureTimeoutError, FutureCancelledError):
            if future.done() and not future.cancelled():
                raise  # raised by the coroutine
            future.cancel()
            raise lifetime.interruption() or CancelledError("the call was cancelled") from None

    def close(self) -> None:
        """Cancel running coroutines, and end the loop and its thread."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        with suppress(FutureTimeoutError, FutureCancelledError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(_END_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_END_SECONDS)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeClosedError("the MCP servers of this registry were closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="wasmrt-mcp", daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    _suppress_sdk_spans()
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
