"""Secrets that renew themselves, without a server: when they are due, and what is handed out where it fails."""

from __future__ import annotations

import pytest

import wasmrt.oauth._renewal as renewal
from wasmrt.errors import SecretBackendError, SecretExpiredError, SecretNotFoundError
from wasmrt.limits import OAUTH_REFRESH_MARGIN_SECONDS
from wasmrt.oauth import (
    OAuthError,
    OAuthState,
    Renewals,
    RenewingSecrets,
    Tokens,
    load_state,
    store_tokens,
    token_renewer,
)
from wasmrt.secrets import OAUTH_SUFFIX, Secret, replace_secret
from wasmrt.testing import MemorySecrets

FIRST, SECOND = "first-token-value", "second-token-value"
NOW = 1_700_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Logins:
    """Ann's `token`, which a login at an imaginary server brought; `renewals` counts what the server was asked."""

    def __init__(self, *, refresh: str | None = "refresh-token-value", lifetime: float | None = 3600.0) -> None:
        self.clock = Clock()
        self.store = MemorySecrets(now=self.clock)
        self.renewals = 0
        self.fails = False
        ends = None if lifetime is None else NOW + lifetime
        state = OAuthState(
            token_url="https://auth.example.com/token",
            client_id="client",
            client_secret=None,
            refresh_token=None,
            access_token_field="access_token",
            expires_at=None,
        )
        store_tokens(self.store, "ann", "token", state, Tokens(FIRST, refresh, ends))
        self.view = RenewingSecrets(self.store, "ann", self._renew, now=self.clock)

    def _renew(self, state: OAuthState) -> Tokens:
        self.renewals += 1
        if self.fails:
            raise OAuthError("the server is away")
        return Tokens(SECOND, None, self.clock.now + 3600.0)


@pytest.mark.parametrize(("seconds_left", "renewed"), [(0.5, True), (0, True), (-0.5, False)])
def test_a_token_is_due_a_minute_before_its_end(seconds_left: float, renewed: bool) -> None:
    logins = Logins()
    logins.clock.now = NOW + 3600.0 - OAUTH_REFRESH_MARGIN_SECONDS + seconds_left
    assert logins.view.get("token").reveal() == (SECOND if renewed else FIRST)
    assert logins.renewals == int(renewed)


def test_a_token_without_an_end_is_never_due() -> None:
    logins = Logins(lifetime=None)
    logins.clock.now = NOW + 10**9
    assert logins.view.get("token").reveal() == FIRST
    assert logins.renewals == 0


def test_the_old_value_serves_as_long_as_it_lives_where_renewing_fails() -> None:
    logins = Logins()
    logins.fails = True
    logins.clock.now = NOW + 3600.0 - 1
    assert logins.view.get("token").reveal() == FIRST
    logins.clock.now = NOW + 3600.0
    with pytest.raises(SecretExpiredError):
        logins.view.get("token")
    assert logins.renewals == 2


def test_a_token_that_came_without_its_successor_is_used_until_its_end() -> None:
    logins = Logins(refresh=None)
    logins.clock.now = NOW + 3600.0 - 1
    assert logins.view.get("token").reveal() == FIRST
    assert logins.view.renewed("token") is None
    logins.clock.now = NOW + 3601.0
    with pytest.raises(SecretExpiredError):
        logins.view.get("token")
    assert logins.view.exists("token") is False
    assert logins.renewals == 0


def test_a_token_exists_while_it_lives_or_can_be_had_again() -> None:
    logins = Logins()
    assert logins.view.exists("token") is True
    logins.clock.now = NOW + 3601.0
    assert logins.view.exists("token") is True
    assert logins.view.exists("other") is False
    assert logins.renewals == 0


def test_a_value_that_was_renewed_just_now_is_not_renewed_for_the_next_refusal() -> None:
    logins = Logins()
    first = logins.view.renewed("token")
    logins.clock.now += 4.9
    again = logins.view.renewed("token")
    assert first is not None and again is not None
    assert (first.reveal(), again.reveal(), logins.renewals) == (SECOND, SECOND, 1)
    logins.clock.now += 0.1
    assert logins.view.renewed("token") is not None
    assert logins.renewals == 2


def test_what_cannot_be_renewed_after_a_refusal_is_no_newer_value() -> None:
    logins = Logins()
    logins.fails = True
    assert logins.view.renewed("token") is None
    logins.store.set("ann", "plain", Secret("a plain value that is long"))
    assert logins.view.renewed("plain") is None


def test_an_endpoint_that_sends_no_successor_leaves_the_old_one_in_use() -> None:
    logins = Logins()
    logins.view.renewed("token")
    state = load_state(logins.store, "ann", "token")
    assert state is not None
    assert (state.refresh_token, state.expires_at) == ("refresh-token-value", NOW + 3600.0)


@pytest.mark.parametrize("text", ["[1, 2, 3]", '{"token_url": "https://a.example"}', "no json at all", "12345678901"])
def test_a_state_of_another_form_is_refused_without_its_text(text: str) -> None:
    store = MemorySecrets()
    store.set("ann", "token" + OAUTH_SUFFIX, Secret(text))
    with pytest.raises(SecretBackendError) as caught:
        load_state(store, "ann", "token")
    assert text not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_a_user_without_a_login_has_no_state() -> None:
    assert load_state(Logins().store, "bob", "token") is None
    with pytest.raises(SecretNotFoundError):
        RenewingSecrets(Logins().store, "bob", lambda state: pytest.fail("asked")).get("token")


def test_without_a_refresh_token_nobody_is_asked_for_a_new_one() -> None:
    state = load_state((logins := Logins(refresh=None)).store, "ann", "token")
    assert state is not None
    with pytest.raises(OAuthError, match="no refresh token"):
        token_renewer(lambda: pytest.fail("the gateway was asked"))(state)
    assert logins.renewals == 0


def test_of_very_many_users_the_first_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "_MAX_VIEWS", 2)
    renewals = Renewals(MemorySecrets(), lambda state: pytest.fail("asked"))
    ann, bob = renewals.of("ann"), renewals.of("bob")
    assert (renewals.of("ann"), renewals.of("bob")) == (ann, bob)
    renewals.of("cat")
    assert renewals.of("bob") is bob
    assert renewals.of("ann") is not ann


def test_a_value_that_a_person_sets_over_a_login_is_not_overwritten_by_its_renewal() -> None:
    logins = Logins()
    replace_secret(logins.store, "ann", "token", Secret("a value of her own"))
    logins.clock.now += 7200.0
    assert logins.view.get("token").reveal() == "a value of her own"
    assert logins.view.renewed("token") is None
    assert logins.renewals == 0
    replace_secret(logins.store, "ann", "other", Secret("no login before"), expires_at=logins.clock.now + 1.0)
    assert logins.view.get("other").reveal() == "no login before"
