"""Finds a tool by its name: in the catalog, else among those that come with wasmrt."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from wasmrt.capabilities import Capabilities
from wasmrt.component_bytes import ComponentBytes
from wasmrt.errors import NotInstalledError
from wasmrt.install._catalog import Catalog
from wasmrt.install._model import ToolVersion
from wasmrt.install.granted import granted_to
from wasmrt.names import did_you_mean

_BUNDLED = Path(__file__).parents[1] / "_tools"


class FoundTool(NamedTuple):
    """A tool's component, and the capabilities it was granted."""

    name: str
    component: ComponentBytes
    origin: str
    """`installed`, `bundled`, or `file` where it was never installed."""
    grant: Capabilities
    sidecar: str | None = None
    version: ToolVersion | None = None
    """The installed version."""
    warnings: tuple[str, ...] = ()


def find_tool(name: str, data: Path, *, number: int | None = None) -> FoundTool:
    """Find the tool that is called `name` in an installation, whose data folder is `data`.

    An installed tool comes before a bundled one of the same name. `number` is one of its versions, by default the
    active one.

    Raises:
        NotInstalledError: there is no tool of this name, or no such version of it.
        IntegrityError: the stored bytes are not what was installed.
    """
    catalog = Catalog(data)
    if catalog.has(name):
        version = catalog.get(name, number)
        component = catalog.read(version)
        return FoundTool(name, component, "installed", granted_to(version), version.sidecar, version)
    if name not in bundled_names():
        near = did_you_mean(name, [*bundled_names(), *(tool.name for tool in catalog.tools())])
        raise NotInstalledError(
            f"no tool named {name!r} is installed",
            hint="wasmrt list shows what is installed" if near is None else f"did you mean {near}?",
        )
    return find_bundled(name)


def find_bundled(name: str) -> FoundTool:
    """Find the tool that comes with wasmrt, one of `bundled_names`, under that name."""
    component = ComponentBytes((_BUNDLED / f"{name}.wasm").read_bytes())
    return FoundTool(name, component, "bundled", Capabilities.none())


def bundled_names() -> tuple[str, ...]:
    """Return the names of the tools that come with wasmrt."""
    return tuple(sorted(path.stem for path in _BUNDLED.glob("*.wasm")))
