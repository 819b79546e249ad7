"""The tools that are part of wasmrt: their names, their terms, and the parts of a runtime that they need.

The grants of these tools need no approval, because the tools are part of the program. Their capability files limit them
to resources that the operator configures, such as the workspace or the search provider.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.effects import Effect
from wasmrt.core.names import spelling
from wasmrt.core.setting_commands import append_command, set_command
from wasmrt.core.traits import ActionDescriptor, OwnTerms

if TYPE_CHECKING:
    from wasmrt.capabilities import Capabilities
    from wasmrt.catalog.search import WebSearch
    from wasmrt.sandbox.component import ToolSpec

FOLDER = Path(__file__).parent / "shipped"


class BundledTool(NamedTuple):
    """A tool in a component that is part of wasmrt."""

    name: str
    """The name that agents use."""
    component: str
    """The name of the component file, without suffix."""
    tool: str
    """The tool's name in the component."""
    aliases: tuple[str, ...] = ()
    """Names that other agents use for the same tool."""
    seconds: float | None = None
    """The typical duration of one call."""
    actions: tuple[ActionDescriptor, ...] = ()
    action_param: str = "action"
    permission: str = ""
    """`ask` if each call requires approval, unless a rule of the operator sets a different permission."""
    labels: tuple[str, ...] | None = None
    """The labels of the tool's results, or None if the labels follow from the effects."""
    previews: bool = False
    """True if the component shows approvers what a call would change, as `OwnTerms.previews` describes."""

    @property
    def needs(self) -> str:
        """The part of the runtime that the tool needs (`workspace` or `search`), or `""`."""
        return "workspace" if self.component == "files" else "search" if self.name == WEB_SEARCH else ""


class OwnTool(NamedTuple):
    """A tool that is part of wasmrt, but not in a component."""

    name: str
    needs: str
    """The part of the runtime that the tool needs, or `registry` if only a registry has the tool."""
    found: str
    """The hint for users who try to use the tool as a component."""
    aliases: tuple[str, ...] = ()


_LOCAL_SECONDS = 0.05
_READS = frozenset({Effect.NETWORK})
_SENDS = frozenset({Effect.NETWORK, Effect.EXTERNAL_WRITE})
_METHODS = (ActionDescriptor("GET", _READS), *(ActionDescriptor(m, _SENDS) for m in ("POST", "PUT", "DELETE", "PATCH")))


WEB_FETCH, WEB_SEARCH = "web_fetch", "web_search"
TOOLS = (
    BundledTool("echo", "echo", "echo"),
    BundledTool("time", "time", "time"),
    BundledTool("json", "json", "json"),
    BundledTool("read_file", "files", "read_file", ("file_read", "files.read_text"), _LOCAL_SECONDS),
    BundledTool("write_file", "files", "write_file", ("file_write", "files.write_text"), _LOCAL_SECONDS),
    BundledTool("list_dir", "files", "list_dir", ("file_list", "files.list_dir"), _LOCAL_SECONDS),
    BundledTool("apply_patch", "files", "apply_patch", ("file_edit",), _LOCAL_SECONDS),
    BundledTool("apply_diff", "files", "apply_diff", (), _LOCAL_SECONDS, previews=True),
    BundledTool("file_search", "files", "file_search", ("files.search",), 0.5),
    BundledTool("file_delete", "files", "file_delete", (), _LOCAL_SECONDS),
    BundledTool("files.ensure_dir", "files", "ensure_dir", (), _LOCAL_SECONDS),
    BundledTool("files.move_glob", "files", "move_glob", (), _LOCAL_SECONDS),
    BundledTool("vault_copyto", "files", "vault_copyto", (), _LOCAL_SECONDS),
    BundledTool("html_to_markdown", "web", "html_to_markdown", (), 0.2),
    BundledTool("http", "web", "http", (), 1.0, _METHODS, "method", permission="ask"),
    BundledTool(WEB_FETCH, "web", "web_fetch", (), 2.0),
    # Search results are public; the key to the provider does not make them private.
    BundledTool(WEB_SEARCH, "web", "web_search", (), 1.5, labels=("untrusted",)),
)

