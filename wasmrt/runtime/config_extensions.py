"""Sections of the operator's configuration file about what an agent may ask for: [extensions], [skills], [desktop]."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.catalog.bundled import DESKTOP_NAMES
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean
from wasmrt.core.strict_toml import ValueReader, path_in
from wasmrt.egress.gateway import read_host

_MAX_ENTRIES = 64
_APPLICATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class ExtensionSettings(NamedTuple):
    """The section [extensions]."""

    sources: tuple[Path, ...] = ()
    """Folders of packages that a model may have installed by name."""
    hosts: tuple[str, ...] = ()
    """Hosts of which a model may name an address of a package, or of an MCP server."""


class SkillSettings(NamedTuple):
    """The section [skills]."""

    folders: tuple[Path, ...] = ()
    """Folders of a person's own skills, which are trusted."""
    sources: tuple[Path, ...] = ()
    """Folders of skills that a model may have installed by name."""
    hosts: tuple[str, ...] = ()
    """Hosts of which a model may name the address of a skill."""


class DesktopSettings(NamedTuple):
    """The section [desktop]. Without it none of its tools is there."""

    tools: tuple[str, ...] = ()
    """The tools that are turned on."""
    applications: tuple[str, ...] = ()
    """Ids of desktop entries that `apps.open` may open."""
    hosts: tuple[str, ...] = ()
    """Hosts that `browser.open_url` may ask; every public one where none is named."""
    browser: Path | None = None
    """A headless Chromium; None for the one that is found."""


def _folders(key: str) -> ValueReader:
    def read(value: Any, folder: Path) -> dict[str, Any]:
        return {key: tuple(folder / text for text in _texts(value, f'write it like {key} = ["/srv/{key}"]'))}

    return read


def _hosts(value: Any, _: Path) -> dict[str, Any]:
    hint = 'write it like hosts = ["raw.githubusercontent.com"]'
    texts = _texts(value, hint)
    for host in texts:
        try:
            read_host(host)
        except ConfigurationError as error:
            raise ConfigurationError(f"hosts has {host!r:.80}: {error.message}", hint=hint) from None
    return {"hosts": texts}


def _texts(value: Any, hint: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each and "\0" not in each for each in value):
        raise ConfigurationError("must be a list of texts", hint=hint)
    if len(value) > _MAX_ENTRIES:
        raise ConfigurationError(f"may have {_MAX_ENTRIES} entries")
    return tuple(value)


def _desktop_tools(value: Any, _: Path) -> dict[str, Any]:
    hint = 'write it like tools = ["notify.send"]'
    names = _texts(value, hint)
    for name in names:
        if name not in DESKTOP_NAMES:
            near = did_you_mean(name, DESKTOP_NAMES)
            known = f"did you mean {near}?" if near else f"they are {', '.join(DESKTOP_NAMES)}"
            raise ConfigurationError(f"tools has {name!r:.80}, which is no tool for a desktop", hint=known)
    return {"tools": names}


def _applications(value: Any, _: Path) -> dict[str, Any]:
    hint = 'write it like applications = ["org.gnome.Calculator"], the names of desktop entries'
    names = _texts(value, hint)
    for name in names:
        if not _APPLICATION.fullmatch(name):
            raise ConfigurationError(f"applications has {name!r:.80}, which is no id of an application", hint=hint)
    return {"applications": tuple(name.removesuffix(".desktop") for name in names)}


EXTENSION_SECTIONS: dict[str, dict[str, ValueReader]] = {
    "extensions": {"sources": _folders("sources"), "hosts": _hosts},
    "desktop": {
        "tools": _desktop_tools,
        "applications": _applications,
        "hosts": _hosts,
        "browser": path_in("browser", "path", "/opt/chromium/shell"),
    },
    "skills": {"folders": _folders("folders"), "sources": _folders("sources"), "hosts": _hosts},
}
