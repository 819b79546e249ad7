"""A capability file: the requested capabilities, the description of the tool, and the sections `auth` and `setup`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wasmrt.capabilities._capabilities import Capabilities, read_sections
from wasmrt.capabilities.kinds._login import LoginCapability, OAuthConfig, read_oauth
from wasmrt.capabilities.sections import SECTIONS
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFile:
    """One capability file. Two files are equal if they differ only in layout or in accepted spellings of keys."""

    capabilities: Capabilities = field(default_factory=Capabilities)
    description: str | None = None
    version: str | None = None
    wit_version: str | None = None
    auth: AuthSection | None = None
    logins: tuple[AuthSection, ...] = ()
    """Logins for further vendors, each for a different secret."""
    setup_secrets: tuple[SetupSecret, ...] = ()
    """The secrets of the section `setup`, required ones first."""
    sections: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The remaining descriptive sections (`setup`, `discovery_summary` and others) as validated JSON data."""

    def __post_init__(self) -> None:
        # A login is described in two places: as a section for the user, and as a capability.
        logins = tuple(login for section in self.every_login if (login := section.login) is not None)
        if logins != self.capabilities.logins:
            object.__setattr__(self, "capabilities", self.capabilities.with_logins(logins))

    @property
    def every_login(self) -> tuple[AuthSection, ...]:
        """The section `auth`, if there is one, and then all sections of `logins`."""
        return (*(() if self.auth is None else (self.auth,)), *self.logins)


def parse(data: str | bytes) -> CapabilityFile:
    """Read a capability file.

    Raises:
        CapabilityFileError: the file is invalid; `problems` lists every error with its JSON path.
    """
    capabilities, tree = read_sections(data)
    description = tree.get("description")
    return CapabilityFile(
        capabilities=capabilities,
        description=None if description is None else _cut(description),
        version=tree.get("version"),
        wit_version=tree.get("wit_version"),
        auth=build_auth(tree["auth"]) if "auth" in tree else None,
        logins=tuple(build_auth(login | {"provider": vendor}) for vendor, login in tree.get("logins", {}).items()),
        setup_secrets=build_setup(tree.get("setup", {})),
        sections={key: tree[key] for key in SECTIONS if key in tree},
    )


def _cut(text: str) -> str:
    return text.encode()[:MAX_DESCRIPTION_BYTES].decode(errors="ignore")
