"""A server while it serves: its tools are loaded beside the first answers, and closed when it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from wasmrt.cli.serve.options import ServeOptions
from wasmrt.interop.mcp.server.protocol import Server

if TYPE_CHECKING:
    from wasmrt.cli.serve.registry import Served

_HEAD_START_SECONDS = 0.02
"""For a first message that is there already: it is answered before the tools are loaded."""


async def serve_tools(
    options: ServeOptions,
    server: Server,
    transport: Coroutine[Any, Any, None],
    ended: asyncio.Event,
    *,
    own_pages: Callable[[], str | None] = lambda: None,
) -> int:
    """Serve over a transport until it ends, or a signal comes; `ended` has it answer what runs, and end.

    `own_pages` finds the address of the pages of approvals beside it, where there are some.

    Raises:
        WasmrtError: the tools cannot be loaded; who waits for them is told before.
    """
    loop = asyncio.get_running_loop()
    with ExitStack() as held:

        async def open_tools() -> None:
            await asyncio.sleep(_HEAD_START_SECONDS)
            served = await asyncio.to_thread(_open, options, held, own_pages)
            server.open(served.tools, served.registry.telemetry)
            watching = asyncio.ensure_future(served.watch(server.tools_changed))
            held.callback(watching.cancel)

        opening = asyncio.ensure_future(open_tools())
        serving = asyncio.ensure_future(transport)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        await asyncio.wait({opening, serving}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done() and opening.exception() is not None:
            server.fail()
            ended.set()
        await asyncio.wait({serving, opening})
        opening.result()  # its error is the command's, also where the input ended at once
        if not serving.cancelled():
            serving.result()
    return 0


def _open(options: ServeOptions, held: ExitStack, own_pages: Callable[[], str | None]) -> Served:
    from wasmrt.cli.serve.registry import open_served  # most of the start, behind the first answer

    return open_served(options, held, own_pages)
