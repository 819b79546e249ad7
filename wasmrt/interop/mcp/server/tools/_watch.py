"""Follows the catalog: a tool that another process installs, updates, grants or removes is offered as it is now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from wasmrt.agent.registry import ToolRegistry
from wasmrt.core.errors import WasmrtError
from wasmrt.interop.mcp.server.tools._toolbox import ServedTools

POLL_SECONDS = 0.5


async def watch(
    tools: ServedTools, registry: ToolRegistry, changed: Callable[[], None], report: Callable[[str], None]
) -> None:
    """Keep the offer of a server as the catalog is, and call `changed` after each change, until cancelled."""
    installed = registry.installed
    if installed is None:
        return
    seen: tuple[object, ...] = ()  # what was changed since the registry was loaded is found at once
    while True:
        trace = installed.trace()
        if trace != seen:
            known = dict(registry.problems)
            try:
                await asyncio.to_thread(installed.refresh)
            except WasmrtError as error:
                report(f"the installed tools cannot be looked at again: {error.message}")
            else:
                seen = trace
                for name, problem in registry.problems.items():
                    if known.get(name) is not problem:
                        report(f"{name} cannot be used: {problem.message}")
                if tools.refresh():
                    changed()
        await asyncio.sleep(POLL_SECONDS)
