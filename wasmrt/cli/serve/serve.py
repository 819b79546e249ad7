"""`wasmrt serve`: the registry's tools for every client of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from wasmrt.cli.serve.check import check_server
from wasmrt.cli.serve.clients import CLIENTS, client_config
from wasmrt.cli.serve.options import ServeOptions, check_user
from wasmrt.cli.serve.session import serve_tools
from wasmrt.cli.shared.options import json_option, workspace_option
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.core.version import VERSION
from wasmrt.interop.mcp.server.protocol import Server, serve_stdio


@click.command("serve")
@click.option("--tool", "patterns", multiple=True, metavar="GLOB", help="Only these tools; may be given several times.")
@click.option("--preset", metavar="NAME", help="Under this preset, besides the active one.")
@click.option("--read-only", is_flag=True, help="Nothing that changes something.")
@click.option("--user", default="local", show_default=True, help="Whose secrets, approvals and rate limits count.")
@click.option(
    "--print-config",
    "client",
    type=click.Choice(CLIENTS),
    help="Print what to paste into a client's settings, and end.",
)
@click.option(
    "--http", "address", metavar="[HOST:]PORT", help="Serve over HTTP on this loopback address, in place of stdio."
)
@click.option("--new-token", "token_for", metavar="USER", help="Make a token for a user of --http, print it, and end.")
@click.option("--check", is_flag=True, help="Start this server, speak to it in both eras, say what it offers, and end.")
@workspace_option
@json_option
def serve(
    patterns: tuple[str, ...],
    preset: str | None,
    read_only: bool,
    user: str,
    client: str | None,
    address: str | None,
    token_for: str | None,
    check: bool,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Serve the registry's tools to MCP clients, over standard input and output or over HTTP.

    A client starts this command by itself: --print-config says what to tell it. Calls go through every step of the
    policy. One that needs a person waits as a request, which the client's own form or wasmrt approvals answers.

    \b
    Examples:
      wasmrt serve --print-config claude
      wasmrt serve --read-only --tool 'files-*'
      wasmrt serve --check
      wasmrt serve --http 127.0.0.1:8931
    """
    _check_one(**{"--print-config": client, "--http": address, "--new-token": token_for, "--check": check or None})
    check_user(user, "--user")
    options = ServeOptions(patterns, preset, read_only, user, workspace)
    if client is not None:
        return _print_config(client, options, as_json=as_json)
    if check:
        return check_server(options.as_arguments(), as_json=as_json)
    if token_for is not None:
        from wasmrt.cli.serve.http import new_token  # over stdio, which is the rule, nothing of HTTP is loaded

        return new_token(token_for, as_json=as_json)
    if as_json:
        raise click.UsageError("--json is for --check, --print-config and --new-token; the protocol is JSON already")
    if address is not None:
        from wasmrt.cli.serve.http import serve_over_http

        return serve_over_http(options, address)
    if sys.stdin.isatty():
        print_message("waiting for an MCP client on standard input; serve --print-config NAME says how to add it")
    return asyncio.run(_serve(options, _own_output()))


def _check_one(**given: object) -> None:
    """Refuse options of which each does another thing than serving over stdio, where there are several."""
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} do one thing each; leave the others out")


def _print_config(client: str, options: ServeOptions, *, as_json: bool) -> int:
    found = client_config(client, options.as_arguments())
    if as_json:
        show_json(found.as_dict())
    else:
        print_message(found.where)
        show(found.text)
    return 0


def _own_output() -> int:
    """Return a descriptor of standard output that is the protocol's alone.

    SECURITY: whatever else writes to standard output from now on, of ours or of a library, is a message on stderr.
    """
    sink = os.dup(1)
    os.dup2(2, 1)
    return sink


async def _serve(options: ServeOptions, sink: int) -> int:
    server, ended = Server(version=VERSION), asyncio.Event()
    serving = serve_stdio(server, user=options.user, report=print_message, sink=sink, ended=ended)
    return await serve_tools(options, server, serving, ended)
