"""A known service: its hosts, what requests to it can do, and its scopes in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ENDS = "$"
"""The last segment of a path with nothing below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Something that requests to a service can do, in words that follow "can"."""

    methods: tuple[str, ...] = ()
    """Every method where there is none."""
    paths: tuple[tuple[str, ...], ...] = ()
    """Prefixes of paths as segments, `*` for any one; every path where there is none."""
    as_you: str = ""
    """With a credential. Empty where it can do nothing."""
    anybody: str = ""
    """Without one. Empty where it can do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that people know by its name."""

    name: str
    hosts: tuple[str, ...]
    """Exact, or with `*` for one label; a `*` in front stands for one or more."""
    can: tuple[Power, ...] = ()
    login: tuple[str, ...] = ()
    """Hosts of authorization URLs whose scopes these are."""
    scopes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Scopes of a login, each with words that follow "can"."""
