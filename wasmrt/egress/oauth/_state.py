"""The state of a login, kept beside its access token: all that gets the next one."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from wasmrt.core.errors import SecretBackendError, SecretNotFoundError
from wasmrt.egress.gateway import EgressGateway
from wasmrt.egress.oauth._tokens import TokenEndpoint, Tokens
from wasmrt.egress.secrets import OAUTH_SUFFIX, Secret, SecretsStore


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OAuthState:
    """The endpoint, the client and the refresh token of a login. Kept as a secret of its own, and never shown.

    SECURITY: the endpoint is kept with the token: a refresh token goes only to where it came from, whatever a later
    version of the tool's capability file says.
    """

    token_url: str
    client_id: str
    client_secret: str | None
    refresh_token: str | None
    access_token_field: str
    expires_at: float | None
    """Of the access token, in Unix seconds."""

    def endpoint(self, gateway: EgressGateway) -> TokenEndpoint:
        """Return the endpoint that issues the tokens of this login."""
        return TokenEndpoint(
            gateway,
            self.token_url,
            client_id=self.client_id,
            client_secret=self.client_secret,
            access_token_field=self.access_token_field,
        )

    def as_secret(self) -> Secret:
        """Return the state as the secret that keeps it."""
        return Secret(json.dumps(asdict(self)))

    @classmethod
    def from_secret(cls, secret: Secret) -> OAuthState:
        """Read the output of `as_secret`.

        Raises:
            SecretBackendError: it is none.
        """
        try:
            return cls(**json.loads(secret.reveal()))
        except (ValueError, TypeError):
            pass
        raise SecretBackendError("what renews a secret has a form this version does not know")


def store_tokens(store: SecretsStore, user: str, name: str, state: OAuthState, tokens: Tokens) -> Secret:
    """Store `tokens` under `name`; an endpoint that sends no new refresh token leaves the old one valid.

    Raises:
        SecretBackendError: the store cannot be written.
    """
    secret = Secret(tokens.access_token)
    refresh = tokens.refresh_token or state.refresh_token
    state = replace(state, refresh_token=refresh, expires_at=tokens.expires_at)
    # The state comes first: after a crash between the two, the next use renews once more.
    store.set(user, name + OAUTH_SUFFIX, state.as_secret())
    store.set(user, name, secret, expires_at=tokens.expires_at)
    return secret


def load_state(store: SecretsStore, user: str, name: str) -> OAuthState | None:
    """Return the state of the login behind the secret `name`, or None for a plain secret.

    Raises:
        SecretBackendError: the store cannot be read, or the state is not readable.
    """
    try:
        return OAuthState.from_secret(store.get(user, name + OAUTH_SUFFIX))
    except SecretNotFoundError:
        return None
