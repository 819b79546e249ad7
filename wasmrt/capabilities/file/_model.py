"""A capability file: the requested capabilities and the description of the tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wasmrt.capabilities._capabilities import Capabilities, read_sections
from wasmrt.capabilities.file._auth import AuthSection, SetupSecret, build_auth, build_setup
from wasmrt.capabilities.sections import SECTIONS
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES


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
