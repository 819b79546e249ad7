"""Open the configured tool registry for one command, and select a view of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, Approver
from wasmrt.agent.config import read_config_file
from wasmrt.agent.registry import ToolRegistry, ToolView, load_registry
from wasmrt.cli.shared.output import print_message, status
from wasmrt.core.places import find_places
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime


def view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that restrict the registry. The command receives a function `view_of` that applies them."""

    @wraps(command)
    def wrapper(preset: str | None, read_only: bool, subagent: bool, no_network: bool, **rest: Any) -> Any:
        def view_of(registry: ToolView) -> ToolView:
            view = registry if preset is None else registry.under(preset)
            view = view.read_only() if read_only else view
            view = view.for_subagent() if subagent else view
            return view.without_network() if no_network else view

        return command(view_of=view_of, **rest)

    for option in (
        click.option("--no-network", is_flag=True, help="Leave out tools that can send data to the network."),
        click.option("--subagent", is_flag=True, help="Only offer the tools that a sub-agent may call."),
        click.option("--read-only", is_flag=True, help="Only offer calls that make no changes."),
        click.option("--preset", metavar="NAME", help="Apply this preset in addition to the active one."),
    ):
        wrapper = option(wrapper)
    return wrapper


class AnnouncingApprover:
    """Prints the command that answers a request, then passes the request to another approver."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Print the command that answers the request, then ask the other approver."""
        print_message(f"{request.tool} awaits approval: wasmrt approvals approve {request.id}")
        return await self._approver.ask(request)


@contextmanager
def open_registry(*, workspace: Path | None = None) -> Iterator[ToolRegistry]:
    """Open the configured registry for one command, and print which tools cannot be used."""
    settings = {} if workspace is None else {"workspace": workspace}
    with WasmToolRuntime(WasmRuntimeConfig.load(**settings)) as runtime:
        with status("preparing the tools"):
            registry = load_registry(runtime, around=AnnouncingApprover)
        with registry:
            register_configured_servers(registry)
            for name, error in registry.problems.items():
                print_message(f"{name} cannot be used: {error.message}")
            yield registry


def register_configured_servers(registry: ToolRegistry) -> None:
    """Register the tools of the configured MCP servers; the registry closes the servers.

    Raises:
        ConfigurationError: a server's configuration cannot be used, or the MCP package is not installed.
    """
    places = find_places()
    if places.mcp_servers.exists() or (places.config.exists() and read_config_file(places.config).extensions.hosts):
        from wasmrt.interop.mcp.client import add_configured_servers  # the SDK takes 0.3 s to import

        add_configured_servers(registry)
