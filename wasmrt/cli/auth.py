"""`wasmrt auth`: log in where a tool's credential comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from wasmrt.cli._login import find_with_login, login_file_option, tell_words, words_of
from wasmrt.cli._options import json_option
from wasmrt.cli._output import say, show_json
from wasmrt.cli.secret import user_option
from wasmrt.errors import ConfigurationError
from wasmrt.limits import OAUTH_LOGIN_SECONDS

if TYPE_CHECKING:
    from wasmrt.capabilities import AuthSection, OAuthConfig
    from wasmrt.cli._tools import FoundTool
    from wasmrt.egress import EgressGateway
    from wasmrt.oauth import Tokens
    from wasmrt.secrets import OAuthState, SecretsStore


@click.command("auth")
@click.argument("tool", metavar="NAME_OR_PATH")
@user_option
@click.option("--browser/--no-browser", default=True, help="Open a browser, or only print the address.")
@click.option("--replace", is_flag=True, help="Replace a secret of that name that came from elsewhere.")
@login_file_option
@json_option
def auth(tool: str, user: str, browser: bool, replace: bool, capabilities: Path | None, as_json: bool) -> None:
    """Log in for a tool whose capability file has an `auth.oauth` section, and keep what it needs.

    The browser comes back to this machine; the token is kept as a secret and renewed by itself. The address to log
    in at is told on stderr, with and without --json.

    \b
    Examples:
      wasmrt auth calendar
      wasmrt auth calendar --no-browser --json
    """
    from wasmrt.cli._services import auth_section, open_gateway, store
    from wasmrt.secrets import keep_tokens

    found = find_with_login(tool, capabilities)
    section = auth_section(found, hint=_set_instead(found))
    if section.oauth is None:
        if not as_json:
            tell_words(found.name, words_of(section))
        raise ConfigurationError(
            f"the capability file of {found.name} has no OAuth login",
            hint=f"run: wasmrt secret set {section.secret_name}",
        )
    state = _start(section.oauth)
    kept = store()
    _refuse_to_overwrite(kept, user, section, state, replace=replace)
    with open_gateway() as gateway:
        tokens = _log_in(gateway, section.oauth, state, browser=browser)
    keep_tokens(kept, user, section.secret_name, state, tokens)
    if as_json:
        show_json({"set": [section.secret_name], "user": user, "renewable": bool(tokens.refresh_token)})
    else:
        say(f"{section.secret_name} is set for {user}" + ("" if tokens.refresh_token else "; it cannot be renewed"))


def _set_instead(found: FoundTool) -> str:
    http = found.grant.http
    names = dict.fromkeys(mapping.secret_name for mapping in http.credentials) if http is not None else {}
    if not names:
        return "it names no secret: nothing has to be set"
    return f"set the secret itself: {'; '.join(f'wasmrt secret set {name}' for name in names)}"


def _start(oauth: OAuthConfig) -> OAuthState:
    from wasmrt.secrets import OAuthState

    client_id = oauth.client_id or _from_environment(oauth.client_id_env, "CLIENT_ID")
    if client_id is None:
        raise ConfigurationError(
            "the login needs a client id",
            hint=f"set the variable {oauth.client_id_env}" if oauth.client_id_env else "the capability file has none",
        )
    return OAuthState(
        token_url=oauth.token_url,
        client_id=client_id,
        client_secret=oauth.client_secret or _from_environment(oauth.client_secret_env, "CLIENT_SECRET"),
        refresh_token=None,
        access_token_field=oauth.access_token_field,
        expires_at=None,
    )


def _from_environment(name: str | None, ending: str) -> str | None:
    """Read a variable that a sidecar names.

    SECURITY: a tool chooses the name and the address that the value is sent to. Only a name that says it is meant
    for this is read; any other could be used to ask for AWS_SECRET_ACCESS_KEY.
    """
    if name is None:
        return None
    if not name.upper().endswith(ending):
        raise ConfigurationError(
            f"the capability file names a variable that does not end in {ending}",
            hint=f"rename it in the capability file: SOMETHING_{ending}",
        )
    return os.environ.get(name) or None


def _refuse_to_overwrite(
    kept: SecretsStore, user: str, section: AuthSection, state: OAuthState, *, replace: bool
) -> None:
    """SECURITY: a tool names the secret; without this it could put its own in the place of another tool's."""
    from wasmrt.secrets import oauth_state

    if replace or not any(info.name == section.secret_name for info in kept.list(user)):
        return
    earlier = oauth_state(kept, user, section.secret_name)
    if earlier is None or earlier.token_url != state.token_url:
        raise ConfigurationError(
            f"{section.secret_name} is already set, and did not come from {urlsplit(state.token_url).hostname}",
            hint="give --replace if it may go",
        )


def _log_in(gateway: EgressGateway, oauth: OAuthConfig, state: OAuthState, *, browser: bool) -> Tokens:
    from wasmrt.oauth import Login, LoopbackCallback, TokenEndpoint

    if urlsplit(oauth.authorization_url).scheme != "https":
        raise ConfigurationError("the login's address must begin with https://")
    login = Login.new()
    with LoopbackCallback(login.state) as callback:
        url = login.url(
            oauth.authorization_url,
            client_id=state.client_id,
            redirect_uri=callback.redirect_uri,
            scopes=oauth.scopes,
            extra_params=oauth.extra_params,
        )
        say(f"log in at {urlsplit(url).hostname}; the token will come from {urlsplit(state.token_url).hostname}:")
        say(url)
        if browser:
            import webbrowser

            webbrowser.open(url)
        code = callback.wait(OAUTH_LOGIN_SECONDS)
        endpoint = TokenEndpoint(
            gateway,
            state.token_url,
            client_id=state.client_id,
            client_secret=state.client_secret,
            access_token_field=state.access_token_field,
        )
        return endpoint.exchange(code, verifier=login.verifier, redirect_uri=callback.redirect_uri)
