"""`wasmrt list`: list the installed tools."""

from __future__ import annotations

import click

from wasmrt.catalog import Catalog
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import format_size, print_message, show_columns, show_json_list
from wasmrt.core.places import find_places


@click.command("list")
@json_option
def list(as_json: bool) -> None:
    """List the installed tools, and whether a user agreed to offer them to agents.

    \b
    Examples:
      wasmrt list
      wasmrt list --json
    """
    tools = Catalog(find_places().data).tools()
    if as_json:
        show_json_list(tool._asdict() for tool in tools)
        return
    if not tools:
        print_message("no tools are installed; to list the bundled tools: wasmrt tools list")
        return
    show_columns(
        ("NAME", "VERSION", "TOOLS", "AGENTS", "WORLD", "SIZE", "DIGEST"),
        [
            (
                *(t.name, str(t.number), str(t.tools), "offered" if t.for_agents else "no"),
                *(t.world, format_size(t.size_bytes), t.digest[:12]),
            )
            for t in tools
        ],
    )
    if any(not tool.for_agents for tool in tools):
        print_message("to offer a tool to agents: wasmrt grant NAME --offer; to list their tools: wasmrt tools list")
    for tool in tools:
        if tool.pending is not None:
            print_message(f"version {tool.pending} of {tool.name} awaits a grant: wasmrt grant {tool.name}")
