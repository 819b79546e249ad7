"""A capability file as a whole: the powers it asks for, and what it says about the tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wasmrt.capabilities._model import Capabilities

if TYPE_CHECKING:
    from wasmrt.capabilities._auth import AuthSection, SetupSecret


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
