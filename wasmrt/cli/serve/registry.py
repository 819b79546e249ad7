"""Open the runtime, registry and tools of `wasmrt serve`, which the server's first responses do not need."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from wasmrt.agent.approvals import ApprovalStore, ParkedRequests
from wasmrt.agent.config import read_config_file
from wasmrt.agent.loading import load_registry, make_announcer
from wasmrt.agent.policy import ApproverKind, fits
from wasmrt.agent.registry import ToolRegistry, ToolView, absent_tools
from wasmrt.catalog.bundled import SHELL_NAME
from wasmrt.cli.serve.options import ServeOptions
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.registry import print_problems, print_refusals, register_configured_servers
from wasmrt.core.places import find_places
from wasmrt.core.setting_commands import set_command
from wasmrt.core.telemetry import PENDING_APPROVALS, RUNNING_CALLS, PrometheusMetrics
from wasmrt.interop.mcp.server.tools import PagesOf, ServedApprover, ServedTools, watch
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.runtime.stores import store_place


class Served(NamedTuple):
    """The served tools and their registry."""

    registry: ToolRegistry
    tools: ServedTools

    async def watch(self, changed: Callable[[], None]) -> None:
        """Update the tools when the catalog changes, and call `changed` after each update, until cancelled."""
        await watch(self.tools, self.registry, changed, print_message)


def open_served(
    options: ServeOptions,
    stack: ExitStack,
    own_pages: Callable[[], str | None] = lambda: None,
    metrics: PrometheusMetrics | None = None,
) -> Served:
    """Open the served tools, and print which tools cannot be served; `stack` closes them.

    Raises:
        WasmrtError: the configuration cannot be used, or the preset does not exist.
    """
    settings: dict[str, Any] = {} if options.workspace is None else {"workspace": options.workspace}
    runtime = stack.enter_context(WasmToolRuntime(WasmRuntimeConfig.load(**settings)))
    registry, parked = _make_registry(runtime, _find_pages(options.user, own_pages), metrics)
    stack.enter_context(registry)
    register_configured_servers(registry)
    _remove_managing_tools(options, registry)
    view = _make_view(options, registry)
    file = read_config_file(find_places().config)
    tools = ServedTools(view, parked, file.database.state_key(file.read_secret))
    print_problems(registry.problems)
    if runtime.config.workspace is not None and (why := absent_tools(registry).get(SHELL_NAME)):
        print_message(f"{SHELL_NAME} is not offered: {why}")
    for problem in tools.offer.problems:
        print_message(problem)
    hidden = view.refusals()
    selected = {name: hidden[name] for name in hidden if not options.patterns or fits(name, options.patterns)}
    print_refusals(selected, "is not offered")
    return Served(registry, tools)


def _remove_managing_tools(options: ServeOptions, registry: ToolRegistry) -> None:
    """Remove the tools that manage tools and skills, unless they are turned on, and print how to turn them on.

    They would be half of the tools of a new installation, and few agents need them.
    """
    file = read_config_file(find_places().config)
    removed = []
    for group, is_on in (("extensions", file.extensions.serve), ("skills", file.skills.serve)):
        for name in registry.group(group):
            if not (is_on or options.manage or fits(name, options.patterns)):
                registry.remove(name)
                removed.append(name)
    if removed and not options.patterns:
        commands = f"{set_command('extensions.serve', True)}; {set_command('skills.serve', True)}"
        text = "the tools that manage tools and skills are off; to offer them, pass --manage, or:"
        print_message(f"{text} {commands}")


def _make_view(options: ServeOptions, registry: ToolView) -> ToolView:
    view = registry if options.preset is None else registry.under(options.preset)
    view = view.read_only() if options.read_only else view
    return view.only(options.patterns) if options.patterns else view


def _find_pages(owner: str, own_pages: Callable[[], str | None]) -> PagesOf:
    """Return a function that finds the URL of the approval pages for a user.

    If `wasmrt approvals --web` is running, the function returns the URL of its pages.

    SECURITY: answers on the pages count as given by the owner, so other users get no URL (MCP 2025-11-25,
    client/elicitation: the user who was asked must be the one who answers).
    """

    def find(user: str) -> str | None:
        if user != owner:
            return None
        from wasmrt.interop.pages import announced_address  # only clients that open URLs need the pages

        return announced_address(find_places().pages) or own_pages()

    return find


def _make_registry(
    runtime: WasmToolRuntime, pages_of: PagesOf, metrics: PrometheusMetrics | None
) -> tuple[ToolRegistry, ParkedRequests | None]:
    places = find_places()
    file = read_config_file(places.config)
    policy, telemetry = file.policy, None
    if metrics is not None:
        telemetry = metrics.telemetry(spans=file.telemetry)
        metrics.add_gauge(RUNNING_CALLS, lambda: runtime.pipeline.admission.running)
    if policy.approver is ApproverKind.DENY:
        return load_registry(runtime, policy=policy, telemetry=telemetry), None
    if policy.approver is ApproverKind.TERMINAL:  # a terminal would belong to the client
        print_message('approver = "terminal" does not work in a server; approvals use wasmrt approvals instead')
    store = ApprovalStore(store_place(places.approvals), announce=make_announcer(policy))
    if metrics is not None:
        metrics.add_gauge(PENDING_APPROVALS, lambda: len(store.pending()))
    parked = ParkedRequests(store)
    approver = ServedApprover(parked, policy.approver, pages_of)
    registry = load_registry(runtime, policy=policy, approver=approver, telemetry=telemetry)
    registry.on_close(parked.close)
    return registry, parked
