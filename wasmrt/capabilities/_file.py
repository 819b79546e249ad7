"""A capability file as a whole: the powers it asks for, and what it says about the tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wasmrt.capabilities._model import Capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationEndpoint:
    """A request that tells whether a credential works."""

    url: str
    method: str = "GET"
    success_status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """Where and how a token is asked for; RFC 6749 and 7636."""

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
    """How a person gets the tool's credential."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSecret:
    """A secret that a person is asked for before the first run."""

    name: str
    prompt: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFile:
    """What one capability file says. Two files are equal when they ask and say the same."""

    capabilities: Capabilities = field(default_factory=Capabilities)
    description: str | None = None
    version: str | None = None
    wit_version: str | None = None
    auth: AuthSection | None = None
    setup_secrets: tuple[SetupSecret, ...] = ()
    """Read from `setup`, required ones first."""
    sections: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The other descriptive sections, validated and carried as JSON: `setup`, `discovery_summary`, ..."""
