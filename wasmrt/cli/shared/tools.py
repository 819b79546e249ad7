"""Find a tool by name or path, with its grant. The engine is not loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from wasmrt.capabilities import Capabilities, merge
from wasmrt.catalog._stored import load_tools
from wasmrt.catalog.bundled import (
    CREATE_JOB,
    FILES,
    RUN_CODE,
    SHELL_NAME,
    TOOLS,
    WEB_FETCH,
    WEB_SEARCH,
    OwnTool,
    bundled_tool,
    own_tool,
)
from wasmrt.catalog.find import FoundTool, described_by_sidecar, find_tool
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import ConfigurationError, NotInstalledError
from wasmrt.core.limits import ARCHIVE_SUFFIXES, COMPONENT_MAX_BYTES, MAX_INVOKE_DEPTH
from wasmrt.core.names import installed_name, spelling
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog


def find_named(name_or_path: str, *, capabilities: Path | None = None, number: int | None = None) -> FoundTool:
    """Find a tool by its path, or by the name of an installed or else a bundled tool.

    A component file is granted only `capabilities`, or nothing. For a bundled tool, `capabilities` narrows its grant.

    Raises:
        NotInstalledError: there is no such tool.
        ConfigurationError: `capabilities` is given for a tool whose grant it cannot change.
    """
    is_path = _is_path(name_or_path)
    found = _from_file(Path(name_or_path), capabilities) if is_path else _from_name(name_or_path, number)
    if number is not None and found.version is None:
        raise ConfigurationError(f"{found.name} is not installed and has no versions", hint="omit --version")
    if is_path or capabilities is None:
        return found
    if found.origin == "bundled" and found.sidecar is not None:
        return found._replace(grant=merge(found.grant, _read_grant(capabilities)))
    if found.origin == "bundled":
        raise ConfigurationError(
            f"{found.name} comes with wasmrt and needs no grant", hint="omit --capabilities, which is for files"
        )
    raise ConfigurationError(
        f"{found.name} runs with the grant that it was installed with",
        hint=f"to change the grant, run: wasmrt install SOURCE --name {found.name} --grant FILE",
    )


def _is_path(text: str) -> bool:
    return text.endswith((".wasm", *ARCHIVE_SUFFIXES)) or os.sep in text or text in (".", "..")


def find_component(name_or_path: str, part: str | None, *, capabilities: Path | None) -> tuple[FoundTool, str | None]:
    """Find a tool as `find_named` does, also by PACKAGE.TOOL, and return it with the part of the component to call.

    SECURITY: a bundled tool gets its own name, not an alias, because the rules of the policy refer to that name. A
    component file with the name of a tool of wasmrt gets a different name, so that rules for that tool do not apply.

    Raises:
        NotInstalledError, ConfigurationError: see `find_named`.
    """
    name = name_or_path
    if part is None and not _is_path(name) and own_tool(name) is None and bundled_tool(name) is None:
        name, part = _split_spelling(name)
    if part is not None and bundled_tool(name) is FILES and not open_catalog(find_places().data).has(name):
        alone = next((tool.name for tool in TOOLS if (tool.component, tool.tool) == (FILES.component, part)), None)
        name, part = (name, part) if alone is None else (alone, None)
    found = find_named(name, capabilities=capabilities)
    if found.origin == "bundled" and (own := bundled_tool(name)) is not None:
        found = found._replace(name=own.name)
    elif found.origin == "file" and (own_tool(found.name) or bundled_tool(found.name)) is not None:
        found = found._replace(name=f"{found.name}-file")
    return found, part


def _split_spelling(name: str) -> tuple[str, str | None]:
    """Split a name, in any spelling, into the installed tool that it means and the part of the tool.

    For example, words-count is split into `words` and `count`. A name that means no installed tool is returned
    unchanged.
    """
    meant, found = spelling(name), ""
    for tool in open_catalog(find_places().data).tools():
        own = spelling(tool.name)
        if tool.name == name:
            return name, None
        if (meant == own or meant.startswith(f"{own}_")) and len(tool.name) > len(found):
            found = tool.name
    return (found, name[len(found) + 1 :] or None) if found else (name, None)


def may_be_in_registry(name: str) -> bool:
    """Return whether a registry may have a tool with a name that `find_component` does not find.

    Only a registry has plugins, the tools of MCP servers, and some of wasmrt's tools. Loading it takes a second, so a
    misspelled name must not load it without need.
    """
    if _is_path(name) or bundled_tool(name) is not None:
        return False
    places = find_places()
    return own_tool(name) is not None or places.mcp_servers.exists() or places.config.exists()


def is_tool_name(name: str) -> bool:
    """Return whether an installed or bundled tool has this name; False for a path."""
    if installed_name(name) != name:
        return False
    return bundled_tool(name) is not None or open_catalog(find_places().data).has(name)


def find_host_tool(name: str, part: str | None, capabilities: Path | None) -> OwnTool | None:
    """Return the host tool (not a component) with this name; None for other tools, or if it needs a registry.

    An installed tool named like the shell replaces it, and an installed tool's name precedes aliases of host tools.
    The names of other host tools cannot be replaced.

    Raises:
        ConfigurationError: `part` or `capabilities` is given; both are only for components.
    """
    own = own_tool(name)
    if own is None or own.needs in ("registry", RUN_CODE.name, CREATE_JOB):
        return None
    is_replaceable = own.name == SHELL_NAME or name not in (own.name, *own.aliases)
    if is_replaceable and open_catalog(find_places().data).has(name):
        return None
    if part is not None or capabilities is not None:
        option = "--tool" if part is not None else "--capabilities"
        raise ConfigurationError(f"{name} is not a component", hint=f"omit {option}")
    return own


def _from_name(name: str, number: int | None) -> FoundTool:
    try:
        return find_tool(name, open_catalog(find_places().data), number=number, **_read_settings(name))
    except NotInstalledError as error:
        # Unlike pathlib, os.path raises no error for names that are too long for a file.
        kind = "file" if os.path.isfile(name) else "folder" if os.path.isdir(name) else None  # noqa: PTH112, PTH113
        if kind is not None:
            raise NotInstalledError(error.message, hint=f"for the {kind}, write ./{name}") from None
        raise


def _read_settings(name: str) -> dict[str, Any]:
    """Return the settings of a tool for the web, as arguments of `find_tool`."""
    tool = bundled_tool(name)
    if tool is None or tool.name not in (WEB_FETCH, WEB_SEARCH) or not find_places().config.exists():
        return {}
    from wasmrt.agent.config import read_config_file

    found = read_config_file(find_places().config).runtime
    return {"search": found.get("web_search"), "robots_txt": found.get("robots_txt", False)}


def _from_file(path: Path, capabilities: Path | None) -> FoundTool:
    from wasmrt.catalog.sources import FileSource, is_package

    if is_package(path):
        from wasmrt.catalog.package import PackageSource  # loads the schema validator

        fetched = PackageSource(path).fetch(max_bytes=COMPONENT_MAX_BYTES)
    else:
        fetched = FileSource(path).fetch(max_bytes=COMPONENT_MAX_BYTES)
    grant = Capabilities.none() if capabilities is None else _read_grant(capabilities)
    name, component = installed_name(fetched.name), ComponentBytes(fetched.data)
    sidecar = None if fetched.sidecar is None else fetched.sidecar.decode("utf-8", "replace")
    return FoundTool(
        name=name,
        component=component,
        origin="file",
        grant=grant,
        sidecar=sidecar,
        warnings=fetched.warnings,
        tools=load_tools(fetched.package) if fetched.package else described_by_sidecar(name, component, sidecar),
    )


def _read_grant(path: Path) -> Capabilities:
    from wasmrt.capabilities.file import parse
    from wasmrt.catalog.sources import read_capability_file

    return parse(read_capability_file(path)).capabilities


def with_invoked(found: FoundTool) -> tuple[FoundTool, ...]:
    """Return a tool and the tools that it may invoke, directly or through others, each with its own grant.

    Tools that are not installed are left out; invoking them is denied at run time.
    """
    gathered = {found.name: found}
    newest = [found]
    for _ in range(MAX_INVOKE_DEPTH):
        names = {name for tool in newest for name in _invoked_by(tool)} - gathered.keys()
        newest = [tool for name in sorted(names) if (tool := _find_invoked(name)) is not None]
        gathered |= {tool.name: tool for tool in newest}
    return tuple(gathered.values())


def _invoked_by(found: FoundTool) -> tuple[str, ...]:
    granted = found.grant.tool_invoke
    # An alias may name one tool of a package, as PACKAGE.TOOL.
    return () if granted is None else tuple(name.partition(".")[0] for _, name in granted.aliases)


def _find_invoked(name: str) -> FoundTool | None:
    try:
        return find_tool(name, open_catalog(find_places().data), **_read_settings(name))
    except NotInstalledError:
        return None
