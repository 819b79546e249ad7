"""A login of a person at a service: where it is, as which client, and the scopes that it asks for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wasmrt.capabilities.model._credential import read_secret_name
from wasmrt.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """The request for a token (RFC 6749, RFC 7636)."""

    authorization_url: str
    token_url: str
    client_id: str | None = None
    client_id_env: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_secret_env: str | None = None
    scopes: tuple[str, ...] = ()
    """Those that are asked for; the place's own choice where there is none."""
    use_pkce: bool = True
    extra_params: tuple[tuple[str, str], ...] = ()
    access_token_field: str = "access_token"  # noqa: S105 - a field's name
    pending_instructions: str | None = None
    device_authorization_url: str | None = None
    """The place that a machine without a browser gets a code from (RFC 8628)."""
    redirect_port: int | None = None
    """The port that the browser comes back to; a free one where there is none."""


@dataclass(frozen=True, slots=True)
class LoginCapability:
    """A login that a person may be asked for, and the secret that it sets.

    Raises:
        ConfigurationError: the vendor is not one that `wasmrt auth --vendor` could name.
    """

    vendor: str
    secret_name: str
    oauth: OAuthConfig

    def __post_init__(self) -> None:
        if not isinstance(self.vendor, str) or not 0 < len(self.vendor) <= 256:
            raise ConfigurationError(f"{self.vendor!r} is not the name of a login")
        object.__setattr__(self, "secret_name", read_secret_name(self.secret_name))

    @property
    def place(self) -> OAuthConfig:
        """All of it but the scopes, and the words for people: what has to be the same for two logins to be one."""
        return replace(self.oauth, scopes=(), pending_instructions=None)


def login_within(inner: LoginCapability, outer: LoginCapability) -> bool:
    """Tell whether `inner` gets no more than `outer`: the same secret, place and client, and no other scopes.

    No scope at all is what the place gives by itself, which is not part of any list of scopes.
    """
    return (
        (inner.secret_name, inner.place) == (outer.secret_name, outer.place)
        and set(inner.oauth.scopes) <= set(outer.oauth.scopes)
        and bool(inner.oauth.scopes) == bool(outer.oauth.scopes)
    )


def common_login(one: LoginCapability, other: LoginCapability) -> LoginCapability | None:
    """Return the login that gets what both do; None where there is none."""
    both = tuple(scope for scope in one.oauth.scopes if scope in other.oauth.scopes)
    common = replace(one, oauth=replace(one.oauth, scopes=both))
    return common if login_within(common, one) and login_within(common, other) else None
