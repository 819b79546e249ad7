"""Logins that were made, beside those that a grant has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from wasmrt.capabilities import LoginCapability
from wasmrt.core.errors import SecretError
from wasmrt.egress.oauth import load_state
from wasmrt.egress.secrets import SecretsStore


def renews_itself(kept: SecretsStore, user: str, name: str) -> bool:
    """Tell whether a secret that has expired is a login's that is renewed at its next use."""
    with suppress(SecretError):
        state = load_state(kept, user, name)
        return state is not None and state.refresh_token is not None
    return False


def moved(logins: tuple[LoginCapability, ...], kept: SecretsStore, user: str) -> Iterator[tuple[LoginCapability, str]]:
    """Yield each login that was made at another place than the grant names, which is not renewed, or cannot be read."""
    for login in logins:
        try:
            state = load_state(kept, user, login.secret_name)
        except SecretError as error:
            yield login, error.message
            continue
        if state is not None and state.token_url != login.oauth.token_url:
            yield login, f"the login behind {login.secret_name} was made at another place than the granted one"
