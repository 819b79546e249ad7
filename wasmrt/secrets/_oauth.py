"""Secrets that renew themselves: an access token, and beside it what is needed to get the next one."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from wasmrt.errors import SecretBackendError, SecretError, SecretExpiredError, SecretNotFoundError
from wasmrt.limits import OAUTH_REFRESH_MARGIN_SECONDS
from wasmrt.secrets._types import OAUTH_SUFFIX, Secret, SecretsStore

_JUST_NOW_SECONDS = 5.0
_MAX_VIEWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OAuthState:
    """What gets the next access token. Kept as a secret of its own, and never shown.

    SECURITY: the endpoint is kept with the token: a refresh token goes only to where it came from, whatever a later
    version of the tool's sidecar says.
    """

    token_url: str
    client_id: str
    client_secret: str | None
    refresh_token: str | None
    access_token_field: str
    expires_at: float | None

    def as_secret(self) -> Secret:
        return Secret(json.dumps(asdict(self)))

    @classmethod
    def from_secret(cls, secret: Secret) -> OAuthState:
        """Read what `as_secret` wrote, or raise SecretBackendError."""
        try:
            return cls(**json.loads(secret.reveal()))
        except (ValueError, TypeError):
            pass
        raise SecretBackendError("what renews a secret has a form this version does not know")


class IssuedTokens(Protocol):
    """What a token endpoint answers."""

    @property
    def access_token(self) -> str: ...

    @property
    def refresh_token(self) -> str | None: ...

    @property
    def expires_at(self) -> float | None:
        """In Unix seconds."""


def keep_tokens(store: SecretsStore, user: str, name: str, state: OAuthState, tokens: IssuedTokens) -> Secret:
    """Store what was issued under `name`; an endpoint that sends no new refresh token leaves the old one valid."""
    secret = Secret(tokens.access_token)
    refresh = tokens.refresh_token or state.refresh_token
    state = replace(state, refresh_token=refresh, expires_at=tokens.expires_at)
    # What renews comes first: after a crash between the two, the next use renews once more.
    store.set(user, name + OAUTH_SUFFIX, state.as_secret())
    store.set(user, name, secret, expires_at=tokens.expires_at)
    return secret


def oauth_state(store: SecretsStore, user: str, name: str) -> OAuthState | None:
    """Return what renews the secret `name`, or None for a plain one."""
    try:
        return OAuthState.from_secret(store.get(user, name + OAUTH_SUFFIX))
    except SecretNotFoundError:
        return None


class RenewingSecrets:
    """One user's secrets, where those that came by OAuth are renewed before they expire, and when refused.

    One for each user and process: what is asked for by many calls at once is renewed by one of them.
    """

    def __init__(
        self,
        store: SecretsStore,
        user: str,
        renew: Callable[[OAuthState], IssuedTokens],
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
        state = oauth_state(self._store, self._user, name)
        if state is None or not self._is_due(state):
            return self._store.get(self._user, name)
        with self._lock:
            state = oauth_state(self._store, self._user, name)  # another call may just have done it
            if state is not None and self._is_due(state):
                try:
                    return self._next(name, state)
                except SecretError:
                    # The old value may still have its last minute; if not, the store says so.
                    return self._store.get(self._user, name)
        return self._store.get(self._user, name)

    def exists(self, name: str) -> bool:
        """Tell whether the secret is there, or can be had again."""
        if self._store.exists(self._user, name):
            return True
        state = oauth_state(self._store, self._user, name)
        return state is not None and state.refresh_token is not None

    def renewed(self, name: str) -> Secret | None:
        """Return a newer value after the server refused this one; None where there is none."""
        with self._lock:
            state = oauth_state(self._store, self._user, name)
            if state is None or state.refresh_token is None:
                return None
            try:
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
        secret = keep_tokens(self._store, self._user, name, state, self._renew(state))
        self._renewed_at[name] = self._now()
        return secret


class Renewals:
    """The secrets of every user of one store, renewed by `renew`: one view for each user, shared by its calls."""

    def __init__(self, store: SecretsStore, renew: Callable[[OAuthState], IssuedTokens]) -> None:
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
