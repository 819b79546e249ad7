"""Functions that the commands of `wasmrt mcp` share: confirm a server, fetch its tools, and show their changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from wasmrt.cli.shared.consent import ask_to_add, print_offer
from wasmrt.cli.shared.output import is_interactive, not_approved, print_lines, print_message, require_consent
from wasmrt.cli.shared.progress import report_progress
from wasmrt.core.effects import in_words
from wasmrt.core.errors import NotAuthorizedError, WasmrtError
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
    describe_claim,
    find_program,
    list_differences,
    offer_of,
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


def confirm_start(
    server: McpServerConfig, before: Trusted, *, offer: bool | None = None, yes: bool, as_json: bool
) -> Trusted:
    """Show a server's command line and permissions, ask for confirmation, and return the trust in the server.

    SECURITY: only consent offers tools to agents: an answer, --yes or --offer (`offer`). A server that was trusted
    before keeps the user's decision.

    Raises:
        GrantRequiredError: the user declined, or cannot be asked.
        ConfigurationError: the program does not exist, or has a permission that no server may have.
    """
    program = None if server.url else find_program(server)
    print_message(f"the MCP server {server.name}, {server.trust}:")
    for line in consent_lines(server, program):
        print_lines(f"  {printable(line)}")
    action = f"{'Connect to it' if server.url else 'Start it'} now and whenever one of its tools is called"
    for_agents = before.for_agents if before.consent and offer is None else offer
    if for_agents is None and not yes and not as_json and is_interactive():
        for_agents = ask_to_add(action, "its tools")
        if for_agents is None:
            raise not_approved()
    else:
        for_agents = True if for_agents is None else for_agents
        agents = ", and offer its tools to agents" if for_agents else ""
        require_consent(f"{action}{agents}?", yes=yes, as_json=as_json)
    return replace(trust_server(server, before.tools.values(), before), for_agents=for_agents)


def change_offer(server: McpServerConfig, entry: Trusted, *, for_agents: bool, yes: bool, as_json: bool) -> Trusted:
    """Change whether a server's tools are offered to agents, and return the trust in the server with that decision.

    The user is asked for confirmation if the tools would be offered.

    Raises:
        NotAuthorizedError: the server is not trusted.
        GrantRequiredError: the user declined, or cannot be asked.
    """
    if not entry.covers(server):
        hint = f"review and approve it: wasmrt mcp trust {server.name}"
        raise NotAuthorizedError(f"the MCP server {server.name} has not been approved", code="mcp-consent", hint=hint)
    if for_agents and not entry.for_agents:
        print_message(f"the {len(entry.tools)} tools of the MCP server {server.name}, {server.trust}:")
        for tool in entry.tools:
            print_lines(f"  {printable(tool)}")
        require_consent("Offer them to the agents of this installation?", yes=yes, as_json=as_json)
    return replace(entry, for_agents=for_agents)


def print_server_offer(server: McpServerConfig, entry: Trusted) -> None:
    """Print whether agents can use a server's tools, and the command that changes it."""
    refused = refused_tools(server, entry.tools.values())
    usable = [tool_name(server.name, name) for name in entry.tools if name not in refused]
    print_offer(f"the tools of {server.name}", usable, offer_of(server, entry))


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
            "claim": "" if shown is None else describe_claim(tool),
            "declared": shown is not None and shown.declaration is not None and shown.declaration.matches,
            "description": "" if shown is None else shown.description,
        }
        if state == "changed":
            row["difference"] = list_differences(known, tool)
        rows.append(row)
    now = {tool.name for tool in tools}
    for name, known in entry.tools.items():
        if name not in now:
            rows.append({"name": name, "called": tool_name(server.name, name), "state": "gone", "problem": None,
                         "digest": known.digest, "can": "", "claim": "", "declared": False,
                         "description": ""})  # fmt: skip
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
