"""A capability file as a whole: the capabilities it asks for, and its description of the tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities.file._auth import AuthSection, SetupSecret


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFile:
    """One capability file. Two files are equal when they ask and say the same."""

    capabilities: Capabilities = field(default_factory=Capabilities)
    description: str | None = None
    version: str | None = None
    wit_version: str | None = None
    auth: AuthSection | None = None
    logins: tuple[AuthSection, ...] = ()
    """Those of more vendors, each of another secret."""
    setup_secrets: tuple[SetupSecret, ...] = ()
    """Read from `setup`, required ones first."""
    sections: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The other descriptive sections, validated and carried as JSON: `setup`, `discovery_summary`, ..."""

    def __post_init__(self) -> None:
        # The sections say the same twice: how a person logs in, and the power that it is.
        logins = tuple(login for section in self.every_login if (login := section.login) is not None)
        if logins != self.capabilities.logins:
            object.__setattr__(self, "capabilities", self.capabilities.with_logins(logins))

    @property
    def every_login(self) -> tuple[AuthSection, ...]:
        """The way to each credential, that of `auth` first."""
        return (*(() if self.auth is None else (self.auth,)), *self.logins)
