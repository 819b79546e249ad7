"""The parts that the commands of `wasmrt mcp` share: looking at a server, and what is shown of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from wasmrt.agent.config import read_config_file
from wasmrt.cli.author.progress import report_progress
from wasmrt.cli.shared.output import is_interactive, print_lines, print_message
from wasmrt.core.effects import in_words
from wasmrt.core.errors import GrantRequiredError, WasmrtError
from wasmrt.core.places import find_places
from wasmrt.core.terminal import printable
from wasmrt.interop.mcp.client import (
    NOTHING,
    Definition,
    McpClient,
    McpServerConfig,
    McpTool,
    ServerFacts,
    Trusted,
    consent_lines,
    default_parts,
    difference,
    find_program,
    refused_tools,
    tool_name,
    trust_server,
)

_CHECK_URL = (
    "check that this is the address that its documentation names for MCP, and not that of a page, and whether it wants "
    "a token: --bearer SECRET"
)
_CHECK_COMMAND = (
    "check that this command starts a server that speaks MCP on standard output, and what its documentation says that "
    "it needs: arguments, folders, variables"
)


def agree_to_start(server: McpServerConfig, *, yes: bool, as_json: bool) -> None:
    """Show everything that a person agrees to, and ask.

    Raises:
        GrantRequiredError: nobody agreed.
        ConfigurationError: its program is not there, or is given what no server may have.
    """
    program = None if server.url else find_program(server)
    print_message(f"the MCP server {server.name}, {server.trust}:")
    for line in consent_lines(server, program):
        print_lines(f"  {printable(line)}")
    what = "Reach it" if server.url else "Start it"
    _confirm(f"{what}, and do so whenever one of its tools is called?", yes=yes, as_json=as_json)


def agree_to_tools(name: str, *, yes: bool, as_json: bool) -> None:
    """Ask whether the tools are to be used as they are shown.

    Raises:
        GrantRequiredError: nobody agreed.
    """
    _confirm(f"Use the tools of {name} as they are now?", yes=yes, as_json=as_json)


def _confirm(question: str, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    asked = not as_json and is_interactive()
    if not asked or not click.confirm(question, default=False, err=True):
        raise GrantRequiredError("nobody agreed to it, and nothing was changed", hint="look at it, and say --yes")


def look_at(server: McpServerConfig, entry: Trusted, *, user: str = "local", quiet: bool = False) -> ServerFacts:
    """Connect to a server that a person agreed to, and return its tools as they are now.

    Raises:
        WasmrtError: it cannot be reached or started, or does not answer as an MCP server; the hint says what to check.
    """
    try:
        with opened(server, entry) as client, report_progress(quiet=quiet)(f"asking {server.name} for its tools"):
            return client.look(user=user)
    except WasmrtError as error:
        if error.hint is None:
            error.hint = _CHECK_URL if server.url else _CHECK_COMMAND
        raise


@contextmanager
def opened(server: McpServerConfig, entry: Trusted) -> Iterator[McpClient]:
    """Open the client of one server."""
    parts = default_parts()
    client = McpClient(server, entry, parts)
    try:
        yield client
    finally:
        client.close()
        parts.loop.close()


def agreed_start(server: McpServerConfig, entry: Trusted) -> Trusted:
    """Return that a person agreed to the server itself, with the tools that were agreed to before."""
    return trust_server(server, entry.tools.values(), entry.auth_hosts)


def described(server: McpServerConfig, tools: list[Definition], entry: Trusted = NOTHING) -> list[dict[str, Any]]:
    """Return what is shown of a server's tools as they are now, and of those that are gone."""
    refused = refused_tools(server, tools)
    rows = []
    client = McpClient(server, entry)  # it connects to nobody: for what the tools would be
    for tool in tools:
        known = entry.tools.get(tool.name)
        state = "new" if known is None else "agreed" if known.digest == tool.digest else "changed"
        shown = None if tool.name in refused else McpTool(client, tool)
        row: dict[str, Any] = {
            "name": tool.name,
            "called": tool_name(server.name, tool.name),
            "state": "refused" if shown is None else state,
            "problem": refused.get(tool.name),
            "digest": tool.digest,
            "can": "" if shown is None else in_words(shown.traits.effects),
            "description": "" if shown is None else shown.description,
        }
        if state == "changed":
            row["difference"] = difference(known, tool)
        rows.append(row)
    now = {tool.name for tool in tools}
    for name, known in entry.tools.items():
        if name not in now:
            rows.append({"name": name, "called": tool_name(server.name, name), "state": "gone", "problem": None,
                         "digest": known.digest, "can": "", "description": ""})  # fmt: skip
    return rows


def show_changes(rows: list[dict[str, Any]]) -> None:
    """Print the state of each tool that is not agreed to as it is, with what differs."""
    for row in rows:
        if row["state"] == "agreed":
            continue
        why = f": {row['problem']}" if row["problem"] else ""
        print_message(f"{row['state']}: {row['name']}{why}")
        for line in row.get("difference", ()):
            print_lines(f"    {printable(line)}")


def hint_filter() -> None:
    """Say how tools of others are let in, where the policy keeps all of them out."""
    policy = read_config_file(find_places().config).policy
    if not policy.filter.allow_external:
        print_message("the policy keeps tools of others out: set allow_external = true in [tools.filter]")
