"""Store the tokens of a login, and renew the access token before it expires."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from wasmrt.core.errors import SecretBackendError, SecretError, SecretExpiredError, SecretNotFoundError
from wasmrt.core.lifetime import EndEvent
from wasmrt.core.limits import OAUTH_REFRESH_MARGIN_SECONDS
from wasmrt.core.tasks import offload
from wasmrt.egress.gateway import EgressGateway
from wasmrt.egress.oauth._tokens import OAuthError, TokenEndpoint, Tokens
from wasmrt.egress.secrets import OAUTH_SUFFIX, Secret, SecretsStore


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OAuthState:
    """The endpoint, the client and the refresh token of a login. They are stored as a separate secret and never shown.

    SECURITY: the endpoint is stored with the token, so that a refresh token is only sent to the endpoint that issued
    it, even if a later version of the tool's capability file has a different endpoint.
    """

    token_url: str
    client_id: str
    client_secret: str | None
    refresh_token: str | None
    access_token_field: str
    expires_at: float | None
    """Expiry of the access token, in Unix seconds."""

    def endpoint(self, gateway: EgressGateway) -> TokenEndpoint:
        """Return the endpoint that issues the tokens of this login."""
        return TokenEndpoint(
            gateway, self.token_url, client_id=self.client_id, client_secret=self.client_secret,
            access_token_field=self.access_token_field,
        )  # fmt: skip

    def as_secret(self) -> Secret:
        """Serialize the state as a secret."""
        return Secret(json.dumps(asdict(self)))

    @classmethod
    def from_secret(cls, secret: Secret) -> OAuthState:
        """Deserialize the output of `as_secret`.

        Raises:
            SecretBackendError: the secret has a different format.
        """
        try:
            return cls(**json.loads(secret.reveal()))
        except (ValueError, TypeError):
            pass
        raise SecretBackendError("the stored login state has a format that this version of wasmrt does not know")


def store_tokens(store: SecretsStore, user: str, name: str, state: OAuthState, tokens: Tokens) -> Secret:
    """Store `tokens` under `name`, and return the access token. Without a new refresh token, the old one is kept.

    Raises:
        SecretBackendError: the store cannot be written.
    """
    secret = Secret(tokens.access_token)
    refresh = tokens.refresh_token or state.refresh_token
    state = replace(state, refresh_token=refresh, expires_at=tokens.expires_at)
    # Store the state first: after a crash between the two writes, the next use renews the token again.
    store.set(user, name + OAUTH_SUFFIX, state.as_secret())
    store.set(user, name, secret, expires_at=tokens.expires_at)
    return secret


def load_state(store: SecretsStore, user: str, name: str) -> OAuthState | None:
    """Return the login state of the secret `name`, or None for a plain secret.

    Raises:
        SecretBackendError: the store cannot be read, or the state has an unknown format.
    """
    try:
        return OAuthState.from_secret(store.get(user, name + OAUTH_SUFFIX))
    except SecretNotFoundError:
        return None


_JUST_NOW_SECONDS = 5.0
_MAX_VIEWS = 10_000
_SLICE_SECONDS = 0.05
"""Longest single wait. A cancellation takes effect after at most this time."""


class Waiting(Protocol):
    """The interface of a call that waits for a secret, such as `Lifetime`."""

    def remaining(self) -> float:
        """Return the seconds until the call's deadline."""

    def check(self) -> None:
        """Raise if the call has ended."""


class _Renewal:
    """One renewal request and the calls that wait for it."""

    def __init__(self) -> None:
        self.done = EndEvent()
        self.secret: Secret | None = None
        self.error: SecretError | None = None

    def wait(self, waiting: Waiting | None) -> Secret:
        """Wait for the renewal while the call `waiting` runs. Return the new secret or raise the renewal's error."""
        if waiting is None:
            self.done.wait()
        else:
            while not self.done.wait(min(waiting.remaining(), _SLICE_SECONDS)):
                waiting.check()
        if self.secret is None:
            error = self.error or OAuthError("the token could not be renewed")
            raise OAuthError(error.message, code=error.code, hint=error.hint)
        return self.secret


