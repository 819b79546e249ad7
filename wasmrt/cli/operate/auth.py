"""`wasmrt auth`: log in for a tool, and store the token as a secret."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import click

from wasmrt.capabilities.file import OAuthConfig
from wasmrt.catalog.find import FoundTool
from wasmrt.cli.shared.logins import (
    author_instructions,
    check_login_storable,
    choose_login,
    find_with_login,
    list_logins,
    login_file_option,
    open_gateway,
    print_instructions,
    settings,
)
from wasmrt.cli.shared.options import complete_tools, json_option, user_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import ConfigurationError, GrantRequiredError
from wasmrt.core.names import setting_secret_name
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
from wasmrt.egress.secrets import SecretsStore


@click.command("auth")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@user_option
@click.option("--vendor", metavar="NAME", help="Which login to use, if there are several.")
@click.option("--browser/--no-browser", default=True, help="Open a browser, or only print the URL.")
@click.option("--port", type=click.IntRange(1, 65535), help="Local port of the redirect URL, if you forward one.")
@click.option("--device", is_flag=True, help="Log in with a code that you enter on another machine.")
@click.option("--replace", is_flag=True, help="Replace an existing secret that does not come from this login.")
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
    """Log in to the service of a tool, and store the token.

    The tool's capability file has an `auth.oauth` section.

    A package may have logins for several vendors; --vendor selects one. The token is stored only as the secret of
    that vendor's credentials.

    The browser is redirected to this machine. The token is stored as a secret and renewed automatically. The login
    URL is printed on stderr, also with --json.

    \b
    Examples:
      wasmrt auth calendar
      wasmrt auth calendar --no-browser --json
      wasmrt auth desk --vendor vault
      wasmrt auth calendar --device
      wasmrt auth calendar --no-browser --port 8765
    """
    if device and port is not None:
        raise click.UsageError("--port cannot be combined with --device")
    found = find_with_login(tool, capabilities)
    store = open_secrets()
    section = choose_login(found.name, list_logins(found, hint=_set_instead(found, store, user)), vendor)
    if section.oauth is None:
        if not as_json:
            print_instructions(found.name, author_instructions(section))
        of = "" if vendor is None else f" for {vendor}"
        raise ConfigurationError(
            f"the capability file of {found.name} has no OAuth login{of}",
            hint=store.hint_to_set(user, section.secret_name),
        )
    check_login_storable(store, user, section.secret_name)
    oauth = _find_granted_login(found, section.secret_name, section.vendor, section.oauth)
    known = os.environ | settings(store, user, found.name, oauth)
    _check_client(found.name, oauth, known, store, user)
    state = login_state(oauth, known)
    if not replace:
        check_replaceable(store, user, section.secret_name, state)
    tokens = _log_in_by_device(oauth, state) if device else _log_in_by_browser(oauth, state, port=port, opens=browser)
    store_tokens(store, user, section.secret_name, state, tokens)
    if as_json:
        show_json({"set": [section.secret_name], "user": user, "renewable": bool(tokens.refresh_token)})
    else:
        print_message(
            f"{section.secret_name} is set for {user}" + ("" if tokens.refresh_token else "; it cannot be renewed")
        )


def _log_in_by_browser(oauth: OAuthConfig, state: OAuthState, *, port: int | None, opens: bool) -> Tokens:
    issuer = urlsplit(state.token_url).hostname

    def present(url: str) -> None:
        print_message(f"log in at {urlsplit(url).hostname}; the token will come from {issuer}:")
        print_message(url)
        if opens:
            import webbrowser

            webbrowser.open(url)

    with open_gateway() as gateway:
        return log_in(gateway, oauth, state, present=present, port=port)


def _log_in_by_device(oauth: OAuthConfig, state: OAuthState) -> Tokens:
    def present(shown: DeviceCode) -> None:
        print_message(f"open {shown.place} on any machine and enter the code {shown.code}")
        print_message(f"waiting for the code; the token will come from {urlsplit(state.token_url).hostname}")

    with open_gateway() as gateway:
        return log_in_by_device(gateway, oauth, state, present=present)


def _find_granted_login(found: FoundTool, secret_name: str, vendor: str, asked: OAuthConfig) -> OAuthConfig:
    """Return the granted login; for a component file, which has no stored grant, the requested one.

    SECURITY: the address that receives the client secret and the authorization code comes from the grant of an
    installed tool, not from its capability file.

    Raises:
        GrantRequiredError: the login was not granted.
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


def _check_client(tool: str, oauth: OAuthConfig, known: Mapping[str, str], store: SecretsStore, user: str) -> None:
    variable = oauth.client_id_env
    if oauth.client_id is None and variable and not known.get(variable):
        step = store.hint_to_set(user, setting_secret_name(tool, variable))
        raise ConfigurationError("the login needs a client ID", hint=f"{step} (or set the variable {variable})")


def _set_instead(found: FoundTool, store: SecretsStore, user: str) -> str:
    http = found.grant.http
    names = dict.fromkeys(mapping.secret_name for mapping in http.credentials) if http is not None else {}
    if not names:
        return "its capability file names no secret, so none has to be set"
    return f"set the secret instead: {'; '.join(store.hint_to_set(user, name).removeprefix('run: ') for name in names)}"
