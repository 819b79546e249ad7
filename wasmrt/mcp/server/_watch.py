"""Follows the catalog: a tool that another process installs, updates, grants or removes is offered as it is now."""

from __future__ import annotations

import asyncio

from wasmrt.errors import WasmrtError
from wasmrt.mcp.server._connection import Report
from wasmrt.mcp.server._server import Server
from wasmrt.tools import ToolRegistry

POLL_SECONDS = 0.5


async def watch(server: Server, registry: ToolRegistry, report: Report) -> None:
    """Keep a server's offer as the catalog is, until cancelled."""
    installed = registry.installed
    if installed is None:
        return
    seen = installed.trace()
    while True:
        await asyncio.sleep(POLL_SECONDS)
        trace = installed.trace()
        if trace == seen:
            continue
        known = dict(registry.problems)
        try:
            await asyncio.to_thread(installed.refresh)
        except WasmrtError as error:
            report(f"the installed tools cannot be looked at again: {error.message}")
            continue
        seen = trace
        for name, problem in registry.problems.items():
            if known.get(name) is not problem:
                report(f"{name} cannot be used: {problem.message}")
        if server.refresh():
            for sentence in server.offer.problems:
                report(sentence)
