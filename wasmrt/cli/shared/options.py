"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from wasmrt.agent.registry import ToolView

capability_file_argument = click.argument("file", type=click.Path(path_type=Path))


def complete_tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of an installed or bundled tool, or a path.

    If the catalog cannot be read, nothing is completed, because a completing shell cannot show an error.
    """
    from click.shell_completion import CompletionItem  # needed only for completion

    if incomplete.startswith((".", "/", "~")):
        return [CompletionItem(incomplete, type="file")]
    from wasmrt.catalog.bundled import HOST_TOOLS, bundled_names
    from wasmrt.core.errors import WasmrtError
    from wasmrt.core.places import find_places
    from wasmrt.runtime.stores import open_catalog

    try:
        known = {tool.name: tool.description for tool in open_catalog(find_places().data).tools()}
    except WasmrtError:
        return []
    hosts = HOST_TOOLS if ctx.command.name in ("run", "describe") else ()  # other commands need a component
    known = dict.fromkeys((*bundled_names(), *hosts), "comes with wasmrt") | known
    named = [name for name in sorted(known) if name.startswith(incomplete)]
    if not named:
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(name, help=" ".join(known[name].split())[:60] or None) for name in named]


subject_argument = click.argument("subject", metavar="FILE_OR_TOOL", shell_complete=complete_tools)
json_option = click.option("--json", "as_json", is_flag=True, help="Print data as JSON, and errors too (on stderr).")
quiet_option = click.option("--quiet", is_flag=True, help="Show no progress.")
user_option = click.option("--user", default="local", show_default=True, help="User who owns the secret.")
workspace_option = click.option(
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Workspace folder: granted workspace prefixes are relative to it.",
)


class ViewChoice(NamedTuple):
    """The options that restrict the registry for one command."""

    preset: str | None = None
    read_only: bool = False
    subagent: bool = False
    no_network: bool = False

    def of(self, registry: ToolView) -> ToolView:
        """Return the view of a registry that has these restrictions.

        Raises:
            ConfigurationError: the preset is unknown.
        """
        view = registry if self.preset is None else registry.under(self.preset)
        view = view.read_only() if self.read_only else view
        view = view.for_subagent() if self.subagent else view
        return view.without_network() if self.no_network else view


def view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that restrict the registry. The command receives them as the parameter `choice`."""

    @wraps(command)
    def wrapper(preset: str | None, read_only: bool, subagent: bool, no_network: bool, **rest: Any) -> Any:
        return command(choice=ViewChoice(preset, read_only, subagent, no_network), **rest)

    for option in (
        click.option("--no-network", is_flag=True, help="Leave out tools that can send data to the network."),
        click.option("--subagent", is_flag=True, help="Only offer the tools that a sub-agent may call."),
        click.option("--read-only", is_flag=True, help="Only offer calls that make no changes."),
        click.option("--preset", metavar="NAME", help="Apply this preset in addition to the active one."),
    ):
        wrapper = option(wrapper)
    return wrapper
