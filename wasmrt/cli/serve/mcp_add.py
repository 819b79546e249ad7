"""`wasmrt mcp add`: add a server after the user confirms its settings."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.capabilities import EndpointPattern, read_program_network
from wasmrt.cli.serve.mcp_adding import add_server
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import show_json
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.mcp.client import McpServerConfig, Transport, Trust

_URLS = ("http://", "https://")
_FILE = click.Path(path_type=Path, exists=True, resolve_path=True)


@click.command("add", context_settings={"ignore_unknown_options": False})
@click.argument("name")
@click.argument("target", nargs=-1, required=True, metavar="URL | -- COMMAND...", type=click.UNPROCESSED)
@click.option("--trust", type=click.Choice([str(t) for t in Trust]), default=str(Trust.COMMUNITY), show_default=True,
              help="With local, its tools' declared effects apply; otherwise each call requires approval.")  # fmt: skip
@click.option("--workspace", type=_FILE, metavar="DIR", help="Working folder of a program, which it may read.")
@click.option("--read", type=_FILE, multiple=True, metavar="PATH", help="Another path that a program may read.")
@click.option("--write", type=_FILE, multiple=True, metavar="PATH", help="Path that a program may write.")
@click.option("--network", is_flag=True, help="Allow unrestricted network access for a program.")
@click.option("--host", multiple=True, metavar="HOST[:PORT]", help="Host that a program may reach through a proxy.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Environment variable of a program; not for secrets.")
@click.option("--secret-env", multiple=True, metavar="NAME=SECRET", help="Environment variable set from a secret.")
@click.option("--bearer", default="", metavar="SECRET", help="Secret to send to a URL as a bearer token.")
@click.option("--transport", type=click.Choice([str(t) for t in Transport]), default=str(Transport.AUTO),
              show_default=True, help="Transport for a URL.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0.1, max=3600), default=60.0, show_default=True,
              help="Timeout of a call, in seconds.")  # fmt: skip
@click.option("--description", default="", metavar="TEXT", help="Description for users.")
@click.option("--no-connect", is_flag=True, help="Add it without fetching its tools; `trust` fetches them later.")
@click.option("--replace", is_flag=True, help="Replace an existing server of this name.")
@click.option("--offer/--no-offer", default=None,
              help="Offer its tools to agents, or only allow them on the command line (default: offer).")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def add(
    name: str,
    target: tuple[str, ...],
    env: tuple[str, ...],
    secret_env: tuple[str, ...],
    host: tuple[str, ...],
    no_connect: bool,
    replace: bool,
    offer: bool | None,
    yes: bool,
    as_json: bool,
    **options: object,
) -> None:
    """Add a server by its URL, or by a command that starts it confined.

    The command shows the server's command line and permissions, and asks for confirmation. Your consent also offers its
    tools to agents, unless you answer "me" or pass --no-offer. The current definitions of its tools are stored: a tool
    that changes later cannot be called until you trust the change. Packages of npm and
    PyPI (npx, bunx, pnpm dlx, uvx, pipx run and others) are installed once, and run without network by default.

    \b
    Examples:
      wasmrt mcp add notion https://mcp.notion.com/mcp
      wasmrt mcp add github --host api.github.com -- mcp-server-github
      wasmrt mcp add time -- uvx mcp-server-time
    """
    options["hosts"] = _read_hosts(host)
    server = _make_server(name, target, env, secret_env, options)
    added = add_server(server, replace=replace, connect=not no_connect, offer=offer, yes=yes, as_json=as_json)
    if as_json:
        show_json(added)


def _make_server(
    name: str, target: tuple[str, ...], env: tuple[str, ...], secret_env: tuple[str, ...], options: dict[str, object]
) -> McpServerConfig:
    is_url = len(target) == 1 and target[0].startswith(_URLS)
    workspace = options["workspace"]
    return McpServerConfig(
        name=name,
        url=target[0] if is_url else "",
        command=() if is_url else tuple(target),
        env=_read_pairs(env, "--env"),
        secret_env=_read_pairs(secret_env, "--secret-env"),
        workspace="" if workspace is None else str(workspace),
        read=tuple(map(str, options["read"])),  # type: ignore[call-overload]
        write=tuple(map(str, options["write"])),  # type: ignore[call-overload]
        network=bool(options["network"]),
        hosts=options["hosts"],  # type: ignore[arg-type]
        transport=Transport(options["transport"]),  # type: ignore[arg-type]
        bearer=str(options["bearer"]),
        trust=Trust(options["trust"]),  # type: ignore[arg-type]
        description=str(options["description"]),
        timeout_seconds=float(options["timeout"]),  # type: ignore[arg-type]
    )


def _read_hosts(given: tuple[str, ...]) -> tuple[EndpointPattern, ...]:
    entries: list[object] = []
    for text in given:
        host, mark, port = text.rpartition(":")
        has_port = mark and port.isdecimal() and (":" not in host or host.endswith("]"))
        entries.append({"host": host, "port": int(port)} if has_port else text)
    return read_program_network(entries)


def _read_pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    found = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or not value:
            hint = "put a = between the name and the value"
            raise ConfigurationError(f"{option} expects NAME=VALUE, got {text!r:.60}", hint=hint)
        found[name] = value
    return found
