"""The sections `auth` and `setup`: the ways in which a user provides a tool's credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wasmrt.capabilities.kinds._login import LoginCapability, OAuthConfig, read_oauth


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationEndpoint:
    """A request that checks whether a credential works."""

    url: str
    method: str = "GET"
    success_status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSection:
    """The way in which a user provides one credential."""

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
        """The name for `wasmrt auth --vendor`: the provider or, without a provider, the name of the secret."""
        return self.provider or self.secret_name

    @property
    def login(self) -> LoginCapability | None:
        """The OAuth login of this section, or None if the credential is provided in another way."""
        return None if self.oauth is None else LoginCapability(self.vendor, self.secret_name, self.oauth)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSecret:
    """A secret that the user enters before the first run."""

    name: str
    prompt: str = ""
    optional: bool = False


def build_auth(tree: dict[str, Any]) -> AuthSection:
    """Build the section from its validated JSON data."""
    plain = {key: value for key, value in tree.items() if key not in ("oauth", "validation_endpoint")}
    oauth, validation = tree.get("oauth"), tree.get("validation_endpoint")
    return AuthSection(
        **plain,
        oauth=None if oauth is None else read_oauth(oauth),
        validation_endpoint=None
        if validation is None
        else ValidationEndpoint(**validation | {"headers": _pairs(validation.get("headers", {}))}),
    )


def build_setup(tree: dict[str, Any]) -> tuple[SetupSecret, ...]:
    """Return the secrets in the validated JSON data of a `setup` section, required ones first."""
    asked = [(item, False) for item in tree.get("required_secrets", ())]
    asked += [(item, True) for item in tree.get("optional_secrets", ())]
    return tuple(
        SetupSecret(name=item["name"], prompt=item.get("prompt", ""), optional=item.get("optional", optional))
        for item, optional in asked
    )


def _pairs(tree: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(tree.items()))
