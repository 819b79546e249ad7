"""`wasmrt auth`: log in for a tool's credential."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import click

from wasmrt.capabilities.file import OAuthConfig
from wasmrt.catalog.find import FoundTool
from wasmrt.cli.shared.login import author_instructions, find_with_login, login_file_option, print_instructions
from wasmrt.cli.shared.logins import choose_login, logins_of, open_gateway, settings
from wasmrt.cli.shared.options import complete_tools, json_option, user_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.cli.shared.secret_messages import store
from wasmrt.core.errors import ConfigurationError, GrantRequiredError
from wasmrt.core.names import setting_of
from wasmrt.egress.oauth import (
    DeviceCode,
    OAuthState,
    Tokens,
    check_replaceable,
    log_in,
    log_in_by_device,
    login_state,
    store_tokens,
)


@click.command("auth")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@user_option
@click.option("--vendor", metavar="NAME", help="Of several logins, this one.")
@click.option("--browser/--no-browser", default=True, help="Open a browser, or only print the address.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port that the browser comes back to, to forward it.")
@click.option("--device", is_flag=True, help="On a machine without a browser: type a code on another one.")
@click.option("--replace", is_flag=True, help="Replace a secret of that name that came from elsewhere.")
@login_file_option
@json_option
def auth(
    tool: str,
    user: str,
    vendor: str | None,
    browser: bool,
    port: int | None,
    device: bool,
    replace: bool,
    capabilities: Path | None,
    as_json: bool,
) -> None:
    """Log in for a tool whose capability file has an `auth.oauth` section, and keep what it needs.

    A package may have a login for each of several vendors; --vendor says which. The token is set as the secret of
    that vendor's credentials and of no other.

    The browser comes back to this machine; the token is kept as a secret and renewed by itself. The address to log
    in at goes to stderr, with and without --json.

    \b
    Examples:
      wasmrt auth calendar
      wasmrt auth calendar --no-browser --json
      wasmrt auth desk --vendor vault
      wasmrt auth calendar --device
      wasmrt auth calendar --no-browser --port 8765
    """
    if device and port is not None:
        raise click.UsageError("--port is for a browser, and --device for none")
    found = find_with_login(tool, capabilities)
    section = choose_login(found.name, logins_of(found, hint=_set_instead(found)), vendor)
    if section.oauth is None:
        if not as_json:
            print_instructions(found.name, author_instructions(section))
        of = "" if vendor is None else f" of {vendor}"
        raise ConfigurationError(
            f"the capability file of {found.name} has no OAuth login{of}",
            hint=f"run: wasmrt secret set {section.secret_name}",
        )
    oauth = _granted(found, section.secret_name, section.vendor, section.oauth)
    kept = store()
    known = os.environ | settings(kept, user, found.name, oauth)
    _check_client(found.name, oauth, known)
    state = login_state(oauth, known)
    if not replace:
        check_replaceable(kept, user, section.secret_name, state)
    tokens = _by_device(oauth, state) if device else _by_browser(oauth, state, port=port, opens=browser)
    store_tokens(kept, user, section.secret_name, state, tokens)
    if as_json:
        show_json({"set": [section.secret_name], "user": user, "renewable": bool(tokens.refresh_token)})
    else:
        print_message(
            f"{section.secret_name} is set for {user}" + ("" if tokens.refresh_token else "; it cannot be renewed")
        )


def _by_browser(oauth: OAuthConfig, state: OAuthState, *, port: int | None, opens: bool) -> Tokens:
    issuer = urlsplit(state.token_url).hostname

    def present(url: str) -> None:
        print_message(f"log in at {urlsplit(url).hostname}; the token will come from {issuer}:")
        print_message(url)
        if opens:
            import webbrowser

            webbrowser.open(url)

    with open_gateway() as gateway:
        return log_in(gateway, oauth, state, present=present, port=port)


def _by_device(oauth: OAuthConfig, state: OAuthState) -> Tokens:
    def present(shown: DeviceCode) -> None:
        print_message(f"open {shown.place} on any machine and type the code {shown.code}")
        print_message(f"waiting until it is typed; the token will come from {urlsplit(state.token_url).hostname}")

    with open_gateway() as gateway:
        return log_in_by_device(gateway, oauth, state, present=present)


def _granted(found: FoundTool, secret_name: str, vendor: str, asked: OAuthConfig) -> OAuthConfig:
    """Return the login as it was granted, with its scopes; that of a file, which nobody installed, as it asks for it.

    SECURITY: a capability file that was not granted chooses no place that a client's secret or a code is sent to.

    Raises:
        GrantRequiredError: it was not granted.
    """
    if found.origin == "file":
        return asked
    login = next((login for login in found.grant.logins if login.secret_name == secret_name), None)
    if login is None:
        raise GrantRequiredError(
            f"the login {vendor} of {found.name} was not granted",
            hint=f"wasmrt grant {found.name} --add logins={vendor}",
        )
    return login.oauth


def _check_client(tool: str, oauth: OAuthConfig, known: Mapping[str, str]) -> None:
    variable = oauth.client_id_env
    if oauth.client_id is None and variable and not known.get(variable):
        raise ConfigurationError(
            "the login needs a client id",
            hint=f"run: wasmrt secret set {setting_of(tool, variable)} (or set the variable {variable})",
        )


def _set_instead(found: FoundTool) -> str:
    http = found.grant.http
    names = dict.fromkeys(mapping.secret_name for mapping in http.credentials) if http is not None else {}
    if not names:
        return "it names no secret: nothing has to be set"
    return f"set the secret itself: {'; '.join(f'wasmrt secret set {name}' for name in names)}"
