"""Says in sentences where a person logs in for a tool, and what that sets."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from wasmrt.capabilities.file import AuthSection, OAuthConfig
from wasmrt.capabilities.sentences._phrases import join_words


def explain_logins(logins: Iterable[AuthSection]) -> tuple[str, ...]:
    """Return a sentence for each login by browser: the place, the client, the scopes, and the secret that it sets."""
    return tuple(_sentence(login, login.oauth) for login in logins if login.oauth is not None)


def _sentence(login: AuthSection, oauth: OAuthConfig) -> str:
    agreed, token = (urlsplit(url).netloc for url in (oauth.authorization_url, oauth.token_url))
    place = agreed if agreed == token else f"{agreed}, with the token of {token}"
    client = oauth.client_id or oauth.client_id_env
    parts = [f"as the client {client}" if client else "", f"for {join_words(oauth.scopes)}" if oauth.scopes else ""]
    said = "".join(f", {part}" for part in parts if part)
    return f"login {login.vendor}: at {place}{said}; it sets your secret {login.secret_name}"
