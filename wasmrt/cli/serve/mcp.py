"""`wasmrt mcp`: manage MCP servers, whose tools are added to the registry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from wasmrt.cli.serve import mcp_servers
from wasmrt.cli.serve.mcp_adding import installed_server, show_package_change
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.groups import LazyGroup
from wasmrt.cli.shared.options import json_option, user_option
from wasmrt.cli.shared.output import print_message, require_consent, show_columns, show_json, show_json_list
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.cli.use.run import run
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.places import find_places
from wasmrt.interop.mcp.client import (
    NOTHING,
    KeptLogin,
    McpServerConfig,
    Trust,
    Trusted,
    find_server,
    forget_server,
    keep_server,
    load_servers,
    server_named,
    trust_server,
)
from wasmrt.interop.mcp.packages import keep_only


@click.group(
    "mcp",
    cls=LazyGroup,
    modules={
        "add": "wasmrt.cli.serve.mcp_add",
        "auth": "wasmrt.cli.serve.mcp_auth",
        "import": "wasmrt.cli.serve.mcp_import",
    },
)
def mcp() -> None:
    """Use the tools of MCP servers.

    A server is a confined local program, or a URL that is reached through the gateway.

    \b
    Examples:
      wasmrt mcp add notion https://mcp.notion.com/mcp
      wasmrt mcp list
      wasmrt run notion.search '{"query": "otters"}'
    """


@mcp.command("list")
@json_option
def list_servers(as_json: bool) -> None:
    """List the servers without connecting to them.

    \b
    Examples:
      wasmrt mcp list
      wasmrt mcp list --json
    """
    servers, known = load_servers(find_places())
    rows = [_make_row(server, known.get(server.name, NOTHING)) for server in servers.values()]
    if as_json:
        show_json_list(rows)
    elif rows:
        header = ("NAME", "TRUST", "TOOLS", "AGENTS", "STATE", "PACKAGE", "WHERE")
        packages = [str(server.package or "") for server in servers.values()]
        show_columns(header, [
            (*(r["name"], r["trust"], str(r["tools"]), "offered" if r["for_agents"] else "no"),
             *(r["state"], package, r["where"]))
            for r, package in zip(rows, packages, strict=True)
        ])  # fmt: skip
        if not all(row["for_agents"] for row in rows):
            print_message("to offer a server's tools to agents: wasmrt mcp trust NAME --offer")
    else:
        print_message("no MCP servers; to add one: wasmrt mcp add NAME URL")


@mcp.command("tools")
@click.argument("name")
@user_option
@json_option
def tools(name: str, user: str, as_json: bool) -> None:
    """Fetch a server's tools, and compare them with the trusted ones.

    \b
    Examples:
      wasmrt mcp tools notion
      wasmrt mcp tools notion --json
    """
    server, entry = find_server(find_places(), name)
    facts = mcp_servers.fetch_facts(server, entry, user=user, quiet=as_json)
    rows = mcp_servers.describe_tools(server, facts.tools, entry)
    if as_json:
        show_json_list(rows)
        return
    show_columns(("TOOL", "STATE", "CAN", "CLAIM"), [(r["called"], r["state"], r["can"], r["claim"]) for r in rows])
    mcp_servers.show_changes(rows)
    if any(row["state"] in ("new", "changed", "gone") for row in rows):
        print_message(f"to trust the current tools: wasmrt mcp trust {name}")


@mcp.command("call", hidden=True)
@click.argument("name")
@click.argument("tool")
@click.argument("params", default="{}", metavar="[JSON | @FILE | -]")
@user_option
@click.option("--trace", default="", metavar="ID", help="Conversation or job that the call belongs to.")
@json_option
@click.pass_context
def call(ctx: click.Context, name: str, tool: str, params: str, user: str, trace: str, as_json: bool) -> int:
    """Call a tool of a server: an alias of `wasmrt run SERVER.TOOL`.

    \b
    Examples:
      wasmrt mcp call notion search '{"query": "otters"}'
    """
    server, _ = find_server(find_places(), name)
    answered: int = ctx.invoke(
        run, tool=f"{server.name}.{tool}", params=params, user=user, trace=trace, as_json=as_json
    )
    return answered


@mcp.command("trust")
@click.argument("name")
@click.option("--level", type=click.Choice([str(level) for level in Trust]), help="New trust level of the server.")
@click.option("--offer/--no-offer", default=None, help="Only change whether its tools are offered to agents.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@user_option
@json_option
def trust(name: str, level: str | None, offer: bool | None, yes: bool, user: str, as_json: bool) -> None:
    """Show the changes of a server's command and tools, and trust them after you confirm.

    The decision whether to offer its tools to agents remains; --offer and --no-offer change it without connecting.

    \b
    Examples:
      wasmrt mcp trust notion
      wasmrt mcp trust notion --no-offer
      wasmrt mcp trust notion --level verified --yes --json
    """
    server, entry = find_server(find_places(), name)
    if offer is not None:
        if level is not None:
            raise click.UsageError("--offer and --no-offer can only be combined with --yes and --json")
        entry = mcp_servers.change_offer(server, entry, for_agents=offer, yes=yes, as_json=as_json)
        keep_server(find_places(), server, entry)
        show_json(_make_row(server, entry)) if as_json else mcp_servers.print_server_offer(server, entry)
        return
    if level is not None:
        server = replace(server, trust=Trust(level))
    covered = entry.covers(server)
    agreed = entry if covered else mcp_servers.confirm_start(server, entry, yes=yes, as_json=as_json)
    facts = mcp_servers.fetch_facts(server, agreed, user=user, quiet=as_json)
    rows = mcp_servers.describe_tools(server, facts.tools, entry)
    if not as_json:
        mcp_servers.show_changes(rows)
    if any(row["state"] in ("new", "changed") for row in rows):
        require_consent(f"Use the current tools of {name}?", yes=yes, as_json=as_json)
    agreed = trust_server(server, facts.tools, agreed)
    keep_server(find_places(), server, agreed)
    usable = sum(row["state"] not in ("refused", "gone") for row in rows)
    if as_json:
        show_json({"name": name, "trust": str(server.trust), "tools": rows})
    else:
        print_message(f"{name} is trusted with {usable} tools at the level {server.trust}")
        mcp_servers.print_server_offer(server, agreed)


@mcp.command("update")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def update(name: str, yes: bool, as_json: bool) -> None:
    """Install the current version of a server's package, and use it after you confirm the changes.

    \b
    Examples:
      wasmrt mcp update files
      wasmrt mcp update files --yes --json
    """
    places = find_places()
    server, entry = find_server(places, name)
    if (old := server.package) is None:
        hint = f"to review its current tools: wasmrt mcp trust {name}"
        raise ConfigurationError(f"the MCP server {name} was not installed from a package", hint=hint)
    with installed_server(replace(server, command=old.runner, package=None), quiet=as_json) as updated:
        new = updated.package
        assert new is not None
        changed = new.digest != old.digest
        if changed:
            show_package_change(old, new)
            agreed = mcp_servers.confirm_start(updated, entry, yes=yes, as_json=as_json)
            facts = mcp_servers.fetch_facts(updated, agreed, quiet=as_json)
            rows = mcp_servers.describe_tools(updated, facts.tools, entry)
            if not as_json:
                mcp_servers.show_changes(rows)
            if any(row["state"] in ("new", "changed") for row in rows):
                require_consent(f"Use the current tools of {name}?", yes=yes, as_json=as_json)
            keep_server(places, updated, trust_server(updated, facts.tools, agreed))
    keep_only(places, name, (updated if changed else server).command)
    if as_json:
        show_json({"name": name, "changed": changed, "package": new.as_json()})
    else:
        print_message(f"{name} {'now uses' if changed else 'is up to date:'} {new}")


@mcp.command("check")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@user_option
@json_option
@click.pass_context
def check(ctx: click.Context, names: tuple[str, ...], user: str, as_json: bool) -> None:
    """Connect to the named servers, or all of them, and report problems. Exit with code 1 if there is one.

    \b
    Examples:
      wasmrt mcp check
      wasmrt mcp check notion --json
    """
    servers, known = load_servers(find_places())
    chosen = [server_named(servers, name) for name in names] or [s for s in servers.values() if s.enabled]
    results = [_check(server, known.get(server.name, NOTHING), user, quiet=as_json) for server in chosen]
    if as_json:
        show_json_list(results)
    for result in [] if as_json else results:
        state = "ok" if result["ok"] else f"failed: {result['problem']}"
        package = f"; {server_named(servers, result['name']).package or ''}".removesuffix("; ")
        print_message(f"{result['name']}: {state}" + (f"; {result['hint']}" if result["hint"] else "") + package)
    if not all(result["ok"] for result in results):
        ctx.exit(FAILED)


@mcp.command("remove")
@click.argument("name")
@user_option
@json_option
def remove(name: str, user: str, as_json: bool) -> None:
    """Remove a server, its installed package, the trust in its tools, and the user's login with its client secret.

    Its other secrets are not removed.

    \b
    Examples:
      wasmrt mcp remove notion
      wasmrt mcp remove notion --json
    """
    server, _ = find_server(find_places(), name)
    KeptLogin(open_secrets(), user, server).remove()
    forget_server(find_places(), server.name)
    show_json({"removed": name}) if as_json else print_message(f"removed {name}")


def _make_row(server: McpServerConfig, entry: Trusted) -> dict[str, Any]:
    state = "ready" if entry.covers(server) else "not trusted"
    return {
        "name": server.name,
        "trust": str(server.trust),
        "tools": len(entry.tools),
        "for_agents": entry.for_agents,
        "state": state if server.enabled else "disabled",
        "package": None if server.package is None else server.package.as_json(),
        "where": server.url or " ".join(map(repr, server.command if server.package is None else server.package.runner)),
        "description": server.description,
    }


def _check(server: McpServerConfig, entry: Trusted, user: str, *, quiet: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"name": server.name, "ok": False, "problem": None, "hint": None, "protocol": None}
    result["package"] = None if server.package is None else server.package.as_json()
    try:
        facts = mcp_servers.fetch_facts(server, entry, user=user, quiet=quiet)
    except WasmrtError as error:
        return result | {"problem": error.message, "hint": error.hint, "code": error.code}
    rows = mcp_servers.describe_tools(server, facts.tools, entry)
    waiting = [row["name"] for row in rows if row["state"] in ("new", "changed", "gone")]
    result |= {"protocol": facts.version, "server": facts.name, "tools": len(facts.tools), "waiting": waiting}
    if waiting:
        problem = f"{len(waiting)} tools differ from the trusted ones"
        return result | {"problem": problem, "hint": f"wasmrt mcp trust {server.name}"}
    return result | {"ok": True}