CHOOSE_PROVIDER = f"choose brave, tavily or searxng: {set_command('web_search.provider', 'brave')}"
HOST_TOOLS = ("memory_read", "memory_search", "memory_tree", "memory_write")
"""The memory tools, implemented by `wasmrt.agent.builtin.memory_tools`."""
REGISTRY_TOOLS = (
    *("skill_install", "skill_list", "skill_read", "skill_remove", "skill_search"),
    *("tool_activate", "tool_auth", "tool_install", "tool_list", "tool_remove", "tool_search"),
)
"""Tools that manage skills and tools, which only a registry has: `agent/builtin/skills`, `agent/builtin/extensions`."""
DESKTOP_NAMES = (
    *("clipboard.read", "clipboard.write", "notify.send", "apps.open", "browser.open_url"),
    *("windows.list", "windows.focus", "screen.capture", "keyboard.type", "keyboard.press"),
    *("mouse.move", "mouse.click", "mouse.drag", "mouse.scroll"),
)
"""Tools for the user's desktop, disabled by default: `wasmrt.agent.builtin.desktop`."""
SHELL_NAME, SHELL_ALIASES = "shell", ("shell_exec", "shell.run")
"""The shell, implemented by `wasmrt.agent.builtin.shell`."""
RUN_CODE = BundledTool("run_code", "code", "run_code")
"""The interpreter for code mode programs."""
CODE_TOOLS = (RUN_CODE.name, "search_tools")
"""Tools of code mode, which is disabled by default: `wasmrt.agent.builtin.code_mode`."""
CREATE_JOB = "create_job"
JOB_TOOLS = (CREATE_JOB, "list_jobs", "job_status", "cancel_job", "job_events", "job_prompt")
"""Tools for background jobs, available if the operator or the program has set a runner: `wasmrt.agent.jobs`."""
ROUTINE_TOOLS = ("routine_create", "routine_list", "routine_update", "routine_delete", "routine_history")
"""Tools for routines, available if jobs are: `wasmrt.agent.routines`."""
PROGRAM_TOOLS = {
    "build_software": "in your program, register builder_tool(registry, model=...), as docs/builder.md describes"
}
"""Tools that only a program can add, because they need its model, each with the step that adds it."""
_IN_REGISTRY = "use load_registry(runtime); wasmrt tools describe NAME shows the tool"
_IN_WORKSPACE = f"the shell runs commands in a workspace: wasmrt tools describe {SHELL_NAME} --workspace ."
OWN_TOOLS = (
    *(OwnTool(name, "memory", _IN_REGISTRY) for name in HOST_TOOLS),
    *(
        OwnTool(name, "registry", f"it is for agents; wasmrt tools describe {name} shows the tool")
        for name in REGISTRY_TOOLS
    ),
    *(OwnTool(name, name, f"it is a desktop tool: wasmrt tools describe {name}") for name in DESKTOP_NAMES),
    OwnTool(SHELL_NAME, "workspace", _IN_WORKSPACE, SHELL_ALIASES),
    *(
        OwnTool(name, RUN_CODE.name, f"it is for agents; wasmrt tools describe {name} shows the tool")
        for name in CODE_TOOLS
    ),
    *(
        OwnTool(name, CREATE_JOB, f"it is for agents; wasmrt tools describe {name} shows the tool")
        for name in (*JOB_TOOLS, *ROUTINE_TOOLS)
    ),
)
SHIPPED: tuple[BundledTool | OwnTool, ...] = (*OWN_TOOLS, *TOOLS)
_STEPS = {
    "workspace": f"set a workspace: --workspace DIR, or {set_command('workspace.path', 'DIR')}",
    "memory": f"enable the memory: {set_command('memory.enabled', True)}",
    "search": CHOOSE_PROVIDER,
    RUN_CODE.name: f"enable code mode: {set_command('code_mode.enabled', True)}",
    CREATE_JOB: f"set the command of jobs: {append_command('jobs.command', '/usr/bin/my-agent')}",
    **{name: f"enable it: {append_command('desktop.tools', name)}" for name in DESKTOP_NAMES},
}
FILES = BundledTool("files", "files", "")
"""The component `files` with all its tools. The option `--tool` or the method `.tool(name)` selects one of them."""


