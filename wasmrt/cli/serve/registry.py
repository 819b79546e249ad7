"""The runtime, the registry and the tools of `wasmrt serve`: all that the first answers of a server do without."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from wasmrt.agent.approvals import ApprovalStore, ParkedRequests
from wasmrt.agent.config import read_config_file
from wasmrt.agent.policy import ApproverKind, fits
from wasmrt.agent.registry import ToolRegistry, ToolView, load_registry
from wasmrt.catalog.bundled import SHELL_NAME
from wasmrt.cli.serve.options import ServeOptions
from wasmrt.cli.shared.configured_servers import offer_configured_servers
from wasmrt.cli.shared.output import print_message
from wasmrt.core.places import find_places
from wasmrt.interop.mcp.server.tools import PagesOf, ServedApprover, ServedTools, watch
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime


class Served(NamedTuple):
    """The tools that are served, and the registry behind them."""

    registry: ToolRegistry
    tools: ServedTools

    async def watch(self, changed: Callable[[], None]) -> None:
        """Keep the tools as the catalog is, and call `changed` after each change, until cancelled."""
        await watch(self.tools, self.registry, changed, print_message)


def open_served(options: ServeOptions, held: ExitStack, own_pages: Callable[[], str | None] = lambda: None) -> Served:
    """Open what is served, and say on stderr what cannot be; `held` closes it.

    Raises:
        WasmrtError: the configuration cannot be used, or there is no such preset.
    """
    settings: dict[str, Any] = {} if options.workspace is None else {"workspace": options.workspace}
    runtime = held.enter_context(WasmToolRuntime(WasmRuntimeConfig.load(**settings)))
    registry = held.enter_context(_registry(runtime, _pages_of(options.user, own_pages)))
    offer_configured_servers(registry)
    tools = ServedTools(_view_of(options, registry))
    for name, error in registry.problems.items():
        print_message(f"{name} cannot be used: {error.message}")
    if runtime.config.workspace is not None and (why := registry.absent.get(SHELL_NAME)):
        print_message(f"{SHELL_NAME} is not offered: {why}")
    for problem in tools.offer.problems:
        print_message(problem)
    meant = [name for name in registry.all_names() if not options.patterns or fits(name, options.patterns)]
    hidden = len(meant) - len(tools.offer)  # what --tool leaves out is no news
    if hidden:
        print_message(f"{hidden} more {'tool is' if hidden == 1 else 'tools are'} not offered; "
                      "wasmrt policy explain NAME says why")  # fmt: skip
    return Served(registry, tools)


def _view_of(options: ServeOptions, registry: ToolView) -> ToolView:
    view = registry if options.preset is None else registry.under(options.preset)
    view = view.read_only() if options.read_only else view
    return view.only(options.patterns) if options.patterns else view


def _pages_of(owner: str, own_pages: Callable[[], str | None]) -> PagesOf:
    """Return what finds the pages for a user: those of `wasmrt approvals --web` while it runs, else our own.

    SECURITY: whoever serves the pages answers on them, so that no other user is led there (2025-11-25,
    client/elicitation: the one who was asked is the one who answers).
    """

    def find(user: str) -> str | None:
        if user != owner:
            return None
        from wasmrt.interop.pages import announced_address  # a client that opens no address needs none of the pages

        return announced_address(find_places().pages) or own_pages()

    return find


def _registry(runtime: WasmToolRuntime, pages_of: PagesOf) -> ToolRegistry:
    places = find_places()
    policy = read_config_file(places.config).policy
    if policy.approver is ApproverKind.DENY:
        return load_registry(runtime, policy=policy)
    if policy.approver is ApproverKind.TERMINAL:  # the terminal, if there is one, is the client's
        print_message('approver = "terminal" cannot be asked from here; calls wait for wasmrt approvals instead')
    parked = ParkedRequests(ApprovalStore(places.approvals))
    registry = load_registry(runtime, policy=policy, approver=ServedApprover(parked, policy.approver, pages_of))
    registry.on_close(parked.close)
    return registry
