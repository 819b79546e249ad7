"""Trace context and telemetry of the calls to MCP servers.

The SDK passes on whatever context it finds, with the program's baggage, and has spans of its own, which say what a
server answered. Here it finds the span of the call alone, where telemetry is turned on, and nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mcp.shared import _otel
from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN

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


class _NotHere:
    """The SDK's tracer, but for the threads of our own connections."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    @contextmanager
    def start_as_current_span(self, *args: Any, **settings: Any) -> Iterator[Any]:
        """Start a span as the SDK asks for it; in our own threads none is started, and the current one stays."""
        if getattr(_thread, "is_ours", False):
            yield INVALID_SPAN
            return
        with self._tracer.start_as_current_span(*args, **settings) as span:
            yield span


# SECURITY: its spans have the text of a server's errors, and of exceptions.
_otel._tracer = _NotHere(_otel._tracer)  # type: ignore[assignment]


def mark_thread() -> None:
    """Have the SDK start no spans in this thread."""
    _thread.is_ours = True


@contextmanager
def without_context() -> Iterator[None]:
    """Have what is started within find no span and no baggage of whoever asked for it."""
    token = context.attach(Context())
    try:
        yield
    finally:
        context.detach(token)


async def told(call: Callable[[], Awaitable[T]], *, version: str, address: tuple[str, int] | None) -> T:
    """Make a call at a server; where somebody wants to know, tell of it, and pass the trace on to the server."""
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
