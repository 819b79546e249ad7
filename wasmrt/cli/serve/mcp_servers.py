"""Functions that the commands of `wasmrt mcp` share: confirm a server, fetch its tools, and show their changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wasmrt.agent.config import read_config_file
from wasmrt.cli.author.progress import report_progress
from wasmrt.cli.shared.output import print_lines, print_message, require_consent
from wasmrt.core.effects import in_words
from wasmrt.core.errors import WasmrtError
from wasmrt.core.places import find_places
from wasmrt.core.setting_commands import set_command
from wasmrt.core.terminal import printable
from wasmrt.interop.mcp.client import (
    NOTHING,
    Definition,
    McpClient,
    McpServerConfig,
    McpTool,
    ServerFacts,
    Trusted,
    claim_of,
    consent_lines,
    default_parts,
    difference,
    find_program,
    refused_tools,
    tool_name,
    trust_server,
)

_CHECK_URL = (
    "check that this is the MCP URL of its documentation, not the URL of a web page; if it needs a token, pass "
    "--bearer SECRET"
)
_CHECK_COMMAND = (
    "check that this command starts an MCP server on standard input and output, with the arguments, folders and "
    "environment variables of its documentation"
)


def confirm_start(server: McpServerConfig, *, yes: bool, as_json: bool) -> None:
    """Show a server's command line and permissions, and ask for confirmation.

    Raises:
        GrantRequiredError: the user declined, or cannot be asked.
        ConfigurationError: the program does not exist, or has a permission that no server may have.
    """
    program = None if server.url else find_program(server)
    print_message(f"the MCP server {server.name}, {server.trust}:")
    for line in consent_lines(server, program):
        print_lines(f"  {printable(line)}")
    action = "Connect to it" if server.url else "Start it"
    require_consent(f"{action} now and whenever one of its tools is called?", yes=yes, as_json=as_json)


def fetch_facts(server: McpServerConfig, entry: Trusted, *, user: str = "local", quiet: bool = False) -> ServerFacts:
    """Connect to a trusted server, and return its current tools.

    Raises:
        WasmrtError: the server cannot be reached or started, or does not respond like an MCP server.
    """
    try:
        with (
            _open_client(server, entry) as client,
            report_progress(quiet=quiet)(f"fetching the tools of {server.name}"),
        ):
            return client.look(user=user)
    except WasmrtError as error:
        if error.hint is None:
            error.hint = _CHECK_URL if server.url else _CHECK_COMMAND
        raise


@contextmanager
def _open_client(server: McpServerConfig, entry: Trusted) -> Iterator[McpClient]:
    parts = default_parts()
    client = McpClient(server, entry, parts)
    try:
        yield client
    finally:
        client.close()
        parts.loop.close()


def trust_start(server: McpServerConfig, entry: Trusted) -> Trusted:
    """Return the trust in a server's command and its earlier tools, after the user confirmed the command."""
    return trust_server(server, entry.tools.values(), entry.auth_hosts)


def describe_tools(server: McpServerConfig, tools: list[Definition], entry: Trusted = NOTHING) -> list[dict[str, Any]]:
    """Return a row for each current tool of a server, and for each trusted tool that was removed."""
    refused = refused_tools(server, tools)
    rows = []
    client = McpClient(server, entry)  # only creates the tools; it does not connect
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
            "claim": "" if shown is None else claim_of(tool),
            "description": "" if shown is None else shown.description,
        }
        if state == "changed":
            row["difference"] = difference(known, tool)
        rows.append(row)
    now = {tool.name for tool in tools}
    for name, known in entry.tools.items():
        if name not in now:
            rows.append({"name": name, "called": tool_name(server.name, name), "state": "gone", "problem": None,
                         "digest": known.digest, "can": "", "claim": "", "description": ""})  # fmt: skip
    return rows


def show_changes(rows: list[dict[str, Any]]) -> None:
    """Print the state of each tool that is not trusted in its current form, with the differences."""
    for row in rows:
        if row["state"] == "agreed":
            continue
        reason = f": {row['problem']}" if row["problem"] else ""
        print_message(f"{row['state']}: {row['name']}{reason}")
        for line in row.get("difference", ()):
            print_lines(f"    {printable(line)}")


def hint_filter() -> None:
    """Print how to allow external tools if the policy denies all of them."""
    policy = read_config_file(find_places().config).policy
    if not policy.filter.allow_external:
        command = set_command("tools.filter.allow_external", True)
        print_message(f"the policy denies tools of MCP servers; to allow external tools: {command}")
