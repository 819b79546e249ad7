"""`wasmrt mcp auth`: a login at a server's authorization server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

import click

from wasmrt.agent.config import read_config_file
from wasmrt.cli.serve import mcp_servers as kept
from wasmrt.cli.shared.logins import open_gateway
from wasmrt.cli.shared.options import json_option, user_option
from wasmrt.cli.shared.output import is_interactive, print_message, show_json
from wasmrt.cli.shared.secret_messages import store
from wasmrt.core.errors import ConfigurationError, GrantRequiredError
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

Say = Callable[[str], None]


@click.command("auth")
@click.argument("name")
@user_option
@click.option("--scope", default="", metavar="SCOPES", help="The scopes to ask for, with blanks between.")
@click.option("--browser/--no-browser", default=True, help="Open a browser, or only print the address.")
@click.option("--forget", is_flag=True, help="Forget the login.")
@click.option("--yes", is_flag=True, help="Agree to the authorization server, without being asked.")
@json_option
def auth(name: str, user: str, scope: str, browser: bool, forget: bool, yes: bool, as_json: bool) -> None:
    """Log in at the authorization server of a server, and keep the tokens as secrets.

    The authorization server is shown, and somebody has to agree before it is reached. The address to log in at goes
    to stderr, with and without --json.

    \b
    Examples:
      wasmrt mcp auth notion
      wasmrt mcp auth notion --no-browser --json
    """
    server, entry = find_server(find_places(), name)
    login = KeptLogin(store(), user, name)
    if forget:
        login.forget()
        show_json({"forgotten": name}) if as_json else print_message(f"the login of {user} at {name} is forgotten")
        return
    if not server.url or server.bearer:
        raise ConfigurationError(f"{name} has no login", hint="a login is for a server that has a URL, and no token")
    if not entry.covers(server):
        kept.agree_to_start(server, yes=yes, as_json=as_json)
        entry = kept.agreed_start(server, entry)

    def agree(origin: str) -> None:
        if origin in entry.auth_hosts or yes:
            return
        asked = not as_json and is_interactive()
        if not asked or not click.confirm(f"Log in at {origin}, which {name} names?", default=False, err=True):
            raise GrantRequiredError(f"nobody agreed to log in at {origin}", hint="look at it, and say --yes")

    def present(url: str) -> None:
        print_message(f"log in at {urlsplit(url).hostname}, for {name}:")
        print_message(url)
        if browser:
            import webbrowser

            webbrowser.open(url)

    origins = _logged_in(server, login, scope, agree, present)
    keep_server(find_places(), server, replace(entry, auth_hosts=origins))
    if as_json:
        show_json({"name": name, "user": user, "origins": list(origins), "renewable": bool(login.get("refresh_token"))})
    else:
        print_message(f"{user} is logged in at {name}; take its tools: wasmrt mcp trust {name}")


def _logged_in(server: McpServerConfig, login: KeptLogin, scope: str, agree: Say, present: Say) -> tuple[str, ...]:
    if server.oauth is not None and server.oauth.authorization_url and server.oauth.token_url:
        agree(server.oauth.authorization_url)
        with open_gateway() as gateway:
            return log_in_known(server, gateway, login, scope=scope, present=present)
    network = read_config_file(find_places().config).network
    issuer = asyncio.run(discover(server, network, agree))
    asyncio.run(authorize(server, network, login, issuer, scope=scope, present=present))
    return issuer.origins
