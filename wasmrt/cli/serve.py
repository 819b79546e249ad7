"""`wasmrt serve`: the registry's tools for every client of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from wasmrt.approvals import ApprovalStore, ParkedRequests
from wasmrt.cli._client_config import CLIENTS, client_config
from wasmrt.cli._options import json_option, workspace_option
from wasmrt.cli._output import print_message, show, show_json
from wasmrt.config import WasmRuntimeConfig
from wasmrt.config_file import read_config_file
from wasmrt.errors import ConfigurationError
from wasmrt.mcp.server import ServedApprover, Server, serve_stdio, watch
from wasmrt.places import find_places
from wasmrt.policy import ApproverKind
from wasmrt.runtime import WasmToolRuntime
from wasmrt.tools import ToolRegistry, ToolView, load_registry


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
    options = _repeated(patterns, preset, read_only, user, workspace)
    if client is not None and check:
        raise click.UsageError("--print-config and --check do one thing each; leave one of them out")
    if client is not None:
        found = client_config(client, options)
        show_json(found.as_dict()) if as_json else _show_config(found.where, found.text)
        return 0
    if check:
        from wasmrt.cli._serve_check import check_server  # a client, which serving does without

        return check_server(options, as_json=as_json)
    if as_json:
        raise click.UsageError("--json is for --check and --print-config; the protocol itself is JSON already")
    if sys.stdin.isatty():
        print_message(
            "waiting for an MCP client on standard input; wasmrt serve --print-config claude says how to add it"
        )
    try:
        return _serve(view_of(patterns, preset, read_only=read_only), user, workspace)
    finally:
        sys.stderr.flush()


def view_of(patterns: tuple[str, ...], preset: str | None, *, read_only: bool) -> Callable[[ToolView], ToolView]:
    """Return the function that chooses, of a registry, the tools that are offered."""

    def chosen(registry: ToolView) -> ToolView:
        view = registry if preset is None else registry.under(preset)
        view = view.read_only() if read_only else view
        return view.only(patterns) if patterns else view

    return chosen


def _serve(view_of: Callable[[ToolView], ToolView], user: str, workspace: Path | None) -> int:
    # SECURITY: standard output is the protocol's. Whatever else writes there, of ours or of a library, is a message.
    sink = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    settings: dict[str, Any] = {} if workspace is None else {"workspace": workspace}
    with WasmToolRuntime(WasmRuntimeConfig.load(**settings)) as runtime, _registry(runtime) as registry:
        for name, error in registry.problems.items():
            print_message(f"{name} cannot be used: {error.message}")
        server = Server(view_of(registry), version=_version(), trace=f"mcp-{os.urandom(6).hex()}")
        for problem in server.offer.problems:
            print_message(problem)
        hidden = len(registry.all_names()) - len(server.offer)
        if hidden:
            print_message(f"{hidden} tools are not offered; wasmrt policy explain NAME says why")
        return asyncio.run(_until_the_end(server, registry, user, sink))


async def _until_the_end(server: Server, registry: ToolRegistry, user: str, sink: int) -> int:
    loop = asyncio.get_running_loop()
    serving = asyncio.ensure_future(serve_stdio(server, user=user, report=print_message, sink=sink))
    watching = asyncio.ensure_future(watch(server, registry, print_message))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        return 0
    finally:
        watching.cancel()
    return 0


def _registry(runtime: WasmToolRuntime) -> ToolRegistry:
    places = find_places()
    policy = read_config_file(places.config).policy
    kind = policy.approver
    if kind is ApproverKind.TERMINAL:
        # The terminal, if there is one, is the client's.
        print_message('approver = "terminal" cannot be asked from here; calls wait for wasmrt approvals instead')
    if kind is ApproverKind.DENY:
        return load_registry(runtime, policy=policy)
    approver = ServedApprover(ParkedRequests(ApprovalStore(places.approvals)), kind)
    return load_registry(runtime, policy=policy, approver=approver)


def _repeated(
    patterns: tuple[str, ...], preset: str | None, read_only: bool, user: str, workspace: Path | None
) -> list[str]:
    """Return the options that choose what is served, as another start of the command takes them."""
    if not user or not user.isprintable():
        raise ConfigurationError("a user is a printable name", hint="write it like --user alice")
    options = [part for pattern in patterns for part in ("--tool", pattern)]
    options += ["--preset", preset] if preset is not None else []
    options += ["--read-only"] if read_only else []
    options += ["--user", user] if user != "local" else []
    return options + (["--workspace", str(workspace.absolute())] if workspace is not None else [])


def _show_config(where: str, text: str) -> None:
    print_message(where)
    show(text)


def _version() -> str:
    from importlib.metadata import version  # loads half the standard library

    return version("wasmrt")
