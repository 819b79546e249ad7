"""Says in sentences where a person logs in for a tool, for which scopes, and what changes between two logins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from wasmrt.capabilities.model import LoginCapability, OAuthConfig, login_within
from wasmrt.capabilities.sentences._phrases import join_words
from wasmrt.capabilities.services import Service, known_services, scope_in_words


class Change(NamedTuple):
    """One thing that is allowed on one side only."""

    section: str
    """`http.allowlist`, `limits.fuel`, ..."""
    sentence: str


def explain_logins(logins: Iterable[LoginCapability], *, services: Iterable[Service] | None = None) -> tuple[str, ...]:
    """Return a sentence for each login: the place, the client, the scopes in words, and the secret that it sets."""
    known = tuple(known_services() if services is None else services)
    return tuple(_sentence(login, known) for login in logins)


def added_logins(
    before: Iterable[LoginCapability], after: Iterable[LoginCapability], *, narrower: bool
) -> Iterator[Change]:
    """Yield what `after` asks of a person beyond `before`; where `narrower`, `after` is the older one."""
    old = {login.secret_name: login for login in before}
    for login in after:
        was, section = old.get(login.secret_name), f"logins.{login.vendor}"
        if was is None:
            yield Change(section, _sentence(login, known_services()))
        elif not login_within(login, was):
            for words in _differences(was, login, narrower=narrower):
                yield Change(section, f"login {login.vendor} {words}")


def _differences(was: LoginCapability, now: LoginCapability, *, narrower: bool) -> Iterator[str]:
    """Yield what is other in `now`; another place or client is wider alone, since nothing of it is the old one's."""
    one, other = was.oauth, now.oauth
    changed = [name for name in ABOUT_LOGIN if getattr(one, name) != getattr(other, name)]
    for name in [] if narrower else changed:
        yield f"{ABOUT_LOGIN[name]} {_told(name, other)} instead of {_told(name, one)}"
    more = [scope for scope in other.scopes if scope not in one.scopes]
    if more or (one.scopes and not other.scopes):
        yield f"{'' if narrower else 'also asks '}{_scopes(other, more, known_services())}"


def _told(name: str, oauth: OAuthConfig) -> str:
    value = getattr(oauth, name)
    if value is None:
        return "none"
    if name == "client_secret":
        return "one of its own"
    return join_words(f"{key}={text}" for key, text in value) or "none" if isinstance(value, tuple) else str(value)


ABOUT_LOGIN = {
    "authorization_url": "is at",
    "token_url": "gets its token from",
    "client_id": "is as the client",
    "client_id_env": "is as the client in the variable",
    "client_secret": "has the client's secret",
    "client_secret_env": "sends the client's secret in the variable",
    "extra_params": "sends the parameters",
    "use_pkce": "proves itself with PKCE:",
    "access_token_field": "reads the token from the field",
    "device_authorization_url": "gets codes for machines without a browser from",
    "redirect_port": "comes back to the port",
}
"""Settings of a login, each in words for the sentences on a change of it."""


def _sentence(login: LoginCapability, services: Iterable[Service]) -> str:
    oauth = login.oauth
    agreed, token = (urlsplit(url).netloc for url in (oauth.authorization_url, oauth.token_url))
    place = agreed if agreed == token else f"{agreed}, with the token of {token}"
    client = oauth.client_id or oauth.client_id_env
    parts = [f"as the client {client}" if client else "", _scopes(oauth, oauth.scopes, services)]
    said = "".join(f", {part}" for part in parts if part)
    return f"login {login.vendor}: at {place}{said}; it sets your secret {login.secret_name}"


def _scopes(oauth: OAuthConfig, scopes: Iterable[str], services: Iterable[Service]) -> str:
    host = urlsplit(oauth.authorization_url).hostname or ""
    words, unknown = [], []
    for scope in scopes:
        said = scope_in_words(host, scope, services)
        words.append(said) if said else unknown.append(scope)
    told = [f"to {join_words(words)}"] if words else []
    told += [f"for {join_words(unknown)}"] if unknown else []
    return " and ".join(told) or "for what that place gives by itself"
