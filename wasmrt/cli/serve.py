"""`wasmrt serve`: the registry's tools for every client of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wasmrt.cli._client_config import CLIENTS, client_config
from wasmrt.cli._options import json_option, workspace_option
from wasmrt.cli._output import print_message, show, show_json
from wasmrt.cli._serve_check import check_server
from wasmrt.cli._serve_options import ServeOptions
from wasmrt.errors import ConfigurationError
from wasmrt.mcp.server.protocol import Server, serve_stdio
from wasmrt.version import VERSION

if TYPE_CHECKING:
    from wasmrt.cli._served import Served

_HEAD_START_SECONDS = 0.02
"""For a first message that is there already: it is answered before the tools are loaded."""


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
@click.option("--check", is_flag=True, help="Start this server, speak to it in both eras, say what it offers, and end.")
@workspace_option
@json_option
def serve(
    patterns: tuple[str, ...],
    preset: str | None,
    read_only: bool,
    user: str,
    client: str | None,
    check: bool,
    workspace: Path | None,
    as_json: bool,
) -> int:
    """Serve the registry's tools to MCP clients, over standard input and output.

    A client starts this command by itself: --print-config says what to tell it. Calls go through every step of the
    policy. One that needs a person waits as a request, which the client's own form or wasmrt approvals answers.

    \b
    Examples:
      wasmrt serve --print-config claude
      wasmrt serve --read-only --tool 'files-*'
      wasmrt serve --check
    """
    if client is not None and check:
        raise click.UsageError("--print-config and --check do one thing each; leave one of them out")
    if not 0 < len(user) <= 256 or not user.isprintable():
        raise ConfigurationError("a user is 1 to 256 printable characters", hint="write it like --user alice")
    options = ServeOptions(patterns, preset, read_only, user, workspace)
    if client is not None:
        found = client_config(client, options.as_arguments())
        if as_json:
            show_json(found.as_dict())
        else:
            print_message(found.where)
            show(found.text)
        return 0
    if check:
        return check_server(options.as_arguments(), as_json=as_json)
    if as_json:
        raise click.UsageError("--json is for --check and --print-config; the protocol itself is JSON already")
    if sys.stdin.isatty():
        print_message(
            "waiting for an MCP client on standard input; wasmrt serve --print-config NAME says how to add it"
        )
    return asyncio.run(_serve(options, _own_output()))


def _own_output() -> int:
    """Return a descriptor of standard output that is the protocol's alone.

    SECURITY: whatever else writes to standard output from now on, of ours or of a library, is a message on stderr.
    """
    sink = os.dup(1)
    os.dup2(2, 1)
    return sink


async def _serve(options: ServeOptions, sink: int) -> int:
    loop = asyncio.get_running_loop()
    server = Server(version=VERSION)
    with ExitStack() as held:

        async def open_tools() -> None:
            await asyncio.sleep(_HEAD_START_SECONDS)
            served = await asyncio.to_thread(_open, options, held)
            server.open(served.tools)
            watching = asyncio.ensure_future(served.watch(server.tools_changed))
            held.callback(watching.cancel)

        opening = asyncio.ensure_future(open_tools())
        ended = asyncio.Event()
        serving = asyncio.ensure_future(
            serve_stdio(server, user=options.user, report=print_message, sink=sink, ended=ended)
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        await asyncio.wait({opening, serving}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done() and opening.exception() is not None:
            server.fail()
            ended.set()
        await asyncio.wait({serving, opening})
        opening.result()  # its error is the command's, also where the input ended at once
        if not serving.cancelled():
            serving.result()
    return 0


def _open(options: ServeOptions, held: ExitStack) -> Served:
    from wasmrt.cli._served import open_served  # most of the start, behind the first answer

    return open_served(options, held)