class RenewingSecrets:
    """One user's secrets. OAuth tokens are renewed before they expire, and when a server refuses them.

    There is one instance per user and process. If several calls need the same token, one request on a separate thread
    renews it. Each call waits until its own deadline; no call repeats the request.
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
        self._running: dict[str, _Renewal] = {}
        self._renewed_at: dict[str, float] = {}

    def within(self, waiting: Waiting, places: Mapping[str, str] | None = None) -> SecretsWithin:
        """Return a view of these secrets for one call, which waits no longer than the call's deadline.

        `places` maps the names of secrets to the token URLs of the logins in the call's grant that set them.
        """
        return SecretsWithin(self, waiting, places)

    def get(self, name: str, waiting: Waiting | None = None, place: str | None = None) -> Secret:
        """Return the secret, renewed if it expires within a minute.

        `place` is the token URL of the granted login that sets the secret. A login from a different token URL is not
        renewed: the grant no longer allows requests to that different URL, and `place` must not get its refresh token.

        Raises:
            SecretNotFoundError, SecretExpiredError: the secret is not set, or has expired and cannot be renewed.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call `waiting` ended during the wait.
        """
        state = load_state(self._store, self._user, name)
        if state is not None and self._is_due(state) and _may_renew(state, place):
            with suppress(SecretError):  # the old value may still be valid; if not, `get` raises
                return self._join_renewal(name, refused=False).wait(waiting)
        return self._store.get(self._user, name)

    def exists(self, name: str) -> bool:
        """Return whether the secret is set, or can be renewed."""
        if self._store.exists(self._user, name):
            return True
        state = load_state(self._store, self._user, name)
        return state is not None and state.refresh_token is not None

    def hint_to_set(self, name: str) -> str:
        """Return an instruction for the user to set a secret."""
        return self._store.hint_to_set(self._user, name)

    def renewed(self, name: str, waiting: Waiting | None = None, place: str | None = None) -> Secret | None:
        """Renew the secret after the server refused it, and return it; return None if it cannot be renewed.

        Raises:
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call `waiting` ended during the wait.
        """
        try:
            state = load_state(self._store, self._user, name)
            if state is None or not _may_renew(state, place):
                return None
            return self._join_renewal(name, refused=True).wait(waiting)
        except SecretError:
            return None

    def _is_due(self, state: OAuthState) -> bool:
        return state.expires_at is not None and state.expires_at - OAUTH_REFRESH_MARGIN_SECONDS <= self._now()

    def _join_renewal(self, name: str, *, refused: bool) -> _Renewal:
        """Return the running renewal of a secret, or start a renewal."""
        with self._lock:
            running = self._running.get(name)
            if running is None:
                running = _Renewal()
                thread = threading.Thread(
                    target=self._run, args=(name, running, refused), name="wasmrt-renew", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:
                    raise OAuthError("no thread is available to renew a token") from None
                self._running[name] = running
            return running

    def _run(self, name: str, renewal: _Renewal, refused: bool) -> None:
        try:
            renewal.secret = self._renew_if_needed(name, refused=refused)
        except SecretError as error:
            renewal.error = error
        finally:
            with self._lock:
                self._running.pop(name, None)
            renewal.done.set()

    def _renew_if_needed(self, name: str, *, refused: bool) -> Secret:
        state = load_state(self._store, self._user, name)
        just_now = self._now() - self._renewed_at.get(name, 0.0) < _JUST_NOW_SECONDS
        if state is None or (just_now if refused else not self._is_due(state)):
            return self._store.get(self._user, name)  # another call or process has just renewed it
        if state.refresh_token is None:
            raise SecretExpiredError(f"the secret {name} cannot be renewed")
        secret = store_tokens(self._store, self._user, name, state, self._renew(state))
        self._renewed_at[name] = self._now()
        return secret


def _may_renew(state: OAuthState, place: str | None) -> bool:
    return state.refresh_token is not None and place in (None, state.token_url)


class SecretsWithin:
    """A view of one user's secrets for one call. No wait lasts longer than the call."""

    def __init__(self, secrets: RenewingSecrets, waiting: Waiting, places: Mapping[str, str] | None = None) -> None:
        self._secrets = secrets
        self._waiting = waiting
        self._places = places or {}

    def get(self, name: str) -> Secret:
        """Return the secret; see `RenewingSecrets.get`."""
        return offload(lambda: self._secrets.get(name, self._waiting, self._places.get(name)))

    def renewed(self, name: str) -> Secret | None:
        """Renew the secret after the server refused it, and return it; return None if it cannot be renewed."""
        return offload(lambda: self._secrets.renewed(name, self._waiting, self._places.get(name)))

    def hint_to_set(self, name: str) -> str:
        """Return an instruction for the user to set a secret."""
        return self._secrets.hint_to_set(name)


class Renewals:
    """The `RenewingSecrets` of all users of one store. All calls of a user share one of them."""

    def __init__(self, store: SecretsStore, renew: Callable[[OAuthState], Tokens]) -> None:
        self._store = store
        self._renew = renew
        self._lock = threading.Lock()
        self._views: OrderedDict[str, RenewingSecrets] = OrderedDict()

    def of(self, user: str) -> RenewingSecrets:
        """Return the secrets of `user`."""
        with self._lock:
            view = self._views.get(user)
            if view is None:
                view = self._views[user] = RenewingSecrets(self._store, user, self._renew)
                if len(self._views) > _MAX_VIEWS:
                    self._views.popitem(last=False)
            return view


def token_renewer(gateway: Callable[[], EgressGateway]) -> Callable[[OAuthState], Tokens]:
    """Return a function that requests new tokens. The function calls `gateway` each time, so the gateway may open late.

    The function raises `OAuthError` if there is no refresh token, or if the endpoint refuses the refresh token.
    """

    def renew(state: OAuthState) -> Tokens:
        if state.refresh_token is None:
            raise OAuthError("there is no refresh token", hint="log in again: wasmrt auth TOOL")
        return state.endpoint(gateway()).refresh(state.refresh_token)

    return renew
