"""Secrets that renew themselves: access tokens, replaced before they expire and when a server refuses them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from wasmrt.egress import EgressGateway
from wasmrt.errors import SecretError, SecretExpiredError
from wasmrt.limits import OAUTH_REFRESH_MARGIN_SECONDS
from wasmrt.oauth._state import OAuthState, load_state, store_tokens
from wasmrt.oauth._tokens import OAuthError, TokenEndpoint, Tokens
from wasmrt.secrets import Secret, SecretsStore

_JUST_NOW_SECONDS = 5.0
_MAX_VIEWS = 10_000


class RenewingSecrets:
    """One user's secrets; those that came by OAuth are renewed before they expire, and when a server refuses them.

    One for each user and process: a token that many calls ask for at once is renewed by one of them.
    """

    def __init__(
        self,
        store: SecretsStore,
        user: str,
        renew: Callable[[OAuthState], Tokens],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._user = user
        self._renew = renew
        self._now = now
        self._lock = threading.Lock()
        self._renewed_at: dict[str, float] = {}

    def get(self, name: str) -> Secret:
        """Return the secret, renewed where it has a minute or less to live.

        Raises:
            SecretNotFoundError, SecretExpiredError: it is not set, or has expired and cannot be renewed.
        """
        state = load_state(self._store, self._user, name)
        if state is None or not self._is_due(state):
            return self._store.get(self._user, name)
        with self._lock:
            state = load_state(self._store, self._user, name)  # another call may just have renewed it
            if state is not None and self._is_due(state):
                try:
                    return self._next(name, state)
                except SecretError:
                    # The old value may still have its last minute; if not, the store says so.
                    return self._store.get(self._user, name)
        return self._store.get(self._user, name)

    def exists(self, name: str) -> bool:
        """Tell whether the secret is there, or can be renewed."""
        if self._store.exists(self._user, name):
            return True
        state = load_state(self._store, self._user, name)
        return state is not None and state.refresh_token is not None

    def renewed(self, name: str) -> Secret | None:
        """Return a newer value after the server refused this one; None where there is none."""
        with self._lock:
            try:
                state = load_state(self._store, self._user, name)
                if state is None or state.refresh_token is None:
                    return None
                if self._now() - self._renewed_at.get(name, 0.0) < _JUST_NOW_SECONDS:
                    return self._store.get(self._user, name)
                return self._next(name, state)
            except SecretError:
                return None

    def _is_due(self, state: OAuthState) -> bool:
        return state.expires_at is not None and state.expires_at - OAUTH_REFRESH_MARGIN_SECONDS <= self._now()

    def _next(self, name: str, state: OAuthState) -> Secret:
        if state.refresh_token is None:
            raise SecretExpiredError(f"the secret {name} cannot be renewed")
        secret = store_tokens(self._store, self._user, name, state, self._renew(state))
        self._renewed_at[name] = self._now()
        return secret


class Renewals:
    """The secrets of every user of one store, renewed by `renew`: one view for each user, shared by its calls."""

    def __init__(self, store: SecretsStore, renew: Callable[[OAuthState], Tokens]) -> None:
        self._store = store
        self._renew = renew
        self._lock = threading.Lock()
        self._views: OrderedDict[str, RenewingSecrets] = OrderedDict()

    def of(self, user: str) -> RenewingSecrets:
        """Return the view of `user`."""
        with self._lock:
            view = self._views.get(user)
            if view is None:
                view = self._views[user] = RenewingSecrets(self._store, user, self._renew)
                if len(self._views) > _MAX_VIEWS:
                    self._views.popitem(last=False)
            return view


def token_renewer(gateway: Callable[[], EgressGateway]) -> Callable[[OAuthState], Tokens]:
    """Return the function that requests the next tokens; `gateway` is called at its first use.

    The function raises `OAuthError` where there is no refresh token, or the endpoint refuses it.
    """

    def renew(state: OAuthState) -> Tokens:
        if state.refresh_token is None:
            raise OAuthError("there is no refresh token", hint="log in again: wasmrt auth TOOL")
        endpoint = TokenEndpoint(
            gateway(),
            state.token_url,
            client_id=state.client_id,
            client_secret=state.client_secret,
            access_token_field=state.access_token_field,
        )
        return endpoint.refresh(state.refresh_token)

    return renew
