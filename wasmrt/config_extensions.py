"""Sections of the operator's configuration file about what an agent may ask for: [extensions] and [skills]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.egress import read_host
from wasmrt.errors import ConfigurationError

_MAX_ENTRIES = 64


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


def _folders(key: str) -> Callable[[Any, Path], dict[str, Any]]:
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


EXTENSION_SECTIONS: dict[str, dict[str, Callable[[Any, Path], dict[str, Any]]]] = {
    "extensions": {"sources": _folders("sources"), "hosts": _hosts},
    "skills": {"folders": _folders("folders"), "sources": _folders("sources"), "hosts": _hosts},
}
