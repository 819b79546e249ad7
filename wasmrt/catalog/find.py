"""Find a tool by its name. Installed tools are searched first, then bundled tools."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from wasmrt.capabilities import Capabilities
from wasmrt.catalog._catalog import Catalog
from wasmrt.catalog._model import ToolVersion
from wasmrt.catalog._stored import load_tools
from wasmrt.catalog.bundled import (
    CHOOSE_PROVIDER,
    PROGRAM_TOOLS,
    WEB_SEARCH,
    bundled_component,
    bundled_grant,
    bundled_sidecar,
    bundled_specs,
    bundled_tool,
    own_tool,
    shipped_names,
)
from wasmrt.catalog.granted import parameters_of, read_granted, request_of
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import NotInstalledError
from wasmrt.core.names import did_you_mean, spelling
from wasmrt.core.tool_defaults import Offer
from wasmrt.sandbox.component import ToolSpec, read_surface, worlds

if TYPE_CHECKING:
    from wasmrt.catalog.search import WebSearch


class FoundTool(NamedTuple):
    """A tool's component with its granted capabilities."""

    name: str
    component: ComponentBytes
    origin: str
    """`installed`, `bundled`, or `file` for a component file that is not installed."""
    grant: Capabilities
    sidecar: str | None = None
    version: ToolVersion | None = None
    """The installed version, or None if the tool is not installed."""
    tools: tuple[ToolSpec, ...] | None = None
    """The tools that the package or capability file describes, or None if the component describes its tools itself."""
    warnings: tuple[str, ...] = ()

    @property
    def offer(self) -> Offer | None:
        """The user's decision whether to offer an installed tool to agents, or None for other tools."""
        return None if self.version is None else self.version.offer

    @property
    def request(self) -> Callable[[], Capabilities] | None:
        """A function that reads the request of an installed tool, or None for other tools."""
        return None if self.version is None else partial(request_of, self.version)


def find_tool(
    name: str, catalog: Catalog, *, number: int | None = None, search: WebSearch | None = None, robots_txt: bool = False
) -> FoundTool:
    """Find the tool `name` in a catalog, or among the bundled tools.

    Installed tools take precedence over bundled tools with the same name. `number` selects a version, by default the
    active one; `search` is the provider for `web_search`. With `robots_txt`, `web_fetch` obeys the file of that name.

    Raises:
        NotInstalledError: the tool, the version or the search provider does not exist.
        IntegrityError: the stored bytes differ from the installed ones.
    """
    if catalog.has(name):
        version = catalog.get(name, number)
        component = catalog.read(version)
        tools = (
            load_tools(version.package) if version.package else described_by_sidecar(name, component, version.sidecar)
        )
        return FoundTool(name, component, "installed", read_granted(version), version.sidecar, version, tools)
    if (own := own_tool(name)) is not None:
        raise NotInstalledError(f"{name} is a tool of the host, not a component", hint=own.found)
    if (step := PROGRAM_TOOLS.get(spelling(name))) is not None:
        raise NotInstalledError(
            f"{name} needs a language model, which a program that embeds wasmrt provides", hint=step
        )
    if bundled_tool(name) is None:
        near = did_you_mean(name, [*shipped_names(), *(tool.name for tool in catalog.tools())])
        raise NotInstalledError(
            f"no tool named {name!r} is installed",
            hint="wasmrt list shows what is installed" if near is None else f"did you mean {near}?",
        )
    return find_bundled(name, search, robots_txt=robots_txt)


def find_bundled(name: str, search: WebSearch | None = None, *, robots_txt: bool = False) -> FoundTool:
    """Find the bundled tool with a name or alias, as `bundled_tool` does.

    Raises:
        NotInstalledError: the tool is `web_search` and no search provider is configured.
    """
    tool = bundled_tool(name)
    assert tool is not None
    if tool.name == WEB_SEARCH and search is None:
        raise NotInstalledError(
            "web_search needs a search provider, and none is configured",
            code="no-search-provider", hint=CHOOSE_PROVIDER,
        )  # fmt: skip
    component, grant = bundled_component(tool), bundled_grant(tool, search)
    sidecar, specs = bundled_sidecar(tool, search), bundled_specs(tool, search, robots_txt=robots_txt)
    return FoundTool(name, component, "bundled", grant, sidecar, tools=specs)


def described_by_sidecar(name: str, component: ComponentBytes, sidecar: str | None) -> tuple[ToolSpec, ...] | None:
    """Return the tool of a near:agent component with the schema from the section `parameters` of the capability file.

    This schema replaces the schema of the component. The result is None if the capability file has no such section, or
    if the component is not a near:agent component.
    """
    schema = parameters_of(sidecar)
    if schema is None:
        return None
    world = worlds.exported_world(item.name for item in read_surface(component.data).exports)
    if world is None or world.schema_decides:
        return None
    from wasmrt.sandbox.schema import (
        schema_problem,  # slow to import, because it loads the validator of schemas
    )

    problem = schema_problem(schema)
    if problem is None:
        return (ToolSpec(name, schema=schema),)
    said = f'"parameters" in the capability file: {problem}'
    return (ToolSpec(name, problems=(said,), schema_problem=said),)
