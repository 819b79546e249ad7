"""`wasmrt mcp auth`: log in at the authorization server of an MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from shlex import quote
from urllib.parse import urlsplit

import click

from wasmrt.agent.config import read_config_file
from wasmrt.cli.serve import mcp_servers
from wasmrt.cli.shared.logins import check_login_storable, open_gateway
from wasmrt.cli.shared.options import json_option, user_option
from wasmrt.cli.shared.output import print_message, require_consent, show_json
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places
from wasmrt.interop.mcp.client import (
    KeptLogin,
    McpServerConfig,
    authorize,
    discover,
    find_server,
    keep_server,
    log_in_known,
)


@click.command("auth")
@click.argument("name")
@user_option
@click.option("--scope", default="", metavar="SCOPES", help="Scopes to request, separated by spaces.")
@click.option("--browser/--no-browser", default=True, help="Open a browser, or only print the URL.")
@click.option("--forget", is_flag=True, help="Delete the stored login.")
@click.option("--yes", is_flag=True, help="Trust the authorization server without asking for confirmation.")
@json_option
def auth(name: str, user: str, scope: str, browser: bool, forget: bool, yes: bool, as_json: bool) -> None:
    """Log in at the authorization server of an MCP server, and store the tokens as secrets.

    The command shows the authorization server, and asks for confirmation before connecting to that server. The login
    URL is printed on stderr, even with --json.

    \b
    Examples:
      wasmrt mcp auth notion
      wasmrt mcp auth notion --no-browser --json
    """
    server, entry = find_server(find_places(), name)
    store = open_secrets()
    login = KeptLogin(store, user, server)
    if forget:
        login.forget()
        show_json({"forgotten": name}) if as_json else print_message(f"deleted the login of {user} at {name}")
        return
    if not server.url or server.bearer:
        hint = "only servers with a URL and without a bearer token have a login"
        raise ConfigurationError(f"{name} has no login", hint=hint)
    instead = f"use a token of the service: wasmrt mcp add {name} {quote(server.url)} --bearer SECRET --replace"
    check_login_storable(store, user, f"mcp_{name}_access_token", instead)
    if not entry.covers(server):
        entry = mcp_servers.confirm_start(server, entry, yes=yes, as_json=as_json)

    def agree(origin: str) -> None:
        if origin not in entry.auth_hosts:
            require_consent(f"Log in at {origin}, as {name} requests?", yes=yes, as_json=as_json)

    def present(url: str) -> None:
        print_message(f"log in to {name} at {urlsplit(url).hostname}:")
        print_message(url)
        if browser:
            import webbrowser

            webbrowser.open(url)

    origins = _log_in(server, login, scope, agree, present)
    keep_server(find_places(), server, replace(entry, auth_hosts=origins))
    if as_json:
        show_json({"name": name, "user": user, "origins": list(origins), "renewable": bool(login.get("refresh_token"))})
    else:
        print_message(f"{user} is logged in at {name}; next, trust its tools: wasmrt mcp trust {name}")


def _log_in(
    server: McpServerConfig, login: KeptLogin, scope: str, agree: Callable[[str], None], present: Callable[[str], None]
) -> tuple[str, ...]:
    if server.oauth is not None and server.oauth.authorization_url and server.oauth.token_url:
        agree(server.oauth.authorization_url)
        with open_gateway() as gateway:
            return log_in_known(server, gateway, login, scope=scope, present=present)
    network = read_config_file(find_places().config).network
    issuer = asyncio.run(discover(server, network, agree))
    asyncio.run(authorize(server, network, login, issuer, scope=scope, present=present))
    return issuer.origins
