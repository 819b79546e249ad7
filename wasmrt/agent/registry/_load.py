"""The registry that the operator's configuration describes: what the command line holds, and an agent can hold too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from wasmrt.agent.access import AccessStore
from wasmrt.agent.approvals import (
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
from wasmrt.agent.builtin.shell import ShellTool, lacking
from wasmrt.agent.builtin.skills import SkillSources, SkillStore, SkillTools
from wasmrt.agent.policy import ApproverKind, ToolPolicy
from wasmrt.agent.registry._installed import InstalledTools
from wasmrt.agent.registry._registry import ToolRegistry
from wasmrt.agent.registry._store import PROTECTED_TOOL_NAMES
from wasmrt.agent.registry._tool import Tool, ToolSource
from wasmrt.catalog.bundled import SHELL_ALIASES, SHELL_NAME
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.places import Places, find_places
from wasmrt.core.telemetry import Telemetry
from wasmrt.runtime.config_file import OperatorConfig, read_config_file
from wasmrt.runtime.runtime import WasmToolRuntime


def load_registry(
    runtime: WasmToolRuntime,
    *,
    policy: ToolPolicy | None = None,
    approver: Approver | None = None,
    around: Callable[[Approver], Approver] | None = None,
    telemetry: Telemetry | None = None,
) -> ToolRegistry:
    """Return a registry with the tools that come with wasmrt, those that are installed, and the plugins.

    Tools for files and the shell are there where the runtime has a workspace.

    Policy, approver, telemetry and the folder of plugins are those of the operator's configuration file, where none is
    given.
    `problems` of the registry says which tools could not be had. Close its plugins with `close`. `around` is put around
    an approver that waits for another process, for whoever shows that something waits.

    Raises:
        ConfigFileError: the file cannot be used, with every mistake of it.

    Example:
        >>> from wasmrt import WasmToolRuntime, load_registry
        >>> with WasmToolRuntime() as runtime:
        ...     registry = load_registry(runtime)
        ...     print("echo" in registry.tool_names())
        ...     registry.close()
        True
    """
    places = find_places()
    file = read_config_file(places.config)
    policy = policy or file.policy
    store = ApprovalStore(places.approvals)
    asked = approver or approver_of(policy.approver, store)
    if around is not None and isinstance(asked, QueueApprover):
        asked = around(asked)
    approvals = Approvals(asked, store=store, timeout_seconds=policy.approval_seconds)
    registry = ToolRegistry(
        runtime,
        policy=policy,
        approvals=approvals,
        tokens=ConfirmationTokens(places.tokens, places.tokens_key),
        access=AccessStore(places.access),
        telemetry=telemetry or (Telemetry() if file.telemetry else None),
    )
    _add_own(registry, runtime, places, file)  # before whatever else could have one of their names
    registry.installed = InstalledTools(registry, runtime, places.data)
    registry.installed.refresh()
    registry._system.refresh = registry.installed.refresh
    if policy.plugin_dir is not None:
        _add_plugins(registry, runtime, policy, policy.plugin_dir)
    return registry


def approver_of(kind: ApproverKind, store: ApprovalStore) -> Approver:
    """Return the approver that the configuration names."""
    if kind is ApproverKind.QUEUE:
        return QueueApprover(store)
    if kind is ApproverKind.TERMINAL:
        return TerminalApprover()
    return DenyApprover() if kind is ApproverKind.DENY else default_approver()


def _add_own(registry: ToolRegistry, runtime: WasmToolRuntime, places: Places, config: OperatorConfig) -> None:
    """Offer the tools that are no components: for tools, skills, memory, the desktop, programs, and the shell."""
    sources = ToolSources(config.extensions.sources, config.extensions.hosts)
    extensions = ExtensionTools(registry, runtime, places, sources, PROTECTED_TOOL_NAMES)
    workspace = getattr(runtime.config.workspace, "root", runtime.config.workspace)  # of `UserFolders`
    own = workspace if isinstance(workspace, Path) else None
    store = SkillStore(places, config.skills.folders, workspace=own)

    online = SkillSources(config.skills.sources, config.skills.hosts)
    skills = SkillTools(store, online, runtime.open_gateway, runtime.detector)
    groups: dict[str, Iterable[Tool]] = {"extensions": extensions.all(), "skills": skills.all()}
    if (remembering := runtime.config.memory_settings()) is not None:
        groups["memory"] = memory_tools(MemoryStore(remembering), detector=runtime.detector)
    if config.desktop.tools:
        from wasmrt.agent.builtin.desktop import desktop_tools

        groups["desktop"] = desktop_tools(config.desktop, runtime.open_gateway)
    for group, tools in groups.items():
        for tool in tools:
            registry.register(tool, builtin=True, group=group)
    if config.code_mode:
        registry.add_code_mode()
    if runtime.config.workspace is not None and (why := lacking(config.shell)):
        registry.absent = dict.fromkeys((SHELL_NAME, *SHELL_ALIASES), why)
    elif runtime.config.workspace is not None:
        shell = ShellTool(runtime.config.workspace, config.shell, network=runtime.config.network)
        registry.register(shell, builtin=True)
        registry.on_close(shell.close)


def _add_plugins(registry: ToolRegistry, runtime: WasmToolRuntime, policy: ToolPolicy, folder: Path) -> None:
    preset = policy.active
    root = runtime.config.workspace
    root = root if isinstance(root, Path) else None  # a plugin has one folder for all
    if not folder.is_dir():
        hint = "make it, or change plugin_dir in [tools]"
        registry.problems["plugins"] = ConfigurationError(f"there is no folder of plugins at {folder}", hint=hint)
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
