"""Serve MCP over a transport, and load the tools in the background."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from wasmrt.cli.serve.options import ServeOptions
from wasmrt.core.telemetry import PrometheusMetrics
from wasmrt.interop.mcp.server.protocol import Server

if TYPE_CHECKING:
    from wasmrt.cli.serve.registry import Served

_HEAD_START_SECONDS = 0.02
"""Delay before the tools are loaded, so that a first message is answered sooner."""


async def serve_tools(
    options: ServeOptions,
    server: Server,
    transport: Coroutine[Any, Any, None],
    ended: asyncio.Event,
    *,
    own_pages: Callable[[], str | None] = lambda: None,
    metrics: PrometheusMetrics | None = None,
) -> int:
    """Serve over a transport until the transport ends or a signal arrives.

    After SIGTERM, serving continues for `options.drain_seconds`.

    `ended` makes the transport finish running requests and end. `own_pages` returns the URL of the approval pages that
    this server also serves, or None. `metrics` measures the calls.

    Raises:
        WasmrtError: the tools cannot be loaded; waiting requests receive an error first.
    """
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:

        async def open_tools() -> None:
            await asyncio.sleep(_HEAD_START_SECONDS)
            served = await asyncio.to_thread(_open, options, stack, own_pages, metrics)
            server.open(served.tools, served.registry.telemetry)
            watching = asyncio.ensure_future(served.watch(server.tools_changed))
            stack.callback(watching.cancel)

        opening = asyncio.ensure_future(open_tools())
        serving = asyncio.ensure_future(transport)

        def drain() -> None:
            delay = options.drain_seconds if server.is_ready else 0.0  # a second signal ends the drain
            server.drain()
            loop.call_later(delay, serving.cancel)

        loop.add_signal_handler(signal.SIGTERM, drain)
        loop.add_signal_handler(signal.SIGINT, serving.cancel)
        await asyncio.wait({opening, serving}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done() and opening.exception() is not None:
            server.fail()
            ended.set()
        await asyncio.wait({serving, opening})
        opening.result()  # raises the error of loading, even if the input ended first
        if not serving.cancelled():
            serving.result()
    return 0


def _open(
    options: ServeOptions,
    stack: ExitStack,
    own_pages: Callable[[], str | None],
    metrics: PrometheusMetrics | None,
) -> Served:
    from wasmrt.cli.serve.registry import open_served  # takes most of the start time

    return open_served(options, stack, own_pages, metrics)
