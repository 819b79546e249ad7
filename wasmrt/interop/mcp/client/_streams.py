"""The two streams of a connection, between a transport and the SDK's session, with the guard on each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
from mcp.shared.message import SessionMessage

from wasmrt.core.errors import GuestOutputError
from wasmrt.interop.mcp.client._guard import MessageGuard

Streams = tuple[Any, Any]
"""To read from and to write to, as the SDK's transports yield them."""


@asynccontextmanager
async def guarded(
    transport: Callable[[], AbstractAsyncContextManager[Streams]], guard: MessageGuard
) -> AsyncIterator[Streams]:
    """Put a guard around a transport of the SDK: a message that breaks a bound ends the connection."""
    async with transport() as (read, write):
        inbound, session_read = anyio.create_memory_object_stream[Any](0)
        session_write, outbound = anyio.create_memory_object_stream[Any](0)

        async def receive() -> None:
            async with inbound:
                async for item in read:
                    if isinstance(item, SessionMessage):
                        try:
                            if not guard.incoming(item.message):
                                continue
                        except GuestOutputError:
                            return
                    try:
                        await inbound.send(item)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        return

        async def send() -> None:
            async with outbound, write:
                async for item in outbound:
                    guard.outgoing(item.message)
                    try:
                        await write.send(item)
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            tasks.start_soon(send)
            try:
                yield session_read, session_write
            finally:
                tasks.cancel_scope.cancel()
                for stream in (inbound, session_read, session_write, outbound):
                    stream.close()
