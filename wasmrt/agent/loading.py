"""Load a registry with the tools of an installation, and update it after changes of the catalog."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from wasmrt.agent.access import AccessStore
from wasmrt.agent.approvals import (
    Announce,
    Approvals,
    ApprovalStore,
    Approver,
    ConfirmationTokens,
    DenyApprover,
    QueueApprover,
    TerminalApprover,
    default_approver,
)
from wasmrt.agent.builtin.extensions.sources import ToolSources
from wasmrt.agent.builtin.extensions.tools import ExtensionTools
from wasmrt.agent.builtin.memory import MemoryStore
from wasmrt.agent.builtin.memory_tools import memory_tools
from wasmrt.agent.builtin.plugins import load_plugins
from wasmrt.agent.builtin.shell import ShellTool, missing_requirement
from wasmrt.agent.builtin.skills import SkillSources, SkillStore, SkillTools
from wasmrt.agent.config import OperatorConfig, read_config_file
from wasmrt.agent.flows import SharedLabels
from wasmrt.agent.policy import ApproverKind, ToolPolicy
from wasmrt.agent.registry import PROTECTED_TOOL_NAMES, Tool, ToolRegistry, ToolSource
from wasmrt.catalog.bundled import (
    CREATE_JOB,
    DESKTOP_NAMES,
    PROGRAM_TOOLS,
    RUN_CODE,
    SHELL_ALIASES,
    SHELL_NAME,
    SHIPPED,
    TOOLS,
    BundledTool,
    OwnTool,
    missing_part,
)
from wasmrt.core.errors import ConfigurationError, InstallError, ToolError, WasmrtError
from wasmrt.core.names import spelling
from wasmrt.core.places import Places, find_places
from wasmrt.core.setting_commands import set_command
from wasmrt.core.telemetry import Telemetry
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.runtime.stores import open_catalog

_BUNDLED = object()


class InstalledTools:
    """Keeps a registry in sync with the catalog, which other processes may change at any time."""

    def __init__(self, registry: ToolRegistry, runtime: WasmToolRuntime, data: Path) -> None:
        self._registry = registry
        self._runtime = runtime
        self._catalog = open_catalog(data)
        self._seen: tuple[Any, ...] | None = None
        """The state of a shared catalog at the last refresh."""
        self._absent = dict(registry._services.store.absent)
        """Tools that are unavailable regardless of the catalog, each with the step that makes it available."""
        self._versions: dict[str, tuple[Any, ...]] = {}
        """The version of each tool that was registered, or that could not be prepared."""
        self._names: dict[str, list[str]] = {}
        """The registered names of each tool."""
        self._lock = threading.Lock()

    @property
    def is_shared(self) -> bool:
        """True if the catalog is in a database that several hosts share."""
        return self._catalog.is_shared

    def trace(self) -> tuple[Any, ...]:
        """Return numbers that differ after every change of the catalog. See `Catalog.trace`."""
        return self._catalog.trace()

    def follow(self) -> None:
        """Apply the changes that other hosts have made to a shared catalog, such as a revoked grant.

        Raises:
            ToolError: the catalog cannot be read.
        """
        try:
            if (trace := self.trace()) != self._seen:
                self.refresh()
                self._seen = trace
        except InstallError as error:
            raise ToolError(error.message, code=error.code, hint=error.hint) from error

    def refresh(self) -> bool:
        """Register the new and changed tools of the catalog, and remove tools that are no longer in it.

        Return whether anything changed. If a tool cannot be prepared, the registry's `problems` lists it, and its
        previous version is removed.

        Raises:
            InstallError: the catalog cannot be read. Then the registry remains unchanged.
        """
        with self._lock:
            wanted = self._find_wanted()
            gone = [name for name, version in self._versions.items() if wanted.get(name) != version]
            for name in gone:
                self._drop(name)
            new = [name for name in wanted if name not in self._versions]
            for name in new:
                self._versions[name] = wanted[name]
                self._add(name, wanted[name])
            return bool(gone or new)

    def _find_wanted(self) -> dict[str, tuple[Any, ...]]:
        catalog = self._catalog
        installed: dict[str, tuple[Any, ...]] = {tool.name: catalog.get(tool.name) for tool in catalog.tools()}
        config = self._runtime.config
        parts = {"workspace": config.workspace, "search": config.web_search, "memory": config.get_memory_settings()}
        has = {part for part, given in parts.items() if given is not None}
        has |= {RUN_CODE.name, CREATE_JOB, *DESKTOP_NAMES}.intersection(self._registry.all_names())  # only enabled ones
        taken = {spelling(name) for name in installed}
        absent = PROGRAM_TOOLS | {
            name: step
            for tool in SHIPPED
            if (step := missing_part(tool, has)) is not None
            for name in (tool.name, *_find_free_aliases(tool, taken))
        }
        self._registry._services.store.absent = {**self._absent, **absent}
        shipped = [tool for tool in TOOLS if tool.name not in absent and tool.name not in installed]
        return {tool.name: (_BUNDLED, *_find_free_aliases(tool, taken)) for tool in shipped} | installed

    def _add(self, name: str, version: tuple[Any, ...]) -> None:
        registry, before = self._registry, set(self._registry.all_names())
        try:
            tool = self._runtime.prepare_installed(name)
            if version[0] is _BUNDLED:
                registry.register(tool, builtin=True, group="bundled", aliases=version[1:])
            else:
                registry.register(tool, source=ToolSource.INSTALLED)
        except WasmrtError as error:
            registry.problems[name] = error
        self._names[name] = sorted(set(registry.all_names()) - before)

    def _drop(self, name: str) -> None:
        """Remove a tool.

        SECURITY: pending requests for the removed version are denied. Answers remembered for that version do not apply
        to a new version.
        """
        del self._versions[name]
        self._registry.problems.pop(name, None)
        self._runtime.forget(name)
        for offered in self._names.pop(name):
            self._registry.remove(offered)
            self._registry.tool_changed(offered)


def _find_free_aliases(tool: BundledTool | OwnTool, taken: Container[str]) -> tuple[str, ...]:
    """Return the aliases of a bundled tool, except those that are names of installed tools."""
    return tuple(alias for alias in tool.aliases if spelling(alias) not in taken)


def load_registry(
    runtime: WasmToolRuntime,
    *,
    policy: ToolPolicy | None = None,
    approver: Approver | None = None,
    telemetry: Telemetry | None = None,
) -> ToolRegistry:
    """Return a registry with wasmrt's own tools, the installed tools and the plugins.

    Tools for files and the shell are included if the runtime has a workspace. The operator's configuration file defines
    the default policy, approver and telemetry, and the plugin folder. `problems` of the registry lists the tools that
    are unavailable. Call `close` to end the plugins.

    Raises:
        ConfigFileError: the configuration file is invalid; the error lists every mistake.

    Examples:
        >>> from wasmrt import WasmToolRuntime, load_registry
        >>> with WasmToolRuntime() as runtime:
        ...     registry = load_registry(runtime)
        ...     print("echo" in registry.tool_names())
        ...     registry.close()
        True
    """
    registry = empty_registry(runtime, policy=policy, approver=approver, telemetry=telemetry)
    places = find_places()
    _add_own_tools(registry, runtime, places, read_config_file(places.config))  # before others could take their names
    registry.installed = InstalledTools(registry, runtime, places.data)
    registry.installed.refresh()
    registry._services.refresh = registry.installed.refresh
    if registry.installed.is_shared:
        registry._services.follow = registry.installed.follow
    if registry.policy.plugin_dir is not None:
        _add_plugins(registry, runtime, registry.policy, registry.policy.plugin_dir)
    return registry


def empty_registry(
    runtime: WasmToolRuntime,
    *,
    policy: ToolPolicy | None = None,
    approver: Approver | None = None,
    telemetry: Telemetry | None = None,
) -> ToolRegistry:
    """Return a registry without tools, with policy, approvals and telemetry as for `load_registry`.

    Raises:
        ConfigFileError: the configuration file is invalid; the error lists every mistake.
    """
    places = find_places()
    file = read_config_file(places.config)
    policy = policy or file.policy
    announce = make_announcer(policy)
    store = ApprovalStore(file.store_place(places.approvals), announce=announce)
    asked = approver or make_approver(policy.approver, store)
    approvals = Approvals(asked, store=store, timeout_seconds=policy.approval_seconds)
    registry = ToolRegistry(
        runtime,
        policy=policy,
        approvals=approvals,
        tokens=ConfirmationTokens(
            file.store_place(places.tokens), file.database.key(places.tokens_key, file.read_secret)
        ),
        access=AccessStore(file.store_place(places.access), announce=announce),
        telemetry=telemetry or (Telemetry() if file.telemetry else None),
    )
    place = file.store_place(places.data)
    if not isinstance(place, Path):
        registry._services.traces.shared = SharedLabels(place)
    return registry


def make_announcer(policy: ToolPolicy) -> Announce:
    """Return the function that shows a notification of a new request, or None if the operator did not enable that."""
    if not policy.notify:
        return None
    from wasmrt.agent.builtin.desktop import announce_request

    return announce_request


def make_approver(kind: ApproverKind, store: ApprovalStore) -> Approver:
    """Return an approver of the configured kind; a queue uses `store`."""
    if kind is ApproverKind.QUEUE:
        return QueueApprover(store)
    if kind is ApproverKind.TERMINAL:
        return TerminalApprover()
    return DenyApprover() if kind is ApproverKind.DENY else default_approver()


def _add_own_tools(registry: ToolRegistry, runtime: WasmToolRuntime, places: Places, config: OperatorConfig) -> None:
    """Register the tools that are not components: extensions, skills, memory, desktop, code mode and shell."""
    sources = ToolSources(config.extensions.sources, config.extensions.hosts, config.install)
    extensions = ExtensionTools(registry, runtime, places, sources, PROTECTED_TOOL_NAMES)
    workspace = getattr(runtime.config.workspace, "root", runtime.config.workspace)  # it may be a `UserFolders`
    own = workspace if isinstance(workspace, Path) else None
    store = SkillStore(places, config.skills.folders, workspace=own)

    online = SkillSources(config.skills.sources, config.skills.hosts)
    skills = SkillTools(store, online, runtime.open_gateway, runtime.detector)
    groups: dict[str, Iterable[Tool]] = {"extensions": extensions.all(), "skills": skills.all()}
    if (remembering := runtime.config.get_memory_settings()) is not None:
        place = remembering.path or config.store_place(places.memory)
        groups["memory"] = memory_tools(MemoryStore(remembering, place), detector=runtime.detector)
    if config.desktop.tools:
        from wasmrt.agent.builtin.desktop import desktop_tools

        groups["desktop"] = desktop_tools(config.desktop, runtime.open_gateway)
    if config.jobs.command:
        from wasmrt.agent.jobs import SANDBOX, CommandRunner, add_jobs
        from wasmrt.agent.routines import RoutineStore, register_routine_tools

        runner = CommandRunner(config.jobs.command, config.jobs.as_shell_settings(config.shell))
        place = config.store_place(places.jobs)
        add_jobs(registry, modes={SANDBOX: runner}, max_parallel=config.jobs.max_parallel, path=place)
        # `wasmrt routines serve` runs them
        register_routine_tools(registry, RoutineStore(config.store_place(places.routines)))
    for group, tools in groups.items():
        for tool in tools:
            registry.register(tool, builtin=True, group=group)
    if config.code_mode:
        registry.add_code_mode()
    if runtime.config.workspace is not None and (why := missing_requirement(config.shell)):
        registry._services.store.absent = dict.fromkeys((SHELL_NAME, *SHELL_ALIASES), why)
    elif runtime.config.workspace is not None:
        shell = ShellTool(
            runtime.config.workspace, config.shell, network=runtime.config.network, undo=runtime.config.undo
        )
        registry.register(shell, builtin=True)
        registry.on_close(shell.close)


def _add_plugins(registry: ToolRegistry, runtime: WasmToolRuntime, policy: ToolPolicy, folder: Path) -> None:
    preset = policy.active
    root = runtime.config.workspace
    root = root if isinstance(root, Path) else None  # plugins do not support a folder for each user
    if not folder.is_dir():
        hint = f"create it, or choose another one: {set_command('tools.plugin_dir', 'FOLDER')}"
        registry.problems["plugins"] = ConfigurationError(f"the plugin folder does not exist: {folder}", hint=hint)
        return
    plugins = load_plugins(
        folder,
        workspace=root,
        config=runtime.config,
        unsafe_native_plugins=policy.unsafe_native_plugins,
        write_paths=() if preset is None or root is None else [root / path for path in preset.allow_write_paths],
        allow_network=preset is None or preset.allow_network,
    )
    registry.on_close(plugins.close)
    registry.problems.update(plugins.refused)
    for plugin in plugins:
        try:
            registry.register(plugin, source=ToolSource.PLUGIN)
        except WasmrtError as error:
            registry.problems[plugin.name] = error