def bundled_tool(name: str) -> BundledTool | None:
    """Return the bundled tool with a name or alias, in any spelling that models use, or None.

    For the name `files`, return `FILES`, the component with all file tools.
    """
    return next((tool for tool in (*TOOLS, FILES) if _has_name(tool, name)), None)


def own_tool(name: str) -> OwnTool | None:
    """Return the tool outside of components with a name or alias, in any spelling that models use, or None."""
    return next((tool for tool in OWN_TOOLS if _has_name(tool, name)), None)


def _has_name(tool: BundledTool | OwnTool, name: str) -> bool:
    return spelling(name) in map(spelling, (tool.name, *tool.aliases))


def shipped_names() -> Iterator[str]:
    """Yield every name and alias of the tools that are part of wasmrt."""
    for tool in SHIPPED:
        yield from (tool.name, *tool.aliases)


def bundled_names() -> tuple[str, ...]:
    """Return the sorted names of the bundled components, without aliases."""
    return tuple(sorted(tool.name for tool in TOOLS))


def bundled_component(tool: BundledTool) -> ComponentBytes:
    """Return the component that contains a tool."""
    return ComponentBytes((FOLDER / f"{tool.component}.wasm").read_bytes())


def bundled_sidecar(tool: BundledTool, search: WebSearch | None = None) -> str | None:
    """Return the capability file of a tool, or None if the tool requests nothing."""
    if search is not None and tool.name == WEB_SEARCH:
        return search.sidecar
    path = FOLDER / f"{tool.component}.capabilities.json"
    return path.read_text("utf-8") if path.is_file() else None


def bundled_grant(tool: BundledTool, search: WebSearch | None = None) -> Capabilities:
    """Return the capabilities of a tool: its section of the capability file or, for `FILES`, the whole file."""
    from wasmrt.capabilities import Capabilities, for_tool  # a list of names needs no capabilities

    if search is not None and tool.name == WEB_SEARCH:
        return search.grant
    sidecar = bundled_sidecar(tool)
    if sidecar is None:
        return Capabilities.none()
    from wasmrt.capabilities.file import parse  # echo, time and json have no capability file

    whole = parse(sidecar).capabilities
    return for_tool(whole, tool.tool) if tool.tool else whole


def bundled_specs(
    tool: BundledTool, search: WebSearch | None = None, *, robots_txt: bool = False
) -> tuple[ToolSpec, ...] | None:
    """Return the specification that restricts a component to this tool, or None if the component has only one tool."""
    from wasmrt.sandbox.component import ToolSpec  # as in `bundled_grant`

    several = sum(other.component == tool.component for other in TOOLS) > 1
    if not several or not tool.tool:
        return None
    chosen = search if tool.name == WEB_SEARCH else None
    settings: Mapping[str, str | bool] | None = None if chosen is None else chosen.settings
    if robots_txt and tool.name == WEB_FETCH:
        settings = {"robots_txt": True}
    terms = OwnTerms(
        actions=tool.actions,
        action_param=tool.action_param,
        labels=tool.labels,
        cost=Decimal(0) if chosen is None else chosen.cost,
        seconds=tool.seconds,
        settings=settings,
        previews=tool.previews,
    )
    return (ToolSpec(tool.tool, permission=tool.permission, own=terms),)


def missing_part(tool: BundledTool | OwnTool, has: Container[str]) -> str | None:
    """Return the hint for adding the part of the runtime that a tool needs, or None if `has` contains the part."""
    return None if tool.needs in has else _STEPS.get(tool.needs)
