"""ToolRegistry: the tools of an agent, with the policy over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from wasmrt.agent.access import AccessStore
from wasmrt.agent.approvals import Approvals, Approver
from wasmrt.agent.builtin.extensions.servers import Servers
from wasmrt.agent.builtin.plugins import PluginTool
from wasmrt.agent.policy import ToolPolicy
from wasmrt.agent.registry._function import FunctionTool
from wasmrt.agent.registry._registered import RegisteredTool
from wasmrt.agent.registry._restrictions import ToolRestrictions
from wasmrt.agent.registry._services import RegistryServices, Tokens
from wasmrt.agent.registry._tool import Tool, ToolSource, check_tool
from wasmrt.agent.registry._view import ToolView
from wasmrt.agent.registry._wrapper import ReadOnlyToolWrapper
from wasmrt.agent.safety import Policy
from wasmrt.catalog import Catalog
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.names import check_prepared_name
from wasmrt.core.places import find_places
from wasmrt.core.telemetry import Telemetry
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import Receipt
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime


class Installed(Protocol):
    """The tools of a catalog, which other processes change."""

    def trace(self) -> tuple[Any, ...]:
        """Return numbers that differ after a change of the catalog."""

    def refresh(self) -> bool:
        """Offer what the catalog has now; tell whether that changed anything."""


class ToolRegistry(ToolView):
    """The tools of an agent: components, functions, plugins and servers' tools, under one policy.

    Args:
        runtime: Its settings are shared: receipts, rate limits of users, leak rules.
        policy: By default nothing is said but that external tools stay out.
        approver: Who is asked where a person has to approve a call; by default nobody, which denies.
        approvals: In place of `approver`, with what was answered before.
        telemetry: Tells of every call in spans and metrics.
        access: Keeps the requests for what components were refused; by default nobody is asked for more of a grant.

    Example:
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
        tokens: Tokens | None = None,
        rates: RateLimiter | None = None,
        detector: LeakDetector | None = None,
        safety: Policy | None = None,
        receipts: Callable[[Receipt], None] | None = None,
        telemetry: Telemetry | None = None,
        access: AccessStore | None = None,
    ) -> None:
        if approver is not None and not hasattr(approver, "ask"):
            hint = "pass CallbackApprover(function), QueueApprover(store), TerminalApprover() or DenyApprover()"
            raise ConfigurationError(f"{approver!r:.80} is no approver", hint=hint)
        if approver is not None and approvals is not None:
            raise ConfigurationError("give a registry an approver or approvals, not both")
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
        """Tools that could not be had, by name, with the reason of each."""
        self.installed: Installed | None = None
        """The part of it that follows the catalog, where `load_registry` made it."""
        self.servers: Servers | None = None
        """The MCP servers that are configured, where `add_configured_servers` made them known."""
        self._on_close: list[Callable[[], None]] = []

    def register(
        self,
        tool: Tool | PreparedTool | FunctionTool[Any, Any],
        *,
        builtin: bool = False,
        source: ToolSource | None = None,
        group: str = "",
        aliases: Sequence[str] = (),
    ) -> None:
        """Offer a tool under its name; of a component with several tools, each under `NAME.TOOL`.

        `builtin` is for the agent's own tools, which may have the protected names. `source` is where it comes from, by
        default what kind of tool it is.

        Raises:
            InvalidNameError: a name is protected and the tool is not the agent's own, or it is taken.
            ConfigurationError: it is no tool.
        """
        check_tool(tool)
        chosen = ToolSource.BUILTIN if builtin else source or _source_of(tool)
        several = isinstance(tool, PreparedTool) and tool.has_several
        for part in _parts(tool):
            check_prepared_name(part.name)
            given = (*part.aliases, *aliases) if not several else ()
            self._services.store.add(RegisteredTool(part, part.name, chosen, group, tuple(given)))

    def replace(self, tool: Tool | FunctionTool[Any, Any], *, source: ToolSource | None = None) -> None:
        """Exchange a tool for another version of it, under its name, group and aliases.

        Requests that wait for the version before are denied; calls that run go on.

        Raises:
            NotInstalledError: no tool has its name.
            ConfigurationError: it is no tool; then the version before stays.
            InvalidNameError: its new source may not have its name; then neither version is offered.
        """
        check_tool(tool)
        check_prepared_name(tool.name)
        old = self._services.store.remove(tool.name)
        chosen = source or old.source
        entry = RegisteredTool(tool, tool.name, chosen, old.group, old.aliases)
        self._services.store.add(entry)
        self._services.approvals.tool_changed(entry.name, digest=entry.digest, grant=entry.grant_digest)

    def add_installed(self, *names: str) -> list[str]:
        """Prepare installed tools under their grants and offer them; all of them where no name is given.

        Returns their names. They are external tools: the policy has to let them in.

        Raises:
            ConfigurationError: the registry has no runtime.
            WasmrtError: as `WasmToolRuntime.prepare_installed` and `register`.
        """
        if self.runtime is None:
            raise ConfigurationError("a registry without a runtime prepares nothing", hint="ToolRegistry(runtime)")
        added = []
        for name in names or [tool.name for tool in Catalog(find_places().data).tools()]:
            self.register(self.runtime.prepare_installed(name), source=ToolSource.INSTALLED)
            added.append(name)
        return added

    def add_code_mode(self) -> None:
        """Offer `run_code`, which runs programs that call this registry's tools, and `search_tools` beside it.

        Raises:
            ConfigurationError: the registry has no runtime.
        """
        if self.runtime is None:
            raise ConfigurationError("a registry without a runtime runs no programs", hint="ToolRegistry(runtime)")
        from wasmrt.agent.builtin.code_mode import CodeTool, search_tool  # it is off by default

        for each in (CodeTool(self.runtime), search_tool()):
            self.register(each, builtin=True, group="code_mode")

    def remove(self, name: str) -> None:
        """Offer a tool no longer.

        Raises:
            NotInstalledError: no tool has this name.
        """
        self._services.store.remove(name)

    def tool_changed(self, name: str) -> None:
        """Withdraw the requests of a tool that was removed or exchanged: nobody answers for a version that is gone.

        Raises:
            ApprovalError: the store of approvals cannot be written.
        """
        entry = self._services.store.find(name)
        digest, grant = ("", "") if entry is None else (entry.digest, entry.grant_digest)
        self._services.approvals.tool_changed(name, digest=digest, grant=grant)

    def on_close(self, release: Callable[[], None]) -> None:
        """Have `release` called by `close`."""
        self._on_close.append(release)

    def ends_with_its_call(self) -> None:
        """Say that the program makes one call and ends: access is not offered for a session of it."""
        self._services.lasting = False

    def close(self) -> None:
        """Let go of what was made for the registry's own tools; the runtime is its maker's to close."""
        while self._on_close:
            self._on_close.pop()()

    def __enter__(self) -> ToolRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def telemetry(self) -> Telemetry | None:
        """The telemetry of its calls; None without any."""
        return self._services.telemetry

    @property
    def access(self) -> AccessStore | None:
        """The store of access requests, for `wasmrt.answer_access`; None if access requests are off."""
        return self._services.access

    @property
    def absent(self) -> Mapping[str, str]:
        """Tools that come with wasmrt and need something that is not here, each with the step that brings it."""
        return self._services.store.absent

    @absent.setter
    def absent(self, steps: Mapping[str, str]) -> None:
        self._services.store.absent = dict(steps)

    def all_names(self) -> list[str]:
        """Return the names of all tools, also of those that the policy keeps back, sorted."""
        return sorted(entry.name for entry in self._services.store)

    def group(self, name: str) -> list[str]:
        """Return the names of the tools of a group, sorted."""
        return sorted(entry.name for entry in self._services.store if entry.group == name)

    def source(self, name: str) -> ToolSource:
        """Return where a tool comes from.

        Raises:
            NotInstalledError: no tool has this name.
        """
        return self._services.store.get(name).source

    def warnings(self) -> tuple[str, ...]:
        """Return in sentences what in the policy has no effect."""
        built_in = [entry.name for entry in self._services.store if not entry.source.external]
        return self._services.policy.warnings(built_in=built_in, known=self.all_names())


def _source_of(tool: object) -> ToolSource:
    if isinstance(tool, ReadOnlyToolWrapper):
        return _source_of(tool.inner)
    if isinstance(tool, PreparedTool):
        return ToolSource.INSTALLED if tool.installed else ToolSource.COMPONENT
    return ToolSource.PLUGIN if isinstance(tool, PluginTool) else ToolSource.FUNCTION


def _parts(tool: Tool) -> list[Tool]:
    """Return the tools to offer: of a component, each that its package does not hide from models."""
    if not isinstance(tool, PreparedTool):
        return [tool]
    return [tool.tool(spec.name) if tool.has_several else tool for spec in tool.tools if not spec.hidden]
