"""The tool worlds: interfaces, function types and failure kinds, from a table generated from the WIT in wit/.

Names have the form of the binary format, `package:name/interface@version`. A type is WIT text in which every type name
is replaced by the type, so it equals `str` of the `FuncType` that the engine reports.
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
    "exported_handler",
    "exported_program",
    "exported_world",
    "is_offered",
    "is_tool_package",
    "schema_decides",
    "signatures",
]

# The interfaces of WASI 0.2; `wasmrt.sandbox.guest.wasi` defines their functions.
_WASI = (
    r"wasi:(cli|io|clocks|random|filesystem|sockets|http)/[a-z0-9-]+@0\.2\.[0-9]+"
    r"|wasi:config/store@0\.2\.[0-9a-z.-]+"
)


class World(NamedTuple):
    """A tool world."""

    export: str
    """The interface that components of this world export, such as `near:agent/tool@0.3.0`. It also names the world."""
    imports: tuple[str, ...]
    """The interfaces that components of this world may import in addition to WASI."""
    has_typed_failures: bool
    """True if failures of the tool and of the host have a `FailureKind`. Otherwise failures are strings."""

    @property
    def schema_decides(self) -> bool:
        """True if params must match the component's schema. In near:agent worlds, the schema is only a description."""
        return not self.export.startswith("near:agent/")


ALL_WORLDS = tuple(World(*row) for row in WORLDS)
"""All tool worlds, in order of preference for components that export several."""
TOOL_WORLD, *_agent = ALL_WORLDS
AGENT_WORLDS = tuple(_agent)
"""The near:agent worlds, from the unversioned world to the newest version."""
GENERIC_WORLD = "plain functions"
"""The name that reports and receipts use for all other worlds. Their components export functions with plain types."""
_HANDLER = re.compile(r"wasi:http/incoming-handler@0\.2\.[0-9]+")
_PROGRAM = re.compile(r"wasi:cli/run@0\.2\.[0-9]+")
_OFFERED = frozenset(name for world in ALL_WORLDS for name in world.imports)
_PACKAGES = tuple({f"{world.export.partition('/')[0]}/" for world in ALL_WORLDS})


def signatures(interface: str) -> Mapping[str, str]:
    """Return the type of each function of an interface, as WIT text, by the function's name.

    Raises:
        KeyError: the table does not contain the interface.
    """
    return INTERFACES[interface]


def exported_world(exports: Iterable[str]) -> World | None:
    """Return the tool world that a component with these exports implements, or None."""
    names = frozenset(exports)
    return next((world for world in ALL_WORLDS if world.export in names), None)


def exported_program(exports: Iterable[str]) -> str | None:
    """Return the only export of a component if it is a program's `run` interface, such as `wasi:cli/run@0.2.3`.

    Return None if the component has another export, or several.
    """
    names = tuple(exports)
    return names[0] if len(names) == 1 and _PROGRAM.fullmatch(names[0]) else None


def exported_handler(exports: Iterable[str]) -> str | None:
    """Return the export that handles HTTP requests, such as `wasi:http/incoming-handler@0.2.3`, or None."""
    return next((name for name in exports if _HANDLER.fullmatch(name)), None)


def schema_decides(name: str) -> bool:
    """Return whether params must match the component's schema. `name` is the name of its world, or `GENERIC_WORLD`."""
    return all(world.schema_decides for world in ALL_WORLDS if world.export == name)


def is_offered(interface: str) -> bool:
    """Return whether an imported interface belongs to a tool world or to WASI 0.2."""
    return interface in _OFFERED or re.fullmatch(_WASI, interface) is not None


def is_tool_package(interface: str) -> bool:
    """Return whether an interface belongs to a package of the tool worlds, in any version."""
    return interface.startswith(_PACKAGES)
