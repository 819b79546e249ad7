"""Automatic renewal without a server: when a token is due, and the value that is returned if renewal fails."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from wasmrt.testing import MemorySecrets

import wasmrt.egress.oauth._renewal as renewal
from wasmrt.core.errors import (
    CancelledError,
    DeadlineExceededError,
    SecretBackendError,
    SecretExpiredError,
    SecretNotFoundError,
)
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import OAUTH_REFRESH_MARGIN_SECONDS
from wasmrt.egress.oauth import (
    OAuthError,
    OAuthState,
    Renewals,
    RenewingSecrets,
    Tokens,
    load_state,
    store_tokens,
    token_renewer,
)
from wasmrt.egress.secrets import OAUTH_SUFFIX, Secret, replace_secret

FIRST, SECOND = "first-token-value", "second-token-value"
NOW = 1_700_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Logins:
    """Ann's `token` from a login at an imaginary server; `renewals` counts the requests to it."""

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
def test_a_token_is_due_a_minute_before_it_expires(seconds_left: float, renewed: bool) -> None:
    logins = Logins()
    logins.clock.now = NOW + 3600.0 - OAUTH_REFRESH_MARGIN_SECONDS + seconds_left
    assert logins.view.get("token").reveal() == (SECOND if renewed else FIRST)
    assert logins.renewals == int(renewed)


def test_a_token_without_an_expiry_is_never_due() -> None:
    logins = Logins(lifetime=None)
    logins.clock.now = NOW + 10**9
    assert logins.view.get("token").reveal() == FIRST
    assert logins.renewals == 0


def test_the_old_value_is_used_until_it_expires_if_renewal_fails() -> None:
    logins = Logins()
    logins.fails = True
    logins.clock.now = NOW + 3600.0 - 1
    assert logins.view.get("token").reveal() == FIRST
    logins.clock.now = NOW + 3600.0
    with pytest.raises(SecretExpiredError):
        logins.view.get("token")
    assert logins.renewals == 2


def test_a_token_without_a_refresh_token_is_used_until_it_expires() -> None:
    logins = Logins(refresh=None)
    logins.clock.now = NOW + 3600.0 - 1
    assert logins.view.get("token").reveal() == FIRST
    assert logins.view.renewed("token") is None
    logins.clock.now = NOW + 3601.0
    with pytest.raises(SecretExpiredError):
        logins.view.get("token")
    assert logins.view.exists("token") is False
    assert logins.renewals == 0


def test_a_token_exists_while_it_is_valid_or_renewable() -> None:
    logins = Logins()
    assert logins.view.exists("token") is True
    logins.clock.now = NOW + 3601.0
    assert logins.view.exists("token") is True
    assert logins.view.exists("other") is False
    assert logins.renewals == 0


def test_a_just_renewed_value_is_not_renewed_for_the_next_refusal() -> None:
    logins = Logins()
    first = logins.view.renewed("token")
    logins.clock.now += 4.9
    again = logins.view.renewed("token")
    assert first is not None and again is not None
    assert (first.reveal(), again.reveal(), logins.renewals) == (SECOND, SECOND, 1)
    logins.clock.now += 0.1
    assert logins.view.renewed("token") is not None
    assert logins.renewals == 2


def test_a_token_that_cannot_be_renewed_after_a_refusal_has_no_newer_value() -> None:
    logins = Logins()
    logins.fails = True
    assert logins.view.renewed("token") is None
    logins.store.set("ann", "plain", Secret("a plain value that is long"))
    assert logins.view.renewed("plain") is None


def test_without_a_new_refresh_token_the_old_one_stays_in_use() -> None:
    logins = Logins()
    logins.view.renewed("token")
    state = load_state(logins.store, "ann", "token")
    assert state is not None
    assert (state.refresh_token, state.expires_at) == ("refresh-token-value", NOW + 3600.0)


@pytest.mark.parametrize("text", ["[1, 2, 3]", '{"token_url": "https://a.example"}', "no json at all", "12345678901"])
def test_a_login_state_of_another_form_is_refused_without_its_text(text: str) -> None:
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


def test_without_a_refresh_token_no_renewal_is_requested() -> None:
    state = load_state((logins := Logins(refresh=None)).store, "ann", "token")
    assert state is not None
    with pytest.raises(OAuthError, match="no refresh token"):
        token_renewer(lambda: pytest.fail("the gateway was asked"))(state)
    assert logins.renewals == 0


def test_the_oldest_view_is_dropped_if_there_are_too_many_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "_MAX_VIEWS", 2)
    renewals = Renewals(MemorySecrets(), lambda state: pytest.fail("asked"))
    ann, bob = renewals.of("ann"), renewals.of("bob")
    assert (renewals.of("ann"), renewals.of("bob")) == (ann, bob)
    renewals.of("cat")
    assert renewals.of("bob") is bob
    assert renewals.of("ann") is not ann


class SilentEndpoint:
    """A token endpoint that does not respond until the test releases it."""

    def __init__(self) -> None:
        self.asked = 0
        self.reached, self.answers = threading.Event(), threading.Event()

    def __call__(self, state: OAuthState) -> Tokens:
        self.asked += 1
        self.reached.set()
        self.answers.wait(30)
        return Tokens(SECOND, None, NOW + 7200.0)


