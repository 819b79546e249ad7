"""Known services: the hosts of a service, the permissions that requests to it use, and descriptions of its scopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wasmrt.capabilities.model import PathPattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """A permission at a service, described by phrases such as `read your mail`, as in `can read your mail`."""

    methods: tuple[str, ...] = ()
    """The methods of the requests; empty for all methods."""
    paths: tuple[PathPattern, ...] = ()
    """The paths of the requests; empty for all paths."""
    as_you: str = ""
    """The phrase for requests with a credential; empty if such requests have no effect."""
    anybody: str = ""
    """The phrase for requests without a credential; empty if such requests have no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A well-known service."""

    name: str
    hosts: tuple[str, ...]
    """Host patterns. `*` matches one label, but at the beginning of a pattern one or more labels."""
    can: tuple[Power, ...] = ()
    login: tuple[str, ...] = ()
    """The hosts of the authorization URLs whose scopes are in `scopes`."""
    scopes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The scopes of a login, each with a phrase such as `read your mail`."""
