"""A login from its section of the capability file to its tokens: authorization code with PKCE. RFC 8252, RFC 9207."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from wasmrt.capabilities.file import OAuthConfig
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import OAUTH_LOGIN_SECONDS
from wasmrt.egress.gateway import EgressGateway
from wasmrt.egress.oauth._authorization import AuthorizationRequest
from wasmrt.egress.oauth._callback import LoopbackCallback
from wasmrt.egress.oauth._state import OAuthState, load_state
from wasmrt.egress.oauth._tokens import Tokens
from wasmrt.egress.secrets import SecretsStore


def login_state(oauth: OAuthConfig, environ: Mapping[str, str]) -> OAuthState:
    """Return the state of a login that is about to begin; its client comes from the file or from `environ`.

    Raises:
        ConfigurationError: there is no client id, or the file names a variable that it may not ask for.
    """
    client_id = oauth.client_id or _from_environment(environ, oauth.client_id_env, "CLIENT_ID")
    if client_id is None:
        raise ConfigurationError(
            "the login needs a client id",
            hint=f"set the variable {oauth.client_id_env}" if oauth.client_id_env else "the capability file has none",
        )
    return OAuthState(
        token_url=oauth.token_url,
        client_id=client_id,
        client_secret=oauth.client_secret or _from_environment(environ, oauth.client_secret_env, "CLIENT_SECRET"),
        refresh_token=None,
        access_token_field=oauth.access_token_field,
        expires_at=None,
    )


def check_replaceable(store: SecretsStore, user: str, name: str, state: OAuthState) -> None:
    """Refuse to log in under the name of a secret that came from elsewhere.

    SECURITY: a tool names the secret; without this it could put its own in the place of another tool's.

    Raises:
        ConfigurationError: `name` is set, and not by a login at the same token endpoint.
    """
    if not any(info.name == name for info in store.list(user)):
        return
    earlier = load_state(store, user, name)
    if earlier is None or earlier.token_url != state.token_url:
        raise ConfigurationError(
            f"{name} is already set, and did not come from {urlsplit(state.token_url).hostname}",
            hint="give --replace if it may go",
        )


def log_in(
    gateway: EgressGateway,
    oauth: OAuthConfig,
    state: OAuthState,
    *,
    present: Callable[[str], None],
    port: int | None = None,
) -> Tokens:
    """Have a person log in and return the tokens; `present` gets the address to open in a browser.

    The browser comes back to `port`, else to the login's own, else to one that the system chooses.

    Raises:
        ConfigurationError: the authorization URL is not https.
        OAuthError: nobody logged in within `OAUTH_LOGIN_SECONDS`, the person refused, or the token endpoint did.
    """
    if urlsplit(oauth.authorization_url).scheme != "https":
        raise ConfigurationError("the login's address must begin with https://")
    attempt = AuthorizationRequest.new()
    with LoopbackCallback(attempt.state, port or oauth.redirect_port) as callback:
        present(
            attempt.url(
                oauth.authorization_url,
                client_id=state.client_id,
                redirect_uri=callback.redirect_uri,
                scopes=oauth.scopes,
                extra_params=oauth.extra_params,
            )
        )
        code = callback.wait(OAUTH_LOGIN_SECONDS)
        return state.endpoint(gateway).exchange(code, verifier=attempt.verifier, redirect_uri=callback.redirect_uri)


def _from_environment(environ: Mapping[str, str], name: str | None, ending: str) -> str | None:
    """Return the value of a variable that a capability file names, or None.

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
    return environ.get(name) or None