def due(endpoint: SilentEndpoint) -> RenewingSecrets:
    logins = Logins()
    logins.clock.now = NOW + 3600.0 - 1
    return RenewingSecrets(logins.store, "ann", endpoint, now=logins.clock)


@pytest.mark.parametrize("asks", ["get", "renewed"])
def test_a_silent_endpoint_gets_one_request_and_delays_no_call_past_its_deadline(asks: str) -> None:
    view = due(endpoint := SilentEndpoint())
    try:
        for _ in range(3):
            with pytest.raises(DeadlineExceededError):
                getattr(view.within(Lifetime(0.05)), asks)("token")
        assert endpoint.asked == 1
    finally:
        endpoint.answers.set()


def test_a_cancelled_call_stops_waiting_for_a_silent_endpoint() -> None:
    view = due(endpoint := SilentEndpoint())
    lifetime = Lifetime(60)
    try:
        canceller = threading.Thread(target=lambda: (endpoint.reached.wait(30), lifetime.cancel()))
        canceller.start()
        with pytest.raises(CancelledError):
            view.within(lifetime).get("token")
        canceller.join()
    finally:
        endpoint.answers.set()


@pytest.mark.parametrize("asks", ["get", "renewed"])
def test_a_call_with_time_left_waits_for_a_slow_endpoint(asks: str) -> None:
    view = due(endpoint := SilentEndpoint())

    class Patient(Lifetime):
        def check(self) -> None:
            super().check()
            endpoint.answers.set()  # it was silent for a whole slice of the wait

    assert getattr(view.within(Patient(60)), asks)("token").reveal() == SECOND
    assert endpoint.answers.is_set()


def test_one_renewal_serves_all_waiting_calls() -> None:
    view = due(endpoint := SilentEndpoint())
    got: list[str] = []
    threads = [threading.Thread(target=lambda: got.append(view.get("token").reveal())) for _ in range(8)]
    for thread in threads:
        thread.start()
    endpoint.reached.wait(30)
    endpoint.answers.set()
    for thread in threads:
        thread.join()
    assert (got, endpoint.asked) == ([SECOND] * 8, 1)


def test_a_value_set_by_the_user_is_not_overwritten_by_a_renewal() -> None:
    logins = Logins()
    replace_secret(logins.store, "ann", "token", Secret("a value of her own"))
    logins.clock.now += 7200.0
    assert logins.view.get("token").reveal() == "a value of her own"
    assert logins.view.renewed("token") is None
    assert logins.renewals == 0
    replace_secret(logins.store, "ann", "other", Secret("no login before"), expires_at=logins.clock.now + 1.0)
    assert logins.view.get("other").reveal() == "no login before"


def test_without_a_free_thread_the_old_value_is_used_and_the_next_call_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    logins = Logins()
    logins.clock.now = NOW + 3600.0 - 1
    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", start)
        assert logins.view.get("token").reveal() == FIRST
        assert logins.view.renewed("token") is None
    assert logins.renewals == 0
    assert logins.view.get("token").reveal() == SECOND


class _OtherLogin(MemorySecrets):
    """A store in which another login, without a refresh token, is stored after the state was read."""

    def __init__(self, logins: Logins) -> None:
        super().__init__(now=logins.clock)
        self._states = [logins.store.get("ann", "token" + OAUTH_SUFFIX)]
        self.set("ann", "token", Secret(FIRST))
        state = load_state(logins.store, "ann", "token")
        assert state is not None
        self._without = replace(state, refresh_token=None).as_secret()

    def get(self, user: str, name: str) -> Secret:
        if name.endswith(OAUTH_SUFFIX):
            return self._states.pop() if self._states else self._without
        return super().get(user, name)


@pytest.mark.parametrize("asks", ["get", "renewed"])
def test_a_concurrent_login_without_a_refresh_token_is_not_renewed(asks: str) -> None:
    logins = Logins()
    logins.clock.now = NOW + 3600.0 - 1
    view = RenewingSecrets(_OtherLogin(logins), "ann", lambda state: pytest.fail("asked"), now=logins.clock)
    told = getattr(view, asks)("token")
    assert (told and told.reveal()) == (FIRST if asks == "get" else None)


def test_a_refresh_token_is_only_sent_to_the_token_url_of_the_granted_login() -> None:
    for place, renewed in (("https://auth.example.com/token", True), ("https://evil.example/token", False)):
        logins = Logins()
        logins.clock.now = NOW + 3590.0
        seen = logins.view.within(Lifetime(5.0), {"token": place})
        assert seen.get("token").reveal() == (SECOND if renewed else FIRST)
        assert (seen.renewed("token") is not None) is renewed
        assert bool(logins.renewals) is renewed
        logins.clock.now = NOW + 3700.0
        if not renewed:
            with pytest.raises(SecretExpiredError):
                seen.get("token")


def test_a_login_that_the_grant_does_not_mention_is_renewed_at_its_own_endpoint() -> None:
    logins = Logins()
    logins.clock.now = NOW + 3590.0
    assert logins.view.within(Lifetime(5.0), {"other": "https://evil.example/"}).get("token").reveal() == SECOND
