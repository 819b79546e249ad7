"""The worlds a tool can be of: interfaces, function types and failure kinds, from a table made of the WIT under wit/.

Names are spelled as the binary format spells them, `package:name/interface@version`. Types are WIT texts with every
name written out: what `str` gives for the `FuncType` that the engine reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wasmrt.sandbox.component._worlds_table import INTERFACES, WORLDS, FailureKind

__all__ = [
    "AGENT_WORLDS",
    "ALL_WORLDS",
    "GENERIC_WORLD",
    "TOOL_WORLD",
    "FailureKind",
    "World",
    "exported_program",
    "exported_world",
    "is_offered",
    "is_tool_package",
    "schema_decides",
    "signatures",
]

# WASI 0.2: which functions of an interface there are is for `wasmrt.sandbox.guest.wasi` to say.
_WASI = r"wasi:(cli|io|clocks|random|filesystem|sockets|http)/[a-z0-9-]+@0\.2\.[0-9]+"


class World(NamedTuple):
    """One tool world."""

    export: str
    """The interface that a component of it exports, which names it: `near:agent/tool@0.3.0`."""
    imports: tuple[str, ...]
    """The interfaces that a component of it may import besides WASI's."""
    has_typed_failures: bool
    """True where failures carry a `FailureKind`, in both directions; else they are one string."""

    @property
    def schema_decides(self) -> bool:
        """True where params have to fit the schema that the component gives; near:agent's only describes them."""
        return not self.export.startswith("near:agent/")


ALL_WORLDS = tuple(World(*row) for row in WORLDS)
"""In the order of preference, where a component exports more than one."""
TOOL_WORLD, *_agent = ALL_WORLDS
AGENT_WORLDS = tuple(_agent)
"""near:agent from the unversioned one to the newest."""
GENERIC_WORLD = "plain functions"
"""The name, in reports and records, of every other world: one that exports functions with plain types."""
_PROGRAM = re.compile(r"wasi:cli/run@0\.2\.[0-9]+")
_OFFERED = frozenset(name for world in ALL_WORLDS for name in world.imports)
_PACKAGES = tuple({f"{world.export.partition('/')[0]}/" for world in ALL_WORLDS})


def signatures(interface: str) -> Mapping[str, str]:
    """Return the functions of an interface of the table, each with its type as WIT text.

    Raises:
        KeyError: the table has no such interface.
    """
    return INTERFACES[interface]


def exported_world(exports: Iterable[str]) -> World | None:
    """Return the world of a component with these exports, or None where it is of no tool world."""
    names = frozenset(exports)
    return next((world for world in ALL_WORLDS if world.export in names), None)


def exported_program(exports: Iterable[str]) -> str | None:
    """Return what a program of `wasi:cli/command` exports, `wasi:cli/run@0.2.3`; None for what is, or has, more."""
    names = tuple(exports)
    return names[0] if len(names) == 1 and _PROGRAM.fullmatch(names[0]) else None


def schema_decides(name: str) -> bool:
    """Return whether params have to fit the component's own schema, in the world of this export or `GENERIC_WORLD`."""
    return all(world.schema_decides for world in ALL_WORLDS if world.export == name)


def is_offered(interface: str) -> bool:
    """Return whether the host may have an imported interface: one of a tool world, or of WASI 0.2."""
    return interface in _OFFERED or re.fullmatch(_WASI, interface) is not None


def is_tool_package(interface: str) -> bool:
    """Return whether an interface is of a package of the tool worlds, in whatever version."""
    return interface.startswith(_PACKAGES)
