"""The sections `auth` and `setup`: the way a person gets a tool's credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationEndpoint:
    """A request that tells whether a credential works."""

    url: str
    method: str = "GET"
    success_status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


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
    use_pkce: bool = True
    extra_params: tuple[tuple[str, str], ...] = ()
    access_token_field: str = "access_token"  # noqa: S105 - a field's name
    pending_instructions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSection:
    """The way a person gets the tool's credential."""

    secret_name: str
    display_name: str | None = None
    instructions: str | None = None
    setup_url: str | None = None
    token_hint: str | None = None
    env_var: str | None = None
    provider: str | None = None
    optional: bool = False
    oauth: OAuthConfig | None = None
    validation_endpoint: ValidationEndpoint | None = None

    @property
    def vendor(self) -> str:
        """The name that `wasmrt auth --vendor` takes: the provider, else the secret."""
        return self.provider or self.secret_name


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSecret:
    """A secret that a person is asked for before the first run."""

    name: str
    prompt: str = ""
    optional: bool = False


def build_auth(tree: dict[str, Any]) -> AuthSection:
    """Make the section from its checked JSON."""
    plain = {key: value for key, value in tree.items() if key not in ("oauth", "validation_endpoint")}
    oauth, validation = tree.get("oauth"), tree.get("validation_endpoint")
    return AuthSection(
        **plain,
        oauth=None
        if oauth is None
        else OAuthConfig(
            **oauth | {"scopes": tuple(oauth.get("scopes", ())), "extra_params": _pairs(oauth.get("extra_params", {}))}
        ),
        validation_endpoint=None
        if validation is None
        else ValidationEndpoint(**validation | {"headers": _pairs(validation.get("headers", {}))}),
    )


def build_setup(tree: dict[str, Any]) -> tuple[SetupSecret, ...]:
    """Make the secrets of a checked `setup` section, required ones first."""
    asked = [(item, False) for item in tree.get("required_secrets", ())]
    asked += [(item, True) for item in tree.get("optional_secrets", ())]
    return tuple(
        SetupSecret(name=item["name"], prompt=item.get("prompt", ""), optional=item.get("optional", optional))
        for item, optional in asked
    )


def _pairs(tree: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(tree.items()))
