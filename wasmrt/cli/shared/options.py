"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

capability_file_argument = click.argument("file", type=click.Path(path_type=Path))


def complete_tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of an installed or bundled tool, or a path.

    If the catalog cannot be read, nothing is completed, because a completing shell cannot show an error.
    """
    from click.shell_completion import CompletionItem  # needed only for completion

    if incomplete.startswith((".", "/", "~")):
        return [CompletionItem(incomplete, type="file")]
    from wasmrt.catalog import Catalog
    from wasmrt.catalog.bundled import HOST_TOOLS, bundled_names
    from wasmrt.core.errors import WasmrtError
    from wasmrt.core.places import find_places

    try:
        known = {tool.name: tool.description for tool in Catalog(find_places().data).tools()}
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
user_option = click.option("--user", default="local", show_default=True, help="User who owns the secret.")
workspace_option = click.option(
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Workspace folder: granted workspace prefixes are relative to it.",
)
