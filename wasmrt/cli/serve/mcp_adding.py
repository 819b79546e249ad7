"""Add a server: install its package, ask for confirmation, fetch its tools, and store it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as with_changes
from pathlib import Path, PurePath
from typing import Any

import click

from wasmrt.cli.serve import mcp_servers
from wasmrt.cli.shared.output import is_interactive, print_message, show_columns
from wasmrt.cli.shared.progress import report_progress
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.places import find_places
from wasmrt.interop.mcp.client import (
    NOTHING,
    McpServerConfig,
    Trusted,
    keep_server,
    load_servers,
    trust_server,
    wants_login,
)
from wasmrt.interop.mcp.packages import Package, install_package, read_runner

_INTERPRETERS = re.compile(r"(?:python[0-9.]*|node|nodejs|bun|ruby|perl|php|bash|sh)")
_PROJECTS = ("package.json", "pyproject.toml", "requirements.txt")


@contextmanager
def installed_server(server: McpServerConfig, *, quiet: bool) -> Iterator[McpServerConfig]:
    """Install the package that a server's command would fetch, and return the server with the installed program.

    If the block fails, the installation is deleted.

    Raises:
        WasmrtError: the command cannot be used, or the package cannot be installed.
    """
    runner = server.command
    request = read_runner(runner) if runner else None
    if request is None:
        yield server
        return
    with report_progress(quiet=quiet)(f"installing {request.requirement} from {request.registry.label}"):
        installation = install_package(find_places(), server.name, request, runner)
    try:
        for note in installation.notes:
            print_message(f"note: {note}")
        yield with_changes(server, command=installation.command, package=installation.package)
    except BaseException:
        installation.discard()
        raise


def add_server(
    server: McpServerConfig, *, replace: bool, connect: bool = True, offer: bool | None, yes: bool, as_json: bool
) -> dict[str, Any]:
    """Add a server after the user confirms its settings, and return its entry with its tools.

    `offer` is whether its tools are offered to agents; if it is None, the user's answer decides.

    Raises:
        WasmrtError: the server exists, cannot be used, or was not confirmed.
    """
    name, places = server.name, find_places()
    servers, known = load_servers(places)
    if name in servers and not replace:
        raise ConfigurationError(
            f"an MCP server {name} already exists", hint=f"pass --replace, or run: wasmrt mcp remove {name}"
        )
    server = _with_folders(prepare_server(server), ask=not yes and not as_json and is_interactive())
    with installed_server(server, quiet=as_json) as installed:
        if name in servers:
            show_package_change(servers[name].package, installed.package)
        before = with_changes(NOTHING, auth_hosts=known.get(name, NOTHING).auth_hosts if name in servers else ())
        entry = mcp_servers.confirm_start(installed, before, offer=offer, yes=yes, as_json=as_json)
        entry, rows, version = _fetch_tools(installed, entry, as_json=as_json) if connect else (entry, [], None)
        keep_server(places, installed, entry)
    if not as_json:
        _show_added(installed, entry, rows, version)
    return installed.as_json() | {"protocol": version, "tools": rows, "for_agents": entry.for_agents}


def _show_added(server: McpServerConfig, entry: Trusted, rows: list[dict[str, Any]], version: str | None) -> None:
    if rows:
        usable = [row for row in rows if row["state"] != "refused"]
        show_columns(("TOOL", "CAN", "CLAIM"), [(r["called"], r["can"], r["claim"]) for r in usable])
        mcp_servers.show_changes(rows)
    print_message(f"added {server.name}" + ("" if version is None else f", protocol version {version}"))
    derived = [row["name"] for row in rows if not row["declared"]]
    if any(row["declared"] for row in rows) and derived:
        print_message(f"no declaration matches {', '.join(derived)}: wasmrt policy flows {server.name}")
    mcp_servers.print_server_offer(server, entry)


def show_package_change(old: Package | None, new: Package | None) -> None:
    """Print how the package of a server changes."""
    if old is None or new is None or old == new:
        return
    same = "the same content" if old.digest == new.digest else f"digest {old.digest[:16]} to {new.digest[:16]}"
    print_message(f"{new.name}: {old.version} to {new.version}, {same}")


def _fetch_tools(
    server: McpServerConfig, entry: Trusted, *, as_json: bool
) -> tuple[Trusted, list[dict[str, Any]], str | None]:
    try:
        facts = mcp_servers.fetch_facts(server, entry, quiet=as_json)
    except WasmrtError as error:
        if wants_login(server, error):
            keep_server(find_places(), server, entry)
            print_message(f"{server.name} is added without tools; it may need a login: wasmrt mcp auth {server.name}")
        raise
    entry = trust_server(server, facts.tools, entry)
    return entry, mcp_servers.describe_tools(server, facts.tools, entry), facts.version


def prepare_server(server: McpServerConfig) -> McpServerConfig:
    """Make the path of an interpreter's script absolute, and let the server read the script's project."""
    command = server.command
    if not command or not _INTERPRETERS.fullmatch(PurePath(command[0]).name):
        return server
    program = command[0]
    if program == "python" and shutil.which(program) is None:
        program = "python3"
    index = _find_script(command)
    if index is None:
        return with_changes(server, command=(program, *command[1:]))
    script = Path(command[index]).expanduser().absolute()
    if not script.is_file():
        raise ConfigurationError(f"the script {command[index]!r:.200} does not exist", hint="name an existing file")
    project = next((folder for folder in script.parents if any((folder / name).exists() for name in _PROJECTS)), None)
    read = server.read
    # SECURITY: a whole home directory is not a project; the question shows the folder.
    if project is not None and not Path.home().is_relative_to(project):
        covering = (server.workspace, *read, *server.write)
        read += () if any(path and project.is_relative_to(path) for path in covering) else (str(project),)
    return with_changes(server, command=(program, *command[1:index], str(script), *command[index + 1 :]), read=read)


def _find_script(command: Sequence[str]) -> int | None:
    """Return the position of the script in an interpreter's command, or None if its options name a module or code."""
    for index, word in enumerate(command[1:], 1):
        if word in ("-m", "-c", "-e", "-p", "--eval", "--print", "-"):
            return None
        if not word.startswith("-"):
            return index if "." in word or "/" in word else None
    return None


def _with_folders(server: McpServerConfig, *, ask: bool) -> McpServerConfig:
    """Return a server with the access that the user allows to each folder in its arguments.

    If `ask` is false, nobody is asked, and a note names the options that allow the access.
    """
    read, write = list(server.read), list(server.write)
    for part in server.command[1:]:
        path = Path(part).expanduser()
        granted = (server.workspace, *read, *write)
        if not path.is_absolute() or not path.is_dir() or any(g and path.is_relative_to(g) for g in granted):
            continue
        if not ask:
            print_message(
                f"note: the server may not use the folder {part}; to allow it: --read {part} or --write {part}"
            )
            continue
        chosen = click.prompt(
            f"May it use the folder {part}?", type=click.Choice(["no", "read", "write"]), default="no", err=True
        )
        if chosen != "no":
            (read if chosen == "read" else write).append(str(path))
    return with_changes(server, read=tuple(read), write=tuple(write))
