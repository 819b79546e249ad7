"""Logins of a user at a service: URLs, client, scopes and the stored secret, with sentences that describe them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any
from urllib.parse import urlsplit

from wasmrt.capabilities._fields import Flag, ListOf, MapOf, Number, ObjectSchema, Property, Text
from wasmrt.capabilities._phrases import join_words
from wasmrt.capabilities.kinds._capability import Change
from wasmrt.capabilities.model import read_secret_name
from wasmrt.capabilities.services import Service, describe_scope, known_services
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.url import InvalidUrlError, parse_url

_WORD = Text(max_length=256)


def _read_web_url(text: str) -> str:
    # A placeholder such as {okta_domain} is filled in and checked when the user sets up the tool.
    if text.startswith("https://") and "{" in text:
        return text
    url = parse_url(text)
    if url.scheme == "https" or url.host in ("localhost", "127.0.0.1", "::1"):
        return text
    raise InvalidUrlError("the URL must begin with https://")


WEB_URL = Text(max_length=2048, check=_read_web_url, pattern=r"^https?://")


OAUTH = ObjectSchema(
    {
        "authorization_url": Property(field=WEB_URL, about="URL of the page where the user agrees.", required=True),
        "token_url": Property(
            field=WEB_URL, about="URL that exchanges the authorization code for a token.", required=True
        ),
        "client_id": Property(field=_WORD, about="Client ID."),
        "client_id_env": Property(field=_WORD, about="Environment variable with the client ID."),
        "client_secret": Property(field=_WORD, about="Client secret; only for clients whose secret is public."),
        "client_secret_env": Property(field=_WORD, about="Environment variable with the client secret."),
        "scopes": Property(
            field=ListOf(item=Text(max_length=512)), about="Requested scopes; without them, the service chooses."
        ),
        "use_pkce": Property(field=Flag(), about="True to use PKCE, which is the default."),
        "extra_params": Property(field=MapOf(item=_WORD), about="Additional parameters of the authorization URL."),
        "access_token_field": Property(
            field=_WORD, about="Field of the response that contains the token; access_token by default."
        ),
        "device_authorization_url": Property(
            field=WEB_URL, about="URL for device authorization (RFC 8628), used by wasmrt auth --device."
        ),
        "redirect_port": Property(
            field=Number(maximum=65535), about="Port of the redirect URL; by default any free port."
        ),
        "pending_instructions": Property(
            field=Text(max_length=16384), about="Instructions shown while wasmrt waits for the login."
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """The settings of an OAuth login (RFC 6749, RFC 7636)."""

    authorization_url: str
    token_url: str
    client_id: str | None = None
    client_id_env: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_secret_env: str | None = None
    scopes: tuple[str, ...] = ()
    """The requested scopes. If the tuple is empty, the service chooses the scopes."""
    use_pkce: bool = True
    extra_params: tuple[tuple[str, str], ...] = ()
    access_token_field: str = "access_token"  # noqa: S105 - a field's name
    pending_instructions: str | None = None
    device_authorization_url: str | None = None
    """The URL for device authorization (RFC 8628), for machines without a browser."""
    redirect_port: int | None = None
    """The port of the redirect URL, or None for any free port."""


@dataclass(frozen=True, slots=True)
class LoginCapability:
    """A login that a tool may request from the user. The login stores its token as the secret `secret_name`.

    Raises:
        ConfigurationError: the vendor is not a valid name for `wasmrt auth --vendor`.
    """

    vendor: str
    secret_name: str
    oauth: OAuthConfig

    def __post_init__(self) -> None:
        if not isinstance(self.vendor, str) or not 0 < len(self.vendor) <= 256:
            raise ConfigurationError(
                f"the vendor of a login must be text of 1 to 256 characters, not {self.vendor!r:.80}"
            )
        object.__setattr__(self, "secret_name", read_secret_name(self.secret_name))

    @property
    def place(self) -> OAuthConfig:
        """The OAuth settings without scopes and instructions. They are equal if service and client are equal."""
        return replace(self.oauth, scopes=(), pending_instructions=None)


def login_within(inner: LoginCapability, outer: LoginCapability) -> bool:
    """Return whether both logins have the same secret, service and client, and `outer` has all scopes of `inner`.

    A login without scopes gets the service's default scopes, which are unknown here. It is only within another login
    without scopes.
    """
    return (
        (inner.secret_name, inner.place) == (outer.secret_name, outer.place)
        and set(inner.oauth.scopes) <= set(outer.oauth.scopes)
        and bool(inner.oauth.scopes) == bool(outer.oauth.scopes)
    )


def intersect_login(one: LoginCapability, other: LoginCapability) -> LoginCapability | None:
    """Return the login with the scopes that both logins have, or None if the logins differ or share no scope."""
    both = tuple(scope for scope in one.oauth.scopes if scope in other.oauth.scopes)
    common = replace(one, oauth=replace(one.oauth, scopes=both))
    return common if login_within(common, one) and login_within(common, other) else None


def intersect_logins(
    request: Iterable[LoginCapability], grant: Sequence[LoginCapability]
) -> tuple[LoginCapability, ...]:
    """Return the logins that are in both lists, each with the scopes that it has in both lists."""
    pairs = (intersect_login(asked, given) for asked, given in product(request, grant))
    return tuple(login for login in pairs if login is not None)


def read_oauth(tree: dict[str, Any]) -> OAuthConfig:
    """Build the OAuth settings from validated JSON data."""
    extra = tuple(sorted(tree.get("extra_params", {}).items()))
    return OAuthConfig(**tree | {"scopes": tuple(dict.fromkeys(tree.get("scopes", ()))), "extra_params": extra})


def explain_logins(logins: Iterable[LoginCapability], *, services: Iterable[Service] | None = None) -> tuple[str, ...]:
    """Describe each login in a sentence: its service, client and scopes, and the secret that it sets."""
    known = tuple(known_services() if services is None else services)
    return tuple(_describe_login(login, known) for login in logins)


def added_logins(
    before: Iterable[LoginCapability], after: Iterable[LoginCapability], *, narrower: bool
) -> Iterator[Change]:
    """Yield a change for each login that `before` does not have, or has with fewer scopes or other settings.

    With `narrower`, `after` is the old version. Each change then describes what the new version no longer has.
    """
    old = {login.secret_name: login for login in before}
    for login in after:
        was, section = old.get(login.secret_name), f"logins.{login.vendor}"
        if was is None:
            yield Change(section, _describe_login(login, known_services()))
        elif not login_within(login, was):
            for words in _describe_differences(was, login, narrower=narrower):
                yield Change(section, f"login {login.vendor} {words}")


def _describe_differences(was: LoginCapability, now: LoginCapability, *, narrower: bool) -> Iterator[str]:
    """Yield phrases for settings of `now` that differ from `was`, then for its further scopes.

    With `narrower`, only scopes are described. Different settings are already described by the call without
    `narrower`, so they would be listed twice.
    """
    one, other = was.oauth, now.oauth
    changed = [name for name in ABOUT_LOGIN if getattr(one, name) != getattr(other, name)]
    for name in [] if narrower else changed:
        yield f"{ABOUT_LOGIN[name]} {_format_setting(name, other)} instead of {_format_setting(name, one)}"
    more = [scope for scope in other.scopes if scope not in one.scopes]
    if more or (one.scopes and not other.scopes):
        yield f"{'' if narrower else 'also asks '}{_describe_scopes(other, more, known_services())}"


def _format_setting(name: str, oauth: OAuthConfig) -> str:
    value = getattr(oauth, name)
    if value is None:
        return "none"
    if name == "client_secret":
        return "a hidden value"
    return join_words(f"{key}={text}" for key, text in value) or "none" if isinstance(value, tuple) else str(value)


ABOUT_LOGIN = {
    "authorization_url": "uses the login page",
    "token_url": "gets its token from",
    "client_id": "uses the client ID",
    "client_id_env": "reads the client ID from the variable",
    "client_secret": "uses as client secret",
    "client_secret_env": "reads the client secret from the variable",
    "extra_params": "sends the parameters",
    "use_pkce": "uses PKCE:",
    "access_token_field": "reads the token from the field",
    "device_authorization_url": "gets device codes from",
    "redirect_port": "uses the redirect port",
}
"""A phrase for each setting of a login; in a sentence about a change, the new and the old value follow."""


def _describe_login(login: LoginCapability, services: Iterable[Service]) -> str:
    oauth = login.oauth
    agreed, token = (urlsplit(url).netloc for url in (oauth.authorization_url, oauth.token_url))
    place = agreed if agreed == token else f"{agreed}, with the token of {token}"
    client = oauth.client_id or oauth.client_id_env
    parts = [f"as the client {client}" if client else "", _describe_scopes(oauth, oauth.scopes, services)]
    said = "".join(f", {part}" for part in parts if part)
    return f"login {login.vendor}: at {place}{said}; it sets your secret {login.secret_name}"


def _describe_scopes(oauth: OAuthConfig, scopes: Iterable[str], services: Iterable[Service]) -> str:
    host = urlsplit(oauth.authorization_url).hostname or ""
    words, unknown = [], []
    for scope in scopes:
        said = describe_scope(host, scope, services)
        words.append(said) if said else unknown.append(scope)
    told = [f"to {join_words(words)}"] if words else []
    told += [f"for {join_words(unknown)}"] if unknown else []
    return " and ".join(told) or "for the default scopes of the service"
