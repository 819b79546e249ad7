"""Open the configured tool registry for one command, and select a view of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, Approver
from wasmrt.agent.config import read_config_file
from wasmrt.agent.registry import ToolRegistry, ToolView, load_registry
from wasmrt.cli.shared.output import print_message, status
from wasmrt.core.errors import WasmrtError
from wasmrt.core.places import find_places
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime

_MAX_NAMED = 8


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
def open_registry(*, workspace: Path | None = None, called: str = "") -> Iterator[ToolRegistry]:
    """Open the configured registry for one command, and print which tools cannot be used.

    If the command calls a tool, only the problems of that tool and of its server are printed.
    """
    settings = {} if workspace is None else {"workspace": workspace}
    with WasmToolRuntime(WasmRuntimeConfig.load(**settings)) as runtime:
        with status("preparing the tools"):
            registry = load_registry(runtime, around=AnnouncingApprover)
        with registry:
            register_configured_servers(registry)
            print_problems(registry.problems, called)
            yield registry


def print_problems(problems: Mapping[str, WasmrtError], called: str = "") -> None:
    """Print why tools cannot be used, with the command that helps: one line for all refused tools of a server."""
    refused: dict[str | None, list[str]] = {}
    for name, error in problems.items():
        if called and called != name and not called.startswith(f"{name}_"):
            continue
        if error.code == "mcp-tool" and not called:
            refused.setdefault(error.hint, []).append(name)
        else:
            print_message(f"{name} cannot be used: {error.message}" + (f"; {error.hint}" if error.hint else ""))
    for hint, names in refused.items():
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        print_message(f"{', '.join(names[:_MAX_NAMED])}{more} cannot be used; for the reasons: {hint}")


def register_configured_servers(registry: ToolRegistry) -> None:
    """Register the tools of the configured MCP servers; the registry closes the servers.

    Raises:
        ConfigurationError: a server's configuration cannot be used, or the MCP package is not installed.
    """
    places = find_places()
    if places.mcp_servers.exists() or (places.config.exists() and read_config_file(places.config).extensions.hosts):
        from wasmrt.interop.mcp.client import add_configured_servers  # the SDK takes 0.3 s to import

        add_configured_servers(registry)
