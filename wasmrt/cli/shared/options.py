"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

capability_file_argument = click.argument("file", type=click.Path(path_type=Path))


def complete_tools(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a tool, installed or bundled; what begins like a path is completed as one.

    A catalog that cannot be read completes nothing: a shell has no place for an error.
    """
    from click.shell_completion import CompletionItem  # only a shell that completes needs it

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
    hosts = HOST_TOOLS if ctx.command.name in ("run", "describe") else ()  # the others are about components
    known = dict.fromkeys((*bundled_names(), *hosts), "comes with wasmrt") | known
    named = [name for name in sorted(known) if name.startswith(incomplete)]
    if not named:
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(name, help=" ".join(known[name].split())[:60] or None) for name in named]


subject_argument = click.argument("subject", metavar="FILE_OR_TOOL", shell_complete=complete_tools)
json_option = click.option("--json", "as_json", is_flag=True, help="Print data as JSON, errors too (on stderr).")
user_option = click.option("--user", default="local", show_default=True, help="Whose secret it is.")
workspace_option = click.option(
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder that granted workspace prefixes are below.",
)
