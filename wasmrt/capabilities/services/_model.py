"""A known service: its hosts, the permissions that requests use, and descriptions of its scopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ENDS = "$"
"""The last segment of a path that has no subpaths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """A permission at a service, described by a phrase that follows "can"."""

    methods: tuple[str, ...] = ()
    """All methods if empty."""
    paths: tuple[tuple[str, ...], ...] = ()
    """Path prefixes as segments, `*` for any segment; all paths if empty."""
    as_you: str = ""
    """The phrase for requests with a credential; empty if they can do nothing."""
    anybody: str = ""
    """The phrase for requests without a credential; empty if they can do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A well-known service."""

    name: str
    hosts: tuple[str, ...]
    """Exact names, `*` for one label; a leading `*` matches one or more labels."""
    can: tuple[Power, ...] = ()
    login: tuple[str, ...] = ()
    """Hosts of the authorization URLs to which the scopes belong."""
    scopes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Scopes of a login, each with a phrase that follows "can"."""
