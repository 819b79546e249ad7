"""`wasmrt mcp add`: a server that a person looked at, with the tools that it has."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.capabilities import EndpointPattern, read_program_network
from wasmrt.cli.serve import mcp_servers as kept
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show_columns, show_json
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.places import find_places
from wasmrt.interop.mcp.client import (
    NOTHING,
    McpServerConfig,
    Transport,
    Trust,
    keep_server,
    load_servers,
    trust_server,
    wants_login,
)

_URLS = ("http://", "https://")
_FILE = click.Path(path_type=Path, exists=True, resolve_path=True)


@click.command("add", context_settings={"ignore_unknown_options": False})
@click.argument("name")
@click.argument("target", nargs=-1, required=True, metavar="URL | -- COMMAND...", type=click.UNPROCESSED)
@click.option("--trust", type=click.Choice([str(t) for t in Trust]), default=str(Trust.COMMUNITY), show_default=True,
              help="local: what its tools say of themselves counts; else a person approves each call.")  # fmt: skip
@click.option("--workspace", type=_FILE, metavar="DIR", help="The folder that a program starts in, and reads.")
@click.option("--read", type=_FILE, multiple=True, metavar="PATH", help="What a program reads besides.")
@click.option("--write", type=_FILE, multiple=True, metavar="PATH", help="What a program may write.")
@click.option("--network", is_flag=True, help="Give a program the network, past all rules for it.")
@click.option("--host", multiple=True, metavar="HOST[:PORT]", help="A host that a program reaches, through a proxy.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of a program. Not for secrets.")
@click.option("--secret-env", multiple=True, metavar="NAME=SECRET", help="A variable that has a secret's value.")
@click.option("--bearer", default="", metavar="SECRET", help="The secret that is sent to a URL as a bearer token.")
@click.option("--transport", type=click.Choice([str(t) for t in Transport]), default=str(Transport.AUTO),
              show_default=True, help="The way to a URL.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0.1, max=3600), default=60.0, show_default=True,
              help="Seconds of one call.")  # fmt: skip
@click.option("--description", default="", metavar="TEXT", help="A note for people.")
@click.option("--no-connect", is_flag=True, help="Keep it without asking for its tools; `trust` does that later.")
@click.option("--replace", is_flag=True, help="Take the place of a server of this name.")
@click.option("--yes", is_flag=True, help="Agree to what is shown, without being asked.")
@json_option
def add(
    name: str,
    target: tuple[str, ...],
    env: tuple[str, ...],
    secret_env: tuple[str, ...],
    host: tuple[str, ...],
    no_connect: bool,
    replace: bool,
    yes: bool,
    as_json: bool,
    **options: object,
) -> None:
    """Add a server: by its URL, or by the command that starts it, which runs confined.

    The exact command and all that it is given are shown, and somebody has to agree, once. Its tools are kept as they
    are now: one that changes later is not called before somebody agreed to the change.

    \b
    Examples:
      wasmrt mcp add notion https://mcp.notion.com/mcp
      wasmrt mcp add github --host api.github.com -- mcp-server-github
      wasmrt mcp add files --workspace . --write . -- mcp-server-filesystem "$PWD"
    """
    options["hosts"] = _hosts(host)
    server = _server(name, target, env, secret_env, options)
    places = find_places()
    servers, known = load_servers(places)
    if name in servers and not replace:
        raise ConfigurationError(
            f"there is an MCP server {name} already", hint=f"wasmrt mcp remove {name}; or --replace"
        )
    kept.agree_to_start(server, yes=yes, as_json=as_json)
    entry = trust_server(server, (), known.get(name, NOTHING).auth_hosts if name in servers else ())
    rows = []
    version = None
    if not no_connect:
        try:
            facts = kept.look_at(server, entry, quiet=as_json)
        except WasmrtError as error:
            if wants_login(server, error):
                keep_server(places, server, entry)
                print_message(f"{name} is kept, without tools; it may want a login: wasmrt mcp auth {name}")
            raise
        entry = trust_server(server, facts.tools, entry.auth_hosts)
        rows, version = kept.described(server, facts.tools, entry), facts.version
    keep_server(places, server, entry)
    if as_json:
        show_json(server.as_json() | {"protocol": version, "tools": rows})
        return
    if rows:
        usable = [row for row in rows if row["state"] != "refused"]
        show_columns(("TOOL", "CALLED", "CAN"), [(r["name"], r["called"], r["can"]) for r in usable])
        kept.show_changes(rows)
    print_message(f"{name} is kept" + ("" if version is None else f"; it speaks {version}"))
    kept.hint_filter()


def _server(
    name: str, target: tuple[str, ...], env: tuple[str, ...], secret_env: tuple[str, ...], options: dict[str, object]
) -> McpServerConfig:
    is_url = len(target) == 1 and target[0].startswith(_URLS)
    workspace = options["workspace"]
    return McpServerConfig(
        name=name,
        url=target[0] if is_url else "",
        command=() if is_url else tuple(target),
        env=_pairs(env, "--env"),
        secret_env=_pairs(secret_env, "--secret-env"),
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


def _hosts(given: tuple[str, ...]) -> tuple[EndpointPattern, ...]:
    entries: list[object] = []
    for text in given:
        host, mark, port = text.rpartition(":")
        is_apart = mark and port.isdecimal() and (":" not in host or host.endswith("]"))
        entries.append({"host": host, "port": int(port)} if is_apart else text)
    return read_program_network(entries)


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    found = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or not value:
            raise ConfigurationError(f"{option} is written NAME=VALUE, not {text!r:.60}", hint="put a = between")
        found[name] = value
    return found
