"""The registry of one command: everything that the configuration holds, in a view where one was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, Approver
from wasmrt.agent.registry import ToolRegistry, ToolView, load_registry
from wasmrt.cli.shared.configured_servers import offer_configured_servers
from wasmrt.cli.shared.output import print_message, status
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime


def view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a view; the command gets them as a function in `view_of`."""

    @wraps(command)
    def chosen(preset: str | None, read_only: bool, subagent: bool, no_network: bool, **rest: Any) -> Any:
        def view_of(registry: ToolView) -> ToolView:
            view = registry if preset is None else registry.under(preset)
            view = view.read_only() if read_only else view
            view = view.for_subagent() if subagent else view
            return view.without_network() if no_network else view

        return command(view_of=view_of, **rest)

    for option in (
        click.option("--no-network", is_flag=True, help="Without tools that can send something outside."),
        click.option("--subagent", is_flag=True, help="What an agent has that an agent started."),
        click.option("--read-only", is_flag=True, help="Nothing that changes something."),
        click.option("--preset", metavar="NAME", help="Under this preset, besides the active one."),
    ):
        chosen = option(chosen)
    return chosen


class Announcing:
    """Says on stderr what waits for a person elsewhere, and how it is answered."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Ask, and say so first."""
        print_message(f"{request.tool} waits for an approval: wasmrt approvals approve {request.id}")
        return await self._approver.ask(request)


@contextmanager
def open_registry(*, workspace: Path | None = None) -> Iterator[ToolRegistry]:
    """Open the registry that the configuration describes, for one command; tools that cannot be had are named."""
    settings = {} if workspace is None else {"workspace": workspace}
    with WasmToolRuntime(WasmRuntimeConfig.load(**settings)) as runtime:
        with status("preparing the tools"):
            registry = load_registry(runtime, around=Announcing)
        with registry:
            offer_configured_servers(registry)
            for name, error in registry.problems.items():
                print_message(f"{name} cannot be used: {error.message}")
            yield registry
