"""`wasmrt list`: list the tools of all kinds, without loading them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from wasmrt.catalog.bundled import CREATE_JOB, RUN_CODE, SHIPPED, missing_part
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import format_size, print_message, show, show_columns, show_json_list, show_names
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog


class _ToolGroups(NamedTuple):
    """The names of the tools that are not installed, by kind."""

    included: tuple[str, ...]
    off: tuple[str, ...]
    """Tools of wasmrt that need a setting or an option."""
    servers: tuple[str, ...]
    """Tools of MCP servers, as SERVER.TOOL."""
    plugins: tuple[str, ...]


@click.command("list")
@click.option("--all", "with_all", is_flag=True, help="With --json: also list the tools that are not installed.")
@json_option
def list(with_all: bool, as_json: bool) -> None:
    """List the tools of all kinds, in groups.

    The groups are: installed, included with wasmrt, of MCP servers, and plugins. AGENTS tells whether a user agreed to
    offer an installed tool to agents.

    With --json, the list has the installed tools; with --all, it also has an entry with `name` and `group` for each
    other tool.

    \b
    Examples:
      wasmrt list
      wasmrt list --json
      wasmrt list --json --all
    """
    if with_all and not as_json:
        raise click.UsageError("--all requires --json; without --json, the list already has all tools")
    tools = open_catalog(find_places().data).tools()
    if as_json:
        others = _find_others() if with_all else _ToolGroups((), (), (), ())
        rows = [{"name": name, "group": group} for group, names in others._asdict().items() for name in names]
        show_json_list([*({**tool._asdict(), "group": "installed"} for tool in tools), *rows])
        return
    if tools:
        show("Installed:")
        show_columns(
            ("NAME", "VERSION", "TOOLS", "AGENTS", "WORLD", "SIZE", "DIGEST"),
            [
                (
                    *(t.name, str(t.number), str(t.tools), "offered" if t.for_agents else "no"),
                    *(t.world, format_size(t.size_bytes), t.digest[:12]),
                )
                for t in tools
            ],
            indent=2,
        )
    else:
        print_message("no tools are installed; to install one: wasmrt install FILE")
    for title, names in zip(("Included", "Included, but off", "MCP servers", "Plugins"), _find_others(), strict=True):
        show_names(title, names)
    if any(not tool.for_agents for tool in tools):
        print_message("to offer a tool to agents: wasmrt grant NAME --offer")
    for tool in tools:
        if tool.pending is not None:
            print_message(f"version {tool.pending} of {tool.name} awaits a grant: wasmrt grant {tool.name}")
    print_message("to call one: wasmrt run NAME; to see what agents may do with each: wasmrt tools list")


def _find_others() -> _ToolGroups:
    has: set[str] = {"memory"}
    plugins: tuple[str, ...] = ()
    places = find_places()
    if places.config.exists():
        from wasmrt.agent.config import read_config_file  # slow to import

        file = read_config_file(places.config)
        settings = {"workspace": file.runtime.get("workspace"), "search": file.runtime.get("web_search")}
        has = {name for name, value in settings.items() if value is not None}
        has |= {"memory"} if file.runtime.get("memory") is not False else set()
        has |= {*file.desktop.tools, *({RUN_CODE.name} if file.code_mode else ())}
        has |= {CREATE_JOB} if file.jobs.command else set()
        folder = file.policy.plugin_dir
        plugins = () if folder is None else tuple(sorted(path.stem for path in folder.glob("*.toml")))
    on = tuple(sorted(tool.name for tool in SHIPPED if missing_part(tool, has) is None))
    off = tuple(sorted(tool.name for tool in SHIPPED if missing_part(tool, has) is not None))
    return _ToolGroups(on, off, tuple(_iter_server_tools()), plugins)


def _iter_server_tools() -> Iterator[str]:
    places = find_places()
    if not places.mcp_servers.exists():
        return
    try:
        from wasmrt.interop.mcp.client import NOTHING, load_servers  # the SDK takes 0.3 s to import
    except ConfigurationError as error:
        print_message(f"{error.message}: {error.hint}")
        return
    servers, known = load_servers(places)
    for server in servers.values():
        trusted: Sequence[str] = sorted(known.get(server.name, NOTHING).tools)
        yield from (f"{server.name}.{tool}" for tool in trusted)
