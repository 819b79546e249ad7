"""The registry: the tools of an agent, under one policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from wasmrt.agent.access import AccessStore
from wasmrt.agent.approvals import Approvals, Approver, ConfirmationTokens
from wasmrt.agent.builtin.extensions.servers import Servers
from wasmrt.agent.builtin.plugins import PluginTool
from wasmrt.agent.policy import ToolPolicy
from wasmrt.agent.registry._function import FunctionTool
from wasmrt.agent.registry._plan import plan_tool
from wasmrt.agent.registry._registered import OWN_SOURCES, RegisteredTool, ToolRestrictions, ToolSource
from wasmrt.agent.registry._services import RegistryServices
from wasmrt.agent.registry._tool import Tool, check_tool
from wasmrt.agent.registry._view import ToolView
from wasmrt.agent.registry._wrapper import ReadOnlyToolWrapper
from wasmrt.agent.safety import Policy
from wasmrt.catalog.bundled import shipped_names
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.names import check_prepared_name
from wasmrt.core.places import find_places
from wasmrt.core.telemetry import Telemetry
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import Receipt
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.runtime.stores import open_catalog


class Installed(Protocol):
    """The installed tools of a registry. Other processes may change the catalog that lists them."""

    def trace(self) -> tuple[Any, ...]:
        """Return numbers that differ after every change of the catalog."""

    def refresh(self) -> bool:
        """Update the registry to the current catalog, and return whether anything changed."""


class ToolRegistry(ToolView):
    """An agent's tools under one policy: components, functions, plugins and tools of MCP servers.

    Args:
        runtime: Runs the components. The registry uses its receipts, rate limits and leak rules, too.
        policy: The operator's policy. The default policy denies external tools, and has no further rules.
        approver: Answers approval requests. By default, calls that require approval are denied.
        approvals: An approver with remembered answers; pass it instead of `approver`.
        telemetry: Records a span and metrics for every call.
        access: The store of access requests of components. By default, no access is requested.

    Examples:
        >>> from wasmrt import CallbackApprover, ToolRegistry, tool
        >>> @tool(effects=["external-write"])
        ... def send(to: str) -> str:
        ...     "Send a mail."
        ...     return f"sent to {to}"
        >>> registry = ToolRegistry(approver=CallbackApprover(lambda request: request.params["to"] == "bob"))
        >>> _ = registry.register(send)
        >>> registry.execute("send", {"to": "bob"}).result
        'sent to bob'
    """

    def __init__(
        self,
        runtime: WasmToolRuntime | None = None,
        *,
        policy: ToolPolicy | None = None,
        approver: Approver | None = None,
        approvals: Approvals | None = None,
        tokens: ConfirmationTokens | None = None,
        rates: RateLimiter | None = None,
        detector: LeakDetector | None = None,
        safety: Policy | None = None,
        receipts: Callable[[Receipt], None] | None = None,
        telemetry: Telemetry | None = None,
        access: AccessStore | None = None,
    ) -> None:
        if approver is not None and not hasattr(approver, "ask"):
            hint = "pass CallbackApprover(function), QueueApprover(store), TerminalApprover() or DenyApprover()"
            raise ConfigurationError(f"{approver!r:.80} is not an approver", hint=hint)
        if approver is not None and approvals is not None:
            raise ConfigurationError("pass either an approver or approvals, not both")
        policy = policy or ToolPolicy()
        shared = rates or (RateLimiter() if runtime is None else runtime.pipeline.rates)
        services = RegistryServices(policy=policy, rates=shared, detector=detector or LeakDetector(), tokens=tokens)
        if approver is not None:
            approvals = Approvals(approver, timeout_seconds=policy.approval_seconds)
        if approvals is not None:
            services.approvals = approvals
        if safety is not None:
            services.safety = safety
        services.receipts, services.telemetry = receipts, telemetry
        services.runtime = runtime
        if runtime is not None:
            services.detector = detector or runtime.detector
            services.receipts = receipts or runtime.pipeline.audit
            services.runtime_writes = receipts is None
            services.hashed = runtime.pipeline.hashed
        services.traces.receipts = services.receipts
        if access is not None:
            services.access = access
            services.traces.on_end = partial(access.end_session, services.session)
        super().__init__(services, ToolRestrictions(presets=() if policy.active is None else (policy.active,)))
        self.runtime = runtime
        self.problems: dict[str, WasmrtError] = {}
        """The reasons why tools are unavailable, by name of the tool."""
        self.installed: Installed | None = None
        """The installed tools, if `load_registry` created the registry."""
        self.servers: Servers | None = None
        """The configured MCP servers, after `add_configured_servers`."""
        self._on_close: list[Callable[[], None]] = []

    def offer_plans(self) -> None:
        """Register `propose_plan`, with which a model asks the user to approve a plan for the trace of its call."""
        self.register(plan_tool(self._services), builtin=True)

    def register(
        self,
        tool: Tool | PreparedTool | FunctionTool[Any, Any],
        *,
        builtin: bool = False,
        source: ToolSource | None = None,
        group: str = "",
        aliases: Sequence[str] = (),
    ) -> None:
        """Register a tool under its name. If a component has several tools, each is registered as `NAME.TOOL`.

        `builtin` is for the agent's own tools, which may have protected names. `source` is the origin of the tool; the
        default depends on the type of `tool`.

        Raises:
            InvalidNameError: a name is taken, or a name is protected and `builtin` is false.
            ConfigurationError: the object is not a tool.
        """
        check_tool(tool)
        chosen = ToolSource.BUILTIN if builtin else source or _get_default_source(tool)
        several = isinstance(tool, PreparedTool) and tool.has_several
        for part in _list_parts(tool):
            check_prepared_name(part.name)
            given = (*part.aliases, *aliases) if not several else ()
            self._services.store.add(RegisteredTool(part, part.name, chosen, group, tuple(given)))

    def replace(self, tool: Tool | FunctionTool[Any, Any], *, source: ToolSource | None = None) -> None:
        """Replace a tool by another version, with the same name, group and aliases.

        Pending requests for the old version are denied. Running calls continue.

        Raises:
            NotInstalledError: no registered tool has the name of the new version.
            ConfigurationError: the object is not a tool. The old version remains registered.
            InvalidNameError: tools of the new source cannot have this name. The old version is removed, too.
        """
        check_tool(tool)
        check_prepared_name(tool.name)
        old = self._services.store.remove(tool.name)
        chosen = source or old.source
        entry = RegisteredTool(tool, tool.name, chosen, old.group, old.aliases)
        self._services.store.add(entry)
        self._services.approvals.tool_changed(entry.name, digest=entry.digest, grant=entry.grant_digest)

    def add_installed(self, *names: str) -> list[str]:
        """Prepare installed tools under their grants, register them, and return their names.

        Without `names`, all installed tools are added. Installed tools are external, so the policy has to allow them.

        Raises:
            ConfigurationError: the registry has no runtime.
            WasmrtError: see `WasmToolRuntime.prepare_installed` and `register`.
        """
        if self.runtime is None:
            raise ConfigurationError("preparing tools requires a runtime", hint="create ToolRegistry(runtime)")
        added = []
        for name in names or [tool.name for tool in open_catalog(find_places().data).tools()]:
            self.register(self.runtime.prepare_installed(name), source=ToolSource.INSTALLED)
            added.append(name)
        return added

    def add_code_mode(self) -> None:
        """Register `search_tools`, and `run_code`, which runs programs that call this registry's tools.

        Raises:
            ConfigurationError: the registry has no runtime.
        """
        if self.runtime is None:
            raise ConfigurationError("code mode requires a runtime", hint="create ToolRegistry(runtime)")
        from wasmrt.agent.builtin.code_mode import CodeTool, search_tool  # code mode is off by default

        for each in (CodeTool(self.runtime), search_tool()):
            self.register(each, builtin=True, group="code_mode")

    def remove(self, name: str) -> None:
        """Remove a tool.

        Raises:
            NotInstalledError: no tool has this name.
        """
        self._services.store.remove(name)

    def tool_changed(self, name: str) -> None:
        """Withdraw the pending approval requests for former versions of a tool that was removed or replaced.

        Raises:
            ApprovalError: the store of approvals cannot be written.
        """
        entry = self._services.store.find(name)
        digest, grant = ("", "") if entry is None else (entry.digest, entry.grant_digest)
        self._services.approvals.tool_changed(name, digest=digest, grant=grant)

    def on_close(self, release: Callable[[], None]) -> None:
        """Register a function for `close` to call."""
        self._on_close.append(release)

    def close(self) -> None:
        """Release the resources of the registry's tools. The runtime remains open."""
        while self._on_close:
            self._on_close.pop()()

    def __enter__(self) -> ToolRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> ToolRegistry:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)  # waits for programs to end

    @property
    def telemetry(self) -> Telemetry | None:
        """The telemetry of the registry's calls, or None."""
        return self._services.telemetry

    @property
    def access(self) -> AccessStore | None:
        """The store of access requests, for `wasmrt.answer_access`; None if access requests are off."""
        return self._services.access

    def all_names(self) -> list[str]:
        """Return the sorted names of all tools, including tools that the policy denies."""
        return sorted(entry.name for entry in self._services.store)

    def group(self, name: str) -> list[str]:
        """Return the sorted names of the tools of a group."""
        return sorted(entry.name for entry in self._services.store if entry.group == name)

    def source(self, name: str) -> ToolSource:
        """Return the origin of a tool.

        Raises:
            NotInstalledError: no tool has this name.
        """
        return self._services.store.get(name).source

    def warnings(self) -> tuple[str, ...]:
        """Return sentences about settings of the policy that have no effect."""
        built_in = [entry.name for entry in self._services.store if not entry.source.external]
        known = [name for entry in self._services.store for name in entry.names]
        return self._services.policy.warnings(built_in=built_in, known=known)

    def check_rules(self) -> None:
        """Check that each rule for tools of wasmrt, or of an installed component, matches one of their names.

        Raises:
            ConfigurationError: a rule matches no tool.
        """
        entries, shipped = tuple(self._services.store), tuple(shipped_names())
        spaces = {name.partition(".")[0] for name in shipped if "." in name}
        spaces |= {entry.name.partition(".")[0] for entry in entries if entry.source is ToolSource.INSTALLED}
        # The names of tools that could not be loaded, and of servers, are not completely known.
        spaces -= {name.partition(".")[0] for name in self.problems}
        own = (*OWN_SOURCES, ToolSource.INSTALLED)
        spaces -= {entry.name.partition(".")[0] for entry in entries if entry.source not in own}
        self._services.policy.check_rules(spaces, (*shipped, *(name for entry in entries for name in entry.names)))


def _get_default_source(tool: object) -> ToolSource:
    if isinstance(tool, ReadOnlyToolWrapper):
        return _get_default_source(tool.inner)
    if isinstance(tool, PreparedTool):
        return ToolSource.INSTALLED if tool.installed else ToolSource.COMPONENT
    return ToolSource.PLUGIN if isinstance(tool, PluginTool) else ToolSource.FUNCTION


def _list_parts(tool: Tool) -> list[Tool]:
    """Return the tools to register: for a component, each of its tools that the package does not hide from models."""
    if not isinstance(tool, PreparedTool):
        return [tool]
    return [tool.tool(spec.name) if tool.has_several else tool for spec in tool.tools if not spec.hidden]
