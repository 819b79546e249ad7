"""The tools that come with wasmrt: their names, the component that each is in, and the capability file that bounds it.

Nobody agrees to their grants one by one: they are part of the program. What they can reach is what an operator gives:
without a workspace there is no file, and a tool's own part of the capability file bounds it there.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wasmrt.capabilities import Capabilities, for_tool
from wasmrt.component import ToolSpec
from wasmrt.component_bytes import ComponentBytes

FOLDER = Path(__file__).parents[1] / "_tools"


class BundledTool(NamedTuple):
    """A tool, by the name that agents know it by."""

    name: str
    component: str
    """The file that it is in, without its suffix."""
    tool: str
    """Its name there."""
    aliases: tuple[str, ...] = ()
    """Names of the same tool in other agents."""


TOOLS = (
    BundledTool("echo", "echo", "echo"),
    BundledTool("time", "time", "time"),
    BundledTool("json", "json", "json"),
    BundledTool("read_file", "files", "read_file", ("file_read", "files.read_text")),
    BundledTool("write_file", "files", "write_file", ("file_write", "files.write_text")),
    BundledTool("list_dir", "files", "list_dir", ("file_list", "files.list_dir")),
    BundledTool("apply_patch", "files", "apply_patch", ("file_edit",)),
    BundledTool("apply_diff", "files", "apply_diff"),
    BundledTool("file_search", "files", "file_search", ("files.search",)),
    BundledTool("file_delete", "files", "file_delete"),
    BundledTool("files.ensure_dir", "files", "ensure_dir"),
    BundledTool("files.move_glob", "files", "move_glob"),
    BundledTool("vault_copyto", "files", "vault_copyto"),
    BundledTool("html_to_markdown", "html_to_markdown", "html_to_markdown"),
)

FILES = BundledTool("files", "files", "")
"""All tools of one component, for whoever chooses one of them by `--tool` or `.tool(name)`."""


def bundled_tool(name: str) -> BundledTool | None:
    """Return the tool of a name, or of an alias, or `FILES`; None where there is none."""
    return next((tool for tool in (*TOOLS, FILES) if name == tool.name or name in tool.aliases), None)


def bundled_names() -> tuple[str, ...]:
    """Return the names of the tools that come with wasmrt, sorted; without aliases."""
    return tuple(sorted(tool.name for tool in TOOLS))


def bundled_component(tool: BundledTool) -> ComponentBytes:
    """Return the component that a tool is in."""
    return ComponentBytes((FOLDER / f"{tool.component}.wasm").read_bytes())


def bundled_sidecar(tool: BundledTool) -> str | None:
    """Return the capability file of the component that a tool is in; None for one that asks for nothing."""
    path = FOLDER / f"{tool.component}.capabilities.json"
    return path.read_text("utf-8") if path.is_file() else None


def bundled_grant(tool: BundledTool) -> Capabilities:
    """Return what a tool may do: its own part of the capability file; of `FILES` all parts, told apart."""
    sidecar = bundled_sidecar(tool)
    if sidecar is None:
        return Capabilities.none()
    from wasmrt.capabilities.file import parse  # echo, time and json have none

    whole = parse(sidecar).capabilities
    return for_tool(whole, tool.tool) if tool.tool else whole


def bundled_specs(tool: BundledTool) -> tuple[ToolSpec, ...] | None:
    """Return what narrows a component to this one tool; None for a component that holds no other."""
    several = sum(other.component == tool.component for other in TOOLS) > 1
    return (ToolSpec(tool.tool),) if several and tool.tool else None


def needs_workspace(name: str) -> bool:
    """Tell whether a tool that comes with wasmrt is for files alone."""
    tool = bundled_tool(name)
    return tool is not None and tool.component == "files"
