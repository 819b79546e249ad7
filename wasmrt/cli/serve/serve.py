"""`wasmrt serve`: serve the registry's tools to MCP clients."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from wasmrt.cli.serve.check import check_server
from wasmrt.cli.serve.options import (
    CLIENTS,
    JSON_LOG,
    LOG_FORMATS,
    TEXT_LOG,
    ServeOptions,
    check_user,
    client_config,
)
from wasmrt.cli.serve.session import serve_tools
from wasmrt.cli.shared.options import json_option, workspace_option
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.core.version import VERSION
from wasmrt.interop.mcp.server.protocol import Server, serve_stdio


@click.command("serve")
@click.option("--tool", "patterns", multiple=True, metavar="GLOB", help="Only serve these tools; may be repeated.")
@click.option("--preset", metavar="NAME", help="Apply this preset in addition to the active one.")
@click.option("--read-only", is_flag=True, help="Only offer calls that make no changes.")
@click.option("--manage", is_flag=True, help="Also offer the tools that manage tools and skills: tool_*, skill_*.")
@click.option("--user", default="local", show_default=True, help="User whose secrets, approvals and limits apply.")
@click.option(
    "--print-config", "client", type=click.Choice(CLIENTS), help="Print the settings to paste into a client, and exit."
)
@click.option(
    "--http", "address", metavar="[HOST:]PORT", help="Serve over HTTP on this loopback address instead of stdio."
)
@click.option("--new-token", "token_for", metavar="USER", help="Print a new token for a user of --http, and exit.")
@click.option("--check", is_flag=True, help="Test this server with old and new protocol versions, and exit.")
@click.option(
    "--metrics",
    "metrics",
    metavar="[HOST:]PORT",
    help="With --http: serve metrics for Prometheus at /metrics on this loopback address, without a token.",
)
@click.option(
    "--drain",
    "drain_seconds",
    type=click.FloatRange(0, 3600),
    default=0.0,
    metavar="SECONDS",
    help="With --http: after SIGTERM, keep serving for this time with /readyz at 503, for a load balancer.",
)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default=TEXT_LOG,
    show_default=True,
    help="Format of messages and calls on stderr; json: one object on each line.",
)
@workspace_option
@json_option
def serve(
    patterns: tuple[str, ...],
    preset: str | None,
    read_only: bool,
    manage: bool,
    user: str,
    client: str | None,
    address: str | None,
    token_for: str | None,
    check: bool,
    metrics: str | None,
    drain_seconds: float,
    log_format: str,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Serve tools to MCP clients, over stdio or HTTP.

    The client starts this command; --print-config prints the settings for it. The configured policy applies to all
    calls. A call that requires approval waits until it is answered in the client's form or by wasmrt approvals.

    \b
    Examples:
      wasmrt serve --print-config claude
      wasmrt serve --read-only --tool 'files-*'
      wasmrt serve --check
      wasmrt serve --http 127.0.0.1:8931
    """
    modes = {"--print-config": client, "--http": address, "--new-token": token_for, "--check": check or None}
    chosen = [name for name, value in modes.items() if value is not None]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} cannot be combined")
    check_user(user, "--user")
    options = ServeOptions(patterns, preset, read_only, user, workspace, manage, log_format, metrics, drain_seconds)
    if client is not None:
        return _print_config(client, options, as_json=as_json)
    if check:
        return check_server(options.as_arguments(), as_json=as_json)
    if token_for is not None:
        from wasmrt.cli.serve.http import new_token  # stdio, the usual transport, needs no HTTP modules

        return new_token(token_for, as_json=as_json)
    if (drain_seconds or metrics) and address is None:
        raise click.UsageError(f"{'--metrics' if metrics else '--drain'} requires --http")
    if as_json:
        raise click.UsageError("--json requires --check, --print-config or --new-token")
    if log_format == JSON_LOG:
        from wasmrt.cli.serve.logs import log_as_json  # clients on standard input and output rarely use it

        log_as_json()
    if address is not None:
        from wasmrt.cli.serve.http import serve_over_http

        return serve_over_http(options, address)
    if sys.stdin.isatty():
        print_message("waiting for an MCP client on standard input; to add it to a client: serve --print-config NAME")
    return asyncio.run(_serve(options, _redirect_stdout()))


def _print_config(client: str, options: ServeOptions, *, as_json: bool) -> int:
    found = client_config(client, options.as_arguments())
    if as_json:
        show_json(found.as_dict())
    else:
        print_message(found.where)
        show(found.text)
    return 0


def _redirect_stdout() -> int:
    """Redirect standard output to stderr, and return a descriptor of the original one for the protocol.

    SECURITY: later writes to standard output, by wasmrt or a library, cannot corrupt or forge protocol messages.
    """
    sink = os.dup(1)
    os.dup2(2, 1)
    return sink


async def _serve(options: ServeOptions, sink: int) -> int:
    server, ended = Server(version=VERSION), asyncio.Event()
    serving = serve_stdio(server, user=options.user, report=print_message, sink=sink, ended=ended)
    return await serve_tools(options, server, serving, ended)
